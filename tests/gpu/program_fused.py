"""Random normalisations, losses and fused chains: each function draws one kind and returns the names of its results."""

from program_model import FLOATS, HALF, Draft
from program_pointwise import LATER, Results, applied

_CASTS = tuple(f".to(torch.{name})" for name in FLOATS)


def softmax(d: Draft) -> Results:
    """softmax and log_softmax, with scale, bias and mask."""
    shape = d.matrix() if d.pick(0, 1) else d.block(d.pick(3, 4))
    x = d.tensor(shape, planted=d.pick("", "", "-inf", "all"))
    axis = d.pick(-1, -1, d.rng.randrange(len(shape)))
    d.line(f"r = {x} * {d.pick('0.125', '1', '2.5')}")
    if d.pick(0, 1):
        y = d.tensor(d.pick(shape[-1:], shape))
        d.line(f"r = r + {y}")
    if d.pick(0, 1):
        m = d.tensor(d.pick(shape[-1:], shape), "bool", "flags")
        d.line(f"r = r.masked_fill({m}, float('-inf'))")
    function = "softmax" if "masked" in d.lines[-1] else d.pick("softmax", "log_softmax")
    d.line(f"r = torch.{function}(r, dim={axis}){d.pick('', *_CASTS)}")
    return ("r",)


def _row_norm(d: Draft, name: str, length: int) -> str:
    """Return a norm of the rows, with the weights it wants."""
    w = d.tensor((length,))
    kind = d.pick("rms", "rms bare", "layer", "layer bare")
    if kind == "rms":
        return f"F.rms_norm({name}, ({length},), {w}, {d.pick('1e-6', '1e-5')})"
    if kind == "layer":
        b = d.tensor((length,))
        return f"F.layer_norm({name}, ({length},), {w}, {b}, 1e-5)"
    bare = f"F.rms_norm({name}, ({length},), eps=1e-6)" if kind == "rms bare" else f"F.layer_norm({name}, ({length},))"
    return f"{bare} * {w}"


def row_norm(d: Draft) -> Results:
    """rms_norm and layer_norm of rows of any length."""
    shape = d.matrix(least=7)
    d.line(f"r = {_row_norm(d, d.spread(shape), shape[1])}")
    return ("r",)


def other_norm(d: Draft) -> Results:
    """group_norm, instance_norm, and layer_norm over several axes."""
    groups = d.pick(1, 2, 4)
    n, c, rest = d.pick(1, 2, 5), groups * d.pick(1, 3, 8), d.pick((63,), (8, 8), (15, 17), (4, 5, 6))
    x = d.spread((n, c, *rest), values=d.pick("normal", "shifted"))
    if d.pick(0, 1, 2) == 0:
        shape = (c, *rest)
        d.line(f"r = F.layer_norm({x}, {shape}, {d.tensor(shape)}, {d.tensor(shape)})")
        return ("r",)
    w, b = d.tensor((c,)), d.tensor((c,))
    norms = (f"F.group_norm({x}, {groups}, {w}, {b}, 1e-5)", f"F.group_norm({x}, {groups})", f"F.instance_norm({x})")
    d.line(f"r = {d.pick(*norms, f'F.instance_norm({x}, weight={w}, bias={b})')}")
    return ("r",)


def batch_norm(d: Draft) -> Results:
    """batch_norm with given statistics, and with those of the batch, which updates the running ones."""
    shape = d.pick((2, 3, 7, 9), (4, 8, 16, 16), (16, 5), (3, 17, 100), (5, 32, 33, 8), (64, 33))
    train = d.pick(False, True)
    d.dtype = "float32" if train else d.dtype
    x, channels = d.spread(shape), (shape[1],)
    mean = d.tensor(channels, layout="dense", updated=train)
    var = d.tensor(channels, values="positive", layout="dense", updated=train)
    w, b = d.tensor(channels), d.tensor(channels)
    d.line(f"r = F.batch_norm({x}, {mean}, {var}, {w}, {b}, {train}, 0.1, 1e-5)")
    return ("r",)


def update(d: Draft) -> Results:
    """A running mean that is updated in place."""
    rows, length = d.matrix(least=2)
    x = d.tensor((rows, length), "float32")
    running = d.tensor((length,), "float32", layout="dense", updated=True)
    d.line(f"{running}.mul_(0.9).add_({x}.mean(0), alpha=0.1)")
    d.line(f"r = {x} * 2")
    return ("r",)


def residual_norm(d: Draft) -> Results:
    """The residual sum and its norm: two results."""
    shape = d.matrix(least=7)
    x, y = d.spread(shape), d.tensor(shape, d.pick(d.dtype, d.dtype, "float32"))
    d.line(f"h = {x} + {y}")
    if d.tensors[1].dtype != d.tensors[0].dtype:
        d.line(f"h = h.to(torch.{d.tensors[0].dtype})")
    d.line(f"r = {_row_norm(d, 'h', shape[1])}")
    return ("r", "h")


def norm_activation(d: Draft) -> Results:
    """norm, activation and cast."""
    shape = d.matrix(least=7)
    d.line(f"r = {_row_norm(d, d.spread(shape), shape[1])}")
    d.line(f"r = {applied(d.pick(*LATER), 'r')}{d.pick(*_CASTS)}")
    return ("r",)


def quantise(d: Draft) -> Results:
    """int8 and fp8 with a scale per row or group; the scales are powers of two, so that every rounding is decided."""
    rows, length = d.pick(1, 5, 64, 333), d.pick(128, 256, 1024, 4096)
    bound, dtype = d.pick((127, "int8"), (448, "float8_e4m3fn"))
    group = d.pick(length, length, 128)
    shape = (rows, length) if group == length else (rows, length // group, group)
    x = d.tensor(shape, values=f"grid {bound}", layout=d.pick("dense", "padded", "offset"))
    d.line(f"scale = {x}.to(torch.float32).abs().amax(-1, keepdim=True) / {bound}")
    d.line(f"r = {x}.to(torch.float32) / scale")
    if dtype == "int8":
        d.line("r = torch.round(r).clamp(-127, 127)")
    d.line(f"r = r.to(torch.{dtype})")
    return ("r", "scale")


def dequantise(d: Draft) -> Results:
    """int8 times a scale per row, with a bias."""
    rows, length = d.matrix()
    q, scale = d.tensor((rows, length), "int8", "small"), d.tensor((rows, 1), "float32", "positive")
    b = d.tensor((length,), d.pick(*FLOATS))
    d.line(f"r = ({q}.to(torch.float32) * {scale} + {b}).to(torch.{d.pick(*HALF)})")
    return ("r",)


def loss(d: Draft) -> Results:
    """Losses of two tensors with every reduction."""
    shape = d.matrix(least=7)
    reduction = d.pick("mean", "mean", "sum", "none")
    x = d.tensor(shape)
    name = d.pick("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "bce", "bce logits", "hinge")
    if name == "hinge":
        t = d.tensor(shape, values="signs")
        d.line(f"r = torch.clamp(1 - {x} * {t}, min=0).mean()")
        return ("r",)
    if name in ("bce", "bce logits"):
        p, t = d.tensor(shape, values="share"), d.tensor(shape, values="share")
        call = f"binary_cross_entropy({p}, {t}" if name == "bce" else f"binary_cross_entropy_with_logits({x}, {t}"
    elif name == "kl_div":
        call = f"kl_div(torch.log_softmax({x}, -1), torch.softmax({d.tensor(shape)}, -1)"
        reduction = d.pick("batchmean", "sum")
    else:
        call = f"{name}({x}, {d.tensor(shape)}"
    d.line(f"r = F.{call}, reduction='{reduction}')")
    return ("r",)


def cross_entropy(d: Draft) -> Results:
    """cross_entropy and nll_loss of class indices."""
    rows, classes = d.matrix(least=2)
    d.dtype = d.pick("float32", "bfloat16")  # eager's fp16 sums of the smoothed form overflow
    x, t = d.tensor((rows, classes)), d.tensor((rows,), "int64", f"class {classes}")
    reduction = d.pick("mean", "sum", "none")
    more = d.pick("", "", ", ignore_index=1", ", label_smoothing=0.1") if rows > 8 else ""
    if d.pick(0, 1, 2) == 0:
        d.line(f"r = F.nll_loss(torch.log_softmax({x}, -1), {t}, reduction='{reduction}')")
    else:
        d.line(f"r = F.cross_entropy({x}, {t}, reduction='{reduction}'{more})")
    return ("r",)


def similarity(d: Draft) -> Results:
    """Unit rows, cosine similarity, triplet loss."""
    shape = d.matrix(least=7)
    x, y, z = (d.tensor(shape, values=v) for v in ("positive", "positive", "normal"))
    text = d.pick(
        "F.normalize({x}, dim=-1)", "F.cosine_similarity({x}, {y}, dim=-1)", "F.triplet_margin_loss({x}, {y}, {z})",
        "F.normalize({z}, p=1.0, dim=-1) * 8", "{z} / {z}.norm(dim=-1, keepdim=True)", "{z} / {z}.norm()",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y, z=z)}")
    return ("r",)


def gated(d: Draft) -> Results:
    """silu-and-mul and its relatives, of two tensors or of the halves of one."""
    rows, length = d.matrix(least=2)
    gate = d.pick("F.silu", "F.gelu", "torch.sigmoid", "F.relu")
    if d.pick(0, 1):
        length -= length % 2
        d.line(f"a, b = {d.tensor((rows, length))}.chunk(2, -1)")
        d.line(f"r = {gate}(a) * b")
    else:
        d.line(f"r = {gate}({d.tensor((rows, length))}) * {d.tensor((rows, length))}")
    return ("r",)


def rotary(d: Draft) -> Results:
    """Rotary embedding of (batch, sequence, heads, size), halves or pairs."""
    batch, sequence, heads, size = d.pick(1, 2), d.pick(1, 7, 32), d.pick(1, 3, 8), d.pick(32, 64, 128)
    x = d.tensor((batch, sequence, heads, size))
    c, s = (d.tensor((sequence, 1, size // 2), "float32", layout="dense") for _ in range(2))
    d.line(f"a, b = {x}.chunk(2, -1)" if d.pick(0, 1) else f"a, b = {x}[..., ::2], {x}[..., 1::2]")
    d.line(f"r = torch.cat([a * {c} - b * {s}, b * {c} + a * {s}], -1).to(torch.{d.dtype})")
    return ("r",)


def two_kernels(d: Draft) -> Results:
    """What no single pass over memory computes: a reduction across rows of a result of row reductions."""
    rows, length = d.matrix(least=7)
    x = d.tensor((rows, length))
    d.line(f"p = torch.softmax({x}, -1)")
    texts = ("r = p.sum(0)", "r = (p - p.mean(0)).to(torch.float32)", "r = p.amax(0) * 2", "r = p.sum()")
    d.line(d.pick(*texts))
    return d.pick(("r",), ("r", "p"))
