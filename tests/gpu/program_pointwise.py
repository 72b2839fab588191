"""Random pointwise programs: each function draws one kind and returns the names of its results.

What a program computes is well conditioned: discontinuous functions (floor, comparisons) are applied to inputs that
hold exact values, never to results that were rounded.
"""

import re

from problems import ACTIVATIONS
from program_model import FLOATS, HALF, INTEGERS, Draft

Results = tuple[str, ...]
FIRST_ONLY = ("torch.exp(x)", "torch.sin(x)", "x.square()", "torch.cos(x)", "torch.expm1(x)", "x.abs().pow(1.7)")
LATER = tuple(text for text in ACTIVATIONS if text not in FIRST_ONLY)
NUMBERS = ("x * 0.37", "x / 3", "1.5 - x", "x + 0.125", "2 * x - 1", "-x", "x.abs()")


def applied(text: str, name: str) -> str:
    """Return a function of x, applied to another name."""
    return re.sub(r"\bx\b", name, text)


def step(d: Draft, name: str) -> str:
    """Return one well-conditioned step."""
    return applied(d.pick(*LATER, *NUMBERS), name)


def broadcast(d: Draft, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts to `shape`."""
    ones = tuple(d.pick(n, n, 1) for n in shape)
    return d.pick(shape, ones, shape[d.rng.randrange(len(shape)) :], (), shape[-1:], (*shape[:-1], 1))


def unary_chain(d: Draft) -> Results:
    """One input, several functions."""
    x = d.tensor(d.shape(), planted=d.pick("", "", "all"))
    d.line(f"r = {applied(d.pick(*FIRST_ONLY, *LATER), x)}")
    for _ in range(d.rng.randint(0, 3)):
        d.line(f"r = {step(d, 'r')}")
    if d.pick(0, 1):
        d.line(f"r = r.to(torch.{d.pick(*FLOATS)})")
    return ("r",)


def two_inputs(d: Draft) -> Results:
    """Two inputs with broadcasting, of one type or two."""
    shape = d.shape()
    x, y = d.tensor(shape), d.tensor(broadcast(d, shape), d.pick(d.dtype, d.pick(*FLOATS)))
    text = d.pick(
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.maximum({x}, {y})", "torch.minimum({y}, {x})",
        "torch.add({x}, {y}, alpha=0.5)", "{y} * {x} + {x}", "torch.where({y} > 0.25, {x}, {y})",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y)}")
    if d.pick(0, 1):
        d.line(f"r = {step(d, 'r')}")
    return ("r",)


def quotient(d: Draft) -> Results:
    """Divisions, roots and logarithms of positive values."""
    shape = d.shape()
    x, y = d.tensor(shape), d.tensor(broadcast(d, shape), values="positive")
    text = d.pick("{x} / {y}", "{x} * torch.rsqrt({y})", "{x} * {y}.sqrt()", "{x} + torch.log({y})")
    d.line(f"r = {text.format(x=x, y=y)}")
    d.line(f"r = {d.pick('r * 0.5', 'r.to(torch.float32)', f'r - {y}.reciprocal()', f'r * {y}.pow(-0.75)')}")
    return ("r",)


def many_inputs(d: Draft) -> Results:
    """Three or four inputs of mixed types."""
    shape = d.shape()
    names = [d.tensor(shape)]
    names += [d.tensor(broadcast(d, shape), d.pick(*FLOATS)) for _ in range(d.rng.randint(2, 3))]
    d.line(f"r = ({names[0]} + {names[1]}) * {names[2]}")
    if len(names) == 4:
        d.line(f"r = {d.pick(f'r - {names[3]}', f'torch.maximum(r, {names[3]})', f'r + F.silu({names[3]})')}")
    d.line(f"r = {step(d, 'r')}")
    return ("r",)


def fused_arithmetic(d: Draft) -> Results:
    """lerp, addcmul, addcdiv, clamp with tensor bounds: one type."""
    shape = d.shape()
    x, y, z = (d.tensor(shape) for _ in range(3))
    text = d.pick(
        "torch.lerp({x}, {y}, 0.3)", "torch.lerp({x}, {y}, 0.75)", "torch.addcmul({x}, {y}, {z}, value=0.5)",
        "torch.addcdiv({x}, {y}, {z}.abs() + 1)", "torch.clamp({x}, min={y}.clamp_max(0), max={z}.clamp_min(0))",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y, z=z)}")
    return ("r",)


def choice(d: Draft) -> Results:
    """Masks, comparisons of inputs, and a bool result."""
    shape = d.shape()
    x, y = d.tensor(shape, values="quarters"), d.tensor(shape, values="quarters")
    m = d.tensor(broadcast(d, shape), "bool", "flags")
    test = d.pick(f"{x} > {y}", f"{x} == {y}", f"{x} <= 0.5", f"{x} != {y}")
    d.line(f"keep = ({test}) {d.pick('&', '|', '^')} {m}")
    text = d.pick(
        "torch.where(keep, {x}, {y} * 2)", "{x}.masked_fill(keep, 0.5)", "{x} * keep", "torch.where(keep, {x}, 0.0)",
        "torch.where(~keep, -1.5, {y})",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y)}")
    return d.pick(("r",), ("r", "keep"), ("keep",))


def extremes(d: Draft) -> Results:
    """NaN and infinities through max, min, relu and clamp."""
    shape = d.shape()
    x, y = d.tensor(shape, planted="all"), d.tensor(broadcast(d, shape), planted="nan")
    text = d.pick(
        "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.clamp({x}, -1, 0.5)", "torch.relu({x})",
        "torch.where({x} != {x}, 0.0, {x})", "F.hardtanh({x})", "torch.clamp_min({y}, 0.25) + {x}",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y)}")
    d.line(f"s = torch.isnan({x})")
    return d.pick(("r",), ("r", "s"))


def integers(d: Draft) -> Results:
    """Arithmetic that wraps, bit operations, comparisons; torch's type promotion."""
    shape = d.shape()
    wide = d.pick(0, 1)
    x = d.tensor(shape, d.pick(*INTEGERS), "wide" if wide else "small")
    y = d.tensor(broadcast(d, shape), d.pick(*INTEGERS), "wide" if wide else "small")
    wrapping = ("{x} + {y}", "{x} * {y} - 3", "{x} - {y} * 2", "{x} & {y}", "{x} ^ {y}", "~{x} | {y}")
    tame = ("torch.clamp({x}, 1, 7)", "torch.where({x} > {y}, {x}, {y})", "{x}.abs() + {y}", "torch.maximum({x}, {y})")
    d.line(f"r = {d.pick(*wrapping, *(() if wide else tame)).format(x=x, y=y)}")
    d.line(f"s = {d.pick(f'{x} == {y}', f'{x} < {y}', f'{x}.to(torch.int64) + 1', f'{y} > 2')}")
    return d.pick(("r",), ("r", "s"))


def integer_division(d: Draft) -> Results:
    """Floors, remainders and truncations with both signs."""
    shape = d.shape()
    dtype = d.pick(*INTEGERS)
    x, y = d.tensor(shape, dtype, "small"), d.tensor(broadcast(d, shape), dtype, "nonzero")
    text = d.pick("{x} // {y}", "{x} % {y}", "torch.fmod({x}, {y})", "torch.div({x}, {y}, rounding_mode='trunc')")
    d.line(f"r = {text.format(x=x, y=y)}")
    d.line(f"s = {d.pick(f'{x} / {y}', f'{x} % 3', f'{x} // 2')}")
    return ("r", "s")


def mixed_kinds(d: Draft) -> Results:
    """Floats with integers and bools, and casts between them; floats hold quarters, so that truncation is exact."""
    shape = d.shape()
    x, k = d.tensor(shape, values="quarters"), d.tensor(broadcast(d, shape), d.pick(*INTEGERS), "small")
    m = d.tensor(broadcast(d, shape), "bool", "flags")
    d.line(f"r = {d.pick('{x} * {k} + 1', '{x} + {m}', '{k} / 4 + {x}', '({k} * {m}) * {x}').format(x=x, k=k, m=m)}")
    text = d.pick(
        "{x}.to(torch.int32) + {k}", "{k}.to(torch.{half}) * 0.5", "{m}.to(torch.float32) - {x}",
        "{x}.to(torch.bool)", "({x} > 0).to(torch.int64)", "{k} + {m}", "{x}.to(torch.int8)",
    )  # fmt: skip
    d.line(f"s = {text.format(x=x, k=k, m=m, half=d.pick(*HALF))}")
    return d.pick(("r", "s"), ("s",))


def rounding(d: Draft) -> Results:
    """floor, ceil, trunc, round half to even, sign, of exact values."""
    x = d.tensor(d.shape(), values="quarters")
    d.line(f"r = torch.{d.pick('floor', 'ceil', 'trunc', 'round', 'frac', 'sign')}({x})")
    d.line(f"s = torch.{d.pick('round', 'trunc')}({x} * 2) * 0.5 + {x}")
    return d.pick(("r", "s"), ("r",), ("s",))


def two_results(d: Draft) -> Results:
    """Two results of one pass, in types of their own."""
    shape = d.shape()
    x, y = d.tensor(shape), d.tensor(broadcast(d, shape))
    d.line(f"r = {x} * {y}")
    d.line(f"s = ({applied(d.pick(*LATER), x)} + {y}).to(torch.{d.pick(*FLOATS)})")
    d.line(f"r = {step(d, 'r')}")
    return ("r", "s")


def views(d: Draft) -> Results:
    """Views, slices, flips, padding and concatenation around pointwise work."""
    rows, length = d.matrix(least=2)
    x, y = d.tensor((rows, length)), d.tensor((rows, length))
    text = d.pick(
        "{x}.transpose(0, 1) + {y}.t() * 0.5", "{x}[:, ::2] * 3 - {y}[:, ::2]", "{x}[:, 1:] + {y}[:, :-1]",
        "({x} + {y}).flatten() * 2", "{x}.flip(-1) * {y}", "torch.cat([{x} * 2, {y}], -1)", "F.pad({x} + {y}, (1, 2))",
        "torch.stack([{x}, F.relu({y})], 1)", "{x}.unsqueeze(1) - {y}[:1].unsqueeze(0)", "{x}.roll(1, 0) + {y}",
        "torch.tril({x}) + {y}", "{x}.reshape(-1, 1) * 0.5",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y)}")
    return ("r",)
