"""Inputs of the public cases, and whether a kernel's outputs on them are right; the oracle runs on the CPU."""

import torch

INF, NAN = float("inf"), float("nan")
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
FP8 = tuple(
    getattr(torch, n)
    for n in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, n)
)


# ---- input builders: draw on the CPU (same bits on every device), move the dense base, then take views ----
def rn(dev, seed, *shape, dt=F32, scale=1.0, shift=0.0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=g) * scale + shift).to(dt).to(dev)


def ri(dev, seed, lo, hi, *shape, dt=torch.int32):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(lo, hi, shape, generator=g).to(dt).to(dev)


def ex(dev, seed, *shape, dt=F32, k=32, q=8.0):
    """Dyadic values k/q: sums and products stay exact, so the oracle can ask for bit equality."""
    return (ri("cpu", seed, -k, k + 1, *shape, dt=F32) / q).to(dt).to(dev)


# ---- checking ----
def flat(o):
    if torch.is_tensor(o):
        return [o.detach()]
    if isinstance(o, (tuple, list)):
        return [t for e in o for t in flat(e)]
    if isinstance(o, dict):
        return [t for k in sorted(o) for t in flat(o[k])]
    return [torch.as_tensor(o)]


def _num(t):
    t = t.detach().cpu()
    return t.to(F64) if (t.is_floating_point() or t.dtype in FP8) else t


def compare(out, ref, tol):
    """None when equal in count, shape, dtype and value (NaN == NaN, infinities must agree), else a reason.
    tol: None for exact, else (rtol, atol)."""
    a, b = flat(out), flat(ref)
    if len(a) != len(b):
        return f"{len(a)} outputs, want {len(b)}"
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if tuple(x.shape) != tuple(y.shape):
            return f"out{i}: shape {tuple(x.shape)}, want {tuple(y.shape)}"
        if x.dtype != y.dtype:
            return f"out{i}: dtype {x.dtype}, want {y.dtype}"
        p, q = _num(x), _num(y)
        if p.dtype == F64:
            bad = torch.isnan(p) != torch.isnan(q)
            bad |= (torch.isinf(p) | torch.isinf(q)) & (p != q) & ~torch.isnan(p)
            d = (p - q).abs()
            lim = torch.zeros_like(d) if tol is None else tol[1] + tol[0] * q.abs()
            fin = torch.isfinite(p) & torch.isfinite(q)
            bad |= fin & (d > lim)
        else:
            bad, d, fin = p != q, None, None
        if bad.any():
            w = ""
            if d is not None and (fin & bad).any():
                w = f", worst |d|={d[fin & bad].max().item():.3g}"
            return f"out{i}: {int(bad.sum())}/{bad.numel()} wrong{w}"
    return None


def expected(case, make, fn=None):
    """What a correct implementation returns; make() builds the inputs afresh, on the CPU, where the oracle runs."""
    fn = fn or case["fn"]
    if "ref" in case:
        return case["ref"](*make())
    eager = fn(*make())
    if case.get("oracle") != "fp64":
        return eager
    wide = fn(*[t.double() if torch.is_tensor(t) and t.is_floating_point() else t for t in make()])
    return tuple(w.to(e.dtype) for w, e in zip(flat(wide), flat(eager), strict=False))


def input_sets(case, device="cpu", seed=0):
    """(label, make, make_on_cpu) for each input set; a make builds the inputs afresh, for fn may write to them."""
    for n, mk in enumerate([case["inputs"], *case.get("more_inputs", ())]):
        yield f"in{n}", (lambda mk=mk: tuple(mk(device, seed))), (lambda mk=mk: tuple(mk("cpu", seed)))


def desc(t):
    if not torch.is_tensor(t):
        return repr(t)
    off = f"+{t.storage_offset()}" if t.storage_offset() else ""
    return f"{str(t.dtype)[6:]}{list(t.shape)}/{list(t.stride())}{off}"


def check(case, run=None, device="cpu", seed=0):
    """Problems of run (default: eager) on this case, [] when none. run(fn, *inputs) -> outputs."""
    run = run or (lambda fn, *a: fn(*a))
    probs = []
    for label, make, make_cpu in input_sets(case, device, seed):
        for fn in [case["fn"], *case.get("also", ())]:
            ins = make()
            if "raises" in case:
                try:
                    run(fn, *ins)
                    probs.append(f"{label}: no error raised")
                except case["raises"]:
                    pass
                continue
            try:
                out = run(fn, *ins)
            except Exception as e:  # a refusal is right only where the case says so
                if case.get("accept") == "match_or_refuse" and isinstance(e, NotImplementedError):
                    continue
                probs.append(f"{label}: {type(e).__name__}: {str(e)[:80]}")
                continue
            pick = case.get("probe", lambda o: o)
            if case.get("fresh"):
                p = {t.untyped_storage().data_ptr() for t in ins if torch.is_tensor(t) and t.numel()}
                if any(o.untyped_storage().data_ptr() in p for o in flat(out)):
                    probs.append(f"{label}: output shares an input's storage")
            got = tuple(t.clone() for t in flat(pick(out)))
            del out
            if not case.get("mutates"):
                del ins
            want = expected(case, make_cpu, fn)
            why = compare(got, want if "ref" in case else pick(want), case["tol"])
            if why:
                probs.append(f"{label}: {why}")
            if case.get("mutates"):
                ref_ins = make_cpu()
                fn(*ref_ins)
                why = compare(ins, ref_ins, case["tol"])
                if why:
                    probs.append(f"{label}: inputs after the call: {why}")
    return probs
