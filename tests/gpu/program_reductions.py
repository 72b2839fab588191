"""Random reductions and scans: each function draws one kind and returns the names of its results."""

import math

from program_model import FLOATS, INTEGERS, Draft
from program_pointwise import LATER, Results, applied

PROLOGUES = ("x", "x", "x * 0.5", "F.relu(x)", "x.abs()", "torch.sigmoid(x)", "x * x", "x.to(torch.float32)")
EPILOGUES = ("r", "r", "r * 2", "r + 1", "F.relu(r)", "r.to(torch.float32)", "r.to(torch.bfloat16)")


def _over(d: Draft, axes: tuple[int, ...]) -> str:
    """Return the arguments that name axes, counted from either end."""
    rank = len(d.tensors[0].shape)
    if len(axes) == rank and d.pick(0, 1):
        return ""
    named = [axis - rank if d.pick(0, 1) else axis for axis in axes]
    keep = d.pick("", ", keepdim=True")
    return f"dim={named[0] if len(named) == 1 else tuple(named)}{keep}"


def _safe(shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    """Return values whose sums are well conditioned, also where few of them are left to judge by."""
    left = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
    return "normal" if left >= 32 else "positive"


def total(d: Draft) -> Results:
    """sum and mean over any axes."""
    shape = d.shape()
    axes = d.axes(len(shape))
    x = d.tensor(shape, values=_safe(shape, axes), planted=d.pick("", "", "", "all"))
    d.line(f"r = {applied(d.pick(*PROLOGUES), x)}")
    d.line(f"r = r.{d.pick('sum', 'mean')}({_over(d, axes)})")
    d.line(f"r = {d.pick(*EPILOGUES)}")
    return ("r",)


def wide_total(d: Draft) -> Results:
    """A sum with a result type of its own, over rows of any length."""
    shape = d.matrix()
    x = d.tensor(shape, values="positive")
    d.line(f"r = {x}.sum({d.pick('-1', '0')}, dtype=torch.float32)")
    return ("r",)


def product(d: Draft) -> Results:
    """prod over one axis or all, of values near 1; eager PyTorch on the CPU rounds each product of 16 bits."""
    d.dtype = "float32"
    shape = d.matrix() if d.pick(0, 1) else d.block(3)
    axis = d.rng.randrange(len(shape))
    x = d.tensor(shape, values="near_one")
    everything = math.prod(shape) <= 4096 and d.pick(0, 1)
    axes = "" if everything else f"dim={axis}{d.pick('', ', keepdim=True')}"
    d.line(f"r = {x}.prod({axes})")
    return ("r",)


def extremum(d: Draft) -> Results:
    """amax and amin with ties, NaN and infinities."""
    shape = d.shape()
    axes = d.axes(len(shape))
    x = d.tensor(shape, values=d.pick("quarters", "normal"), planted=d.pick("", "all", "nan"))
    d.line(f"r = {d.pick(x, x, f'({x} * 2)', f'(-{x})', f'{x}.abs()')}.{d.pick('amax', 'amin')}({_over(d, axes)})")
    return ("r",)


def place_of_extremum(d: Draft) -> Results:
    """argmax and argmin of exact values with ties; the first index wins, NaN beats all."""
    shape = d.shape()
    dtype = d.pick(d.dtype, d.dtype, d.pick(*INTEGERS))
    values = "small" if dtype in INTEGERS else "quarters"
    x = d.tensor(shape, dtype, values, planted="" if dtype in INTEGERS else d.pick("", "nan"))
    axis = d.pick("", f"dim={d.rng.randrange(len(shape))}", "dim=-1, keepdim=True")
    d.line(f"r = {d.pick(x, f'(-{x})', f'({x} * 2)')}.{d.pick('argmax', 'argmin')}({axis})")
    return ("r",)


def extremum_with_place(d: Draft) -> Results:
    """max and min along an axis: values and indices."""
    shape = d.shape()
    x = d.tensor(shape, values="quarters", planted=d.pick("", "nan"))
    axis = d.rng.randrange(len(shape))
    d.line(f"r, s = torch.{d.pick('max', 'min')}({x}, dim={axis})")
    return d.pick(("r", "s"), ("r",), ("s",), ("r * 2", "s + 1"))


def variance(d: Draft) -> Results:
    """var and std, whose naive form cancels."""
    shape = d.matrix(least=7) if d.pick(0, 1) else tuple(n + 6 for n in d.block(2))
    x = d.tensor(shape, values=d.pick("normal", "shifted"), layout="dense" if d.pick(0, 1) else "offset")
    correction = d.pick("", ", correction=0", ", unbiased=False")
    call = d.pick(f"{x}.var(-1{correction})", f"{x}.std(-1{correction})", f"{x}.var((0, 1){correction})")
    if d.pick(0, 1):
        d.line(f"r = {call}")
        return ("r",)
    d.line(f"r, s = torch.var_mean({x}, dim=-1, keepdim=True)")
    return ("r", "s")


def truth(d: Draft) -> Results:
    """any and all of masks and comparisons."""
    shape = d.shape()
    x, m = d.tensor(shape, values="quarters"), d.tensor(shape, "bool", d.pick("rare", "flags"))
    axes = d.axes(len(shape))
    d.line(f"r = {d.pick(m, f'({x} > 3.5)', f'({m} | ({x} == 0))')}.{d.pick('any', 'all')}({_over(d, axes[:1])})")
    d.line(f"s = ({x} < 0).sum({_over(d, axes)})")
    return d.pick(("r",), ("r", "s"))


def logsumexp(d: Draft) -> Results:
    """logsumexp over any axes, with -inf rows."""
    shape = d.shape()
    axes = d.axes(len(shape))
    x = d.tensor(shape, planted=d.pick("", "-inf"))
    d.line(f"r = torch.logsumexp({d.pick(x, f'{x} * 3')}, dim={axes})")
    return ("r",)


def norm(d: Draft) -> Results:
    """Vector norms of every order."""
    shape = d.shape()
    axes = d.axes(len(shape))
    x = d.tensor(shape)
    order = d.pick("1", "2", "3", "float('inf')", "-float('inf')")
    d.line(f"r = torch.linalg.vector_norm({x}, {order}, dim={axes}{d.pick('', ', keepdim=True')})")
    return ("r",)


def integer_total(d: Draft) -> Results:
    """Sums, products and extremes of integers and bools; torch gives int64."""
    shape = d.shape()
    dtype = d.pick(*INTEGERS, "bool")
    x = d.tensor(shape, dtype, "flags" if dtype == "bool" else "small")
    axis = d.rng.randrange(len(shape))
    calls = [f"{x}.sum(dim={axis})", f"{x}.sum()", f"{x}.sum(dim={axis}, keepdim=True) * 2"]
    if dtype != "bool":
        calls += [f"{x}.amax(dim={axis})", f"{x}.amin()", f"{x}.prod(dim={axis})"]
    d.line(f"r = {d.pick(*calls)}")
    return ("r",)


def rows_and_columns(d: Draft) -> Results:
    """Both kinds of reductions of one tensor, and what is done to it before."""
    shape = d.matrix(least=2)
    x = d.tensor(shape, values="positive")
    d.line(f"y = {applied(d.pick('x', 'x * 2 + 0.25', 'torch.sqrt(x)'), x)}")
    d.line(f"r = y.{d.pick('amax', 'sum', 'mean')}(-1)")
    d.line(f"s = y.to(torch.float32).{d.pick('sum', 'mean')}(0)")
    return d.pick(("r", "s"), ("s", "r"), ("y", "r", "s"))


def several_of_a_row(d: Draft) -> Results:
    """Several statistics of the same rows in one pass."""
    shape = d.matrix(least=7)
    x, y = d.tensor(shape), d.tensor(shape)
    d.line(f"r = {x}.amax(-1)")
    d.line(f"s = ({x} * {x}).sum(-1)")
    d.line(f"t = ({x} - {y}).abs().mean(-1)")
    return d.pick(("r", "s"), ("s", "t"), ("r", "s", "t"))


def prefix(d: Draft) -> Results:
    """cumsum and cumprod, forward, reversed, exclusive and masked."""
    rows, length = d.matrix(least=2)
    along = d.pick(-1, -1, 0)
    near = d.pick(0, 1)
    length = min(length, 512) if near else length
    dtype = None if near else d.pick(d.dtype, d.dtype, "int32", "int8")
    values = "near_one" if near else "small" if dtype in INTEGERS else "positive"
    x = d.tensor((rows, length), dtype, values)
    scan = "cumprod" if near else "cumsum"
    if d.pick(0, 1, 2) == 0:
        m = d.tensor((rows, length), "bool", "flags")
        masked = f"torch.where({m}, {x}, 1)" if near else f"{x} * {m}"
        d.line(f"r = torch.{scan}({masked}, dim={along})")
    else:
        forms = (
            f"torch.{scan}({x}, dim={along})",
            f"torch.{scan}({x}.flip({along}), dim={along}).flip({along})",
            f"torch.{scan}({x} * 1, dim={along}) + 1",
        )
        d.line(f"r = {d.pick(*forms)}")
    return ("r",)


def degenerate(d: Draft) -> Results:
    """Axes of extent 1 and 0."""
    n = d.pick(1, 3, 64, 1000)
    shape = d.pick((n, 1), (1, n), (0, n), (n, 0), (1, 1, n), (n, 1, 3))
    x = d.tensor(shape, values="positive", layout="dense")
    axis = d.rng.randrange(len(shape))
    calls = [f"{x}.sum(dim={axis})", f"{x}.mean(dim={axis})", f"{x} * 2", f"torch.softmax({x}, dim={axis})"]
    if shape[axis]:
        calls += [f"{x}.amax(dim={axis})", f"{x}.argmax(dim={axis})", f"torch.logsumexp({x}, dim={axis})"]
    d.line(f"r = {d.pick(*calls)}")
    return ("r",)


def around(d: Draft) -> Results:
    """A reduction between pointwise work: the row is read again, or kept."""
    shape = d.matrix(least=7)
    x, y = d.tensor(shape), d.tensor(shape, d.pick(d.dtype, d.pick(*FLOATS)))
    text = d.pick(
        "{x} / {x}.abs().mean(-1, keepdim=True)", "{x} - {x}.amax(-1, keepdim=True)",
        "{x} * torch.rsqrt(({x} * {x}).mean(-1, keepdim=True) + 1e-5) + {y}",
        "({x} + {y}) / (({x} + {y}).abs().amax(-1, keepdim=True) + 0.5)", "{x} - {y}.mean(0)",
        "{y} * ({x} * {x}).sum(-1, keepdim=True).sqrt()",
    )  # fmt: skip
    d.line(f"r = {text.format(x=x, y=y)}")
    d.line(f"r = {applied(d.pick('x', *LATER), 'r')}")
    return ("r",)
