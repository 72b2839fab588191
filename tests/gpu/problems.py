"""Random matrix products: problem `index` is the same in every run, and is a text and a list of tensors.

The spelling, the class of extents and the layouts turn at different speeds, so that a hundred problems meet most pairs;
the rest is drawn from a generator seeded with the index.
"""

import linecache
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

COUNT = 140
FIRST_OF_FEW = 100  # from here on: products of few rows, and of few tiles over a long k
HALF = ("bfloat16", "float16")
LAYOUTS = (("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("columns", "columns"))
ACTIVATIONS = (
    "F.relu(x)",
    "F.gelu(x)",
    "F.gelu(x, approximate='tanh')",
    "F.silu(x)",
    "torch.sigmoid(x)",
    "torch.tanh(x)",
    "F.leaky_relu(x, 0.2)",
    "F.elu(x, 0.7)",
    "F.selu(x)",
    "F.celu(x, 0.7)",
    "F.hardtanh(x)",
    "F.relu6(x)",
    "F.softplus(x)",
    "F.softsign(x)",
    "F.mish(x)",
    "F.hardswish(x)",
    "F.hardsigmoid(x)",
    "F.logsigmoid(x)",
    "torch.exp(x)",
    "torch.sin(x)",
    "torch.erf(x)",
    "x.abs().sqrt()",
    "x.abs().log1p()",
    "x.square()",
    "x.clamp(-1, 0.5)",
    "x * torch.sigmoid(1.702 * x)",
)


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor: its shape, and how it lies in a storage whose gaps hold NaN.

    `columns` exchanges the last two axes in memory, `pad` lengthens the rows there, and `offset` elements stand before
    the first one. `planted` elements are NaN or infinite.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    columns: bool = False
    pad: int = 0
    offset: int = 0
    scale: float = 1.0
    planted: bool = False

    def make(self, device: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tensor and the storage it lies in, drawn anew from the seed."""
        dtype = getattr(torch, self.dtype)
        generator = torch.Generator(device).manual_seed(seed)
        order = list(range(len(self.shape)))
        if self.columns and len(order) >= 2:
            order[-2:] = order[-1], order[-2]
        strides, step = [0] * len(order), 1
        for position, axis in enumerate(reversed(order)):
            strides[axis] = step
            step *= max(self.shape[axis], 1) + (self.pad if position == 0 else 0)
        base = _gaps(self.offset + step, dtype, device)
        view = base.as_strided(self.shape, strides, self.offset)
        if dtype.is_floating_point:
            view.copy_(torch.randn(self.shape, generator=generator, device=device) * self.scale)
        else:
            view.copy_(torch.randint(-128, 128, self.shape, generator=generator, device=device))
        if self.planted and view.numel():
            chosen = torch.arange(3, device=device) * 7919 % view.numel()
            values = torch.tensor([math.nan, math.inf, -math.inf], device=device).to(dtype)
            for index, value in zip(chosen.tolist(), values, strict=True):
                view[_unravel(index, self.shape)] = value
        return view, base


def _gaps(count: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return storage full of NaN, or of 77 where the type has none."""
    if dtype.itemsize == 1 and dtype.is_floating_point:  # torch fills no fp8: all bits but the sign are a NaN
        return torch.full((count,), 0x7F, dtype=torch.uint8, device=device).view(dtype)
    return torch.full((count,), math.nan if dtype.is_floating_point else 77, dtype=dtype, device=device)


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """A reference as text, and its operands in the order of the arguments.

    `limit` of rel_err is None where the result's type gives it; `allow_tf32` is torch's flag.
    """

    index: int
    spelling: str
    extents: str
    operands: tuple[Operand, ...]
    lines: tuple[str, ...]
    limit: float | None = None
    allow_tf32: bool = False

    @property
    def source(self) -> str:
        """The reference."""
        arguments = ", ".join(operand.name for operand in self.operands)
        return "\n".join([f"def reference({arguments}):", *(f"    {line}" for line in self.lines), "    return x\n"])

    def reference(self) -> Callable[..., torch.Tensor]:
        """Return the reference as a function whose text tracebacks can show."""
        file = f"<random problem {self.index}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names: dict[str, object] = {"torch": torch, "F": F}
        exec(compile(self.source, file, "exec"), names)
        found = names["reference"]
        assert callable(found)
        return found

    def __str__(self) -> str:
        shapes = ", ".join(f"{o.name}{list(o.shape)}" for o in self.operands)
        return f"{self.index:3} {self.spelling}, {self.extents}: {shapes}; {'; '.join(self.lines)}"


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for extent in reversed(shape):
        found.append(index % extent)
        index //= extent
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Extents:
    m: int
    n: int
    k: int
    batch: int


def draw_extents(kind: str, rng: random.Random, aligned: bool = False) -> Extents:
    r = rng.randint
    batch, unit = r(2, 5), rng.choice((7, 8))
    unit = 8 if aligned else unit
    match kind:
        case "tiles":
            return Extents(64 * r(1, 12), 64 * r(1, 12), 64 * r(1, 12), batch)
        case "large":
            return Extents(128 * r(8, 16), 128 * r(8, 16), 128 * r(4, 10), batch)
        case "ragged":
            return Extents(r(2, 700), r(2, 700), r(2, 700), batch)
        case "eights":
            return Extents(8 * r(1, 90), 8 * r(1, 90), 8 * r(1, 90), batch)
        case "m = 1":
            return Extents(1, r(1, 180) * unit, r(1, 180) * unit, batch)
        case "n = 1":
            return Extents(r(1, 180) * unit, 1, r(1, 180) * unit, batch)
        case "k = 1":
            return Extents(r(1, 60) * unit, r(1, 60) * unit, 1, batch)
        case "k = 0":
            return Extents(r(1, 200), r(1, 200), 0, batch)
        case "empty":
            return Extents(0, r(1, 64), r(1, 64), batch) if r(0, 1) else Extents(r(1, 64), 0, r(1, 64), batch)
        case "deep":
            return Extents(r(1, 17) * unit, r(1, 17) * unit, 8 * r(500, 2000), batch)
        case "few rows":
            return Extents(r(1, 70), r(16, 500) * unit, r(50, 700) * unit, r(2, 3))
        case "few columns":
            return Extents(r(16, 500) * unit, r(1, 70), r(50, 700) * unit, r(2, 3))
        case "few tiles":
            return Extents(8 * r(1, 40), 8 * r(1, 66), 64 * r(100, 900) + 8 * r(0, 7), r(2, 3))
        case "many":
            return Extents(2, 4, 8, 65536 + r(1, 300))
    raise AssertionError(kind)


EXTENTS = (
    *("tiles", "ragged", "eights", "m = 1", "large", "n = 1", "ragged"),
    *("k = 1", "eights", "deep", "k = 0", "ragged", "empty"),
)

FEW = ("few rows", "few tiles", "few rows", "few columns", "few rows")


def product(spelling: str, e: Extents, rng: random.Random) -> tuple[list[Operand], str]:
    """Return the operands of a product (their layouts still open) and the expression."""
    b, m, n, k = e.batch, e.m, e.n, e.k
    alpha, beta = rng.choice(((1, 1), (0.5, 2), (-1.5, 0.25)))
    scales = f", alpha={alpha}, beta={beta}"

    def pair(left: tuple[int, ...], right: tuple[int, ...], *more: tuple[int, ...]) -> list[Operand]:
        names = zip("abcd", (left, right, *more), strict=False)
        return [Operand(name, shape, "bfloat16") for name, shape in names]

    match spelling:
        case "operator":
            return pair((m, k), (k, n)), "a @ b"
        case "mm":
            return pair((m, k), (k, n)), "torch.mm(a, b)"
        case "matmul":
            left, right = rng.choice((((b, m), ()), ((b, m), (b,)), ((m,), (b,)), ((2, 1, m), (3,)), ((1, m), (b,))))
            return pair((*left, k), (*right, k, n)), "torch.matmul(a, b)"
        case "addmm":
            c = rng.choice(((n,), (1, n), (m, 1), (m, n)))
            return pair((m, k), (k, n), c), f"torch.addmm(c, a, b{scales})"
        case "bmm":
            return pair((b, m, k), (b, k, n)), "torch.bmm(a, b)"
        case "baddbmm":
            c = rng.choice(((b, m, n), (m, n), (b, 1, n), (b, m, 1)))
            return pair((b, m, k), (b, k, n), c), f"torch.baddbmm(c, a, b{scales})"
        case "linear":
            return pair(rng.choice(((m, k), (2, m, k))), (n, k), (n,)), "F.linear(a, b, c)"
        case "linear without bias":
            return pair((m, k), (n, k)), "F.linear(a, b)"
        case "einsum":
            left, right, equation = rng.choice(
                (
                    ((m, k), (n, k), "mk,nk->mn"),
                    ((k, m), (k, n), "km,kn->mn"),
                    ((m, k), (k, n), "mk,kn->nm"),
                    ((b, m, k), (b, n, k), "bmk,bnk->bmn"),
                    ((b, m, k), (k, n), "bmk,kn->bmn"),
                    ((2, m, b, k), (2, n, b, k), "xmhk,xnhk->xhmn"),
                )
            )
            return pair(left, right), f"torch.einsum('{equation}', a, b)"
    raise AssertionError(spelling)


SPELLINGS = (
    *("operator", "linear", "matmul", "addmm", "einsum", "bmm", "mm"),
    *("baddbmm", "linear without bias", "einsum", "matmul"),
)


def problem(index: int) -> GemmProblem:
    """Return the problem of that index."""
    rng = random.Random(20_000 + index)
    spelling, kind = SPELLINGS[index % len(SPELLINGS)], EXTENTS[index % len(EXTENTS)]
    if index >= FIRST_OF_FEW:
        kind = FEW[index % len(FEW)]
    if index in (27, 60):  # spelled bmm or matmul: more products than a grid's y axis has places
        kind, spelling = "many", "bmm"
    aligned = index >= FIRST_OF_FEW and index % 4 != 0
    extents = draw_extents(kind, rng, aligned)
    operands, expression = product(spelling, extents, rng)
    operands = laid_out(operands, LAYOUTS[index // 3 % 4], extents.k, rng)
    if aligned:
        operands = [replace(o, pad=o.pad // 8 * 8, offset=o.offset // 8 * 8) for o in operands]
    half = HALF[index % 2]
    operands = [replace(o, dtype=half) for o in operands]
    lines = [f"x = {expression}"]
    if rng.random() < 0.15:
        lines = _input_ops(operands, half, rng) + lines
    shape = shape_of(GemmProblem(index, spelling, kind, tuple(operands), tuple(lines)))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        extend(operands, lines, shape, half, rng)
    if rng.random() < 0.3:
        lines.append(f"x = x.to(torch.{rng.choice(('float32', 'float32', *HALF))})")
    if index % 8 == 3:
        place = rng.randrange(len(operands))
        operands[place] = replace(operands[place], planted=True)
    return GemmProblem(index, spelling, kind, tuple(operands), tuple(lines))


def laid_out(operands: list[Operand], layouts: tuple[str, str], k: int, rng: random.Random) -> list[Operand]:
    laid = []
    for position, operand in enumerate(operands):
        pad, offset = rng.choice((0, 0, 0, 8, 16, 3)), rng.choice((0, 0, 0, 0, 8, 1, 3))
        columns = layouts[position] == "columns" if position < 2 else rng.random() < 0.3
        scale = 1 / math.sqrt(max(k, 1)) if position == 1 else 1.0
        laid.append(replace(operand, columns=columns, pad=pad, offset=offset, scale=scale))
    return laid


def _input_ops(operands: list[Operand], half: str, rng: random.Random) -> list[str]:
    operation = rng.choice(("cast", "a = a * 0.3", "b = F.relu(b)", "a = torch.tanh(a)"))
    if operation != "cast":
        return [operation]
    operands[0] = replace(operands[0], dtype="float32")
    return [f"a = a.to(torch.{half})"]


def shape_of(p: GemmProblem) -> tuple[int, ...]:
    """Return the shape of the result, without computing it."""
    with torch.device("meta"):
        tensors = [torch.empty(o.shape, dtype=getattr(torch, o.dtype)) for o in p.operands]
    return tuple(p.reference()(*tensors).shape)


def extend(operands: list[Operand], lines: list[str], shape: tuple[int, ...], half: str, rng: random.Random) -> None:
    """Append one step to the epilogue, with the tensor it reads if it reads one: in `half`, or in fp32."""
    name = f"e{len(operands)}"
    dtype = rng.choice((half, half, "float32"))
    pad, offset = rng.choice((0, 0, 8, 5)), rng.choice((0, 0, 1, 8))
    row, column = shape[-1:], (*shape[-2:-1], 1)
    step = rng.choice(("row", "column", "full", "number", "scalar", "activation", "activation", "cast", "choose"))
    match step:
        case "number":
            lines.append(f"x = {rng.choice(('x * 0.37', 'x / 3', '1.5 - x', 'x + 0.1', '2 * x - 1'))}")
        case "activation":
            lines.append(f"x = {rng.choice(ACTIVATIONS)}")
        case "cast":
            lines.append(f"x = x.to(torch.{rng.choice((*HALF, 'float32'))})")
        case "scalar":
            operands.append(Operand(name, (), dtype))
            lines.append(f"x = x * {name}")
        case "row":
            operands.append(Operand(name, row, dtype, offset=offset))
            lines.append(f"x = x {rng.choice('+*-')} {name}")
        case "column":
            operands.append(Operand(name, column, dtype, offset=offset))
            lines.append(f"x = x {rng.choice('+*-')} {name}")
        case "full":
            operands.append(Operand(name, shape, dtype, columns=rng.random() < 0.3, pad=pad, offset=offset))
            lines.append(f"x = x {rng.choice('+*-')} {name}")
        case "choose":
            operands.append(Operand(name, shape, half, pad=pad, offset=offset))
            text = rng.choice(("torch.maximum(x, {0})", "torch.where({0} > 0.25, x, 0.5)", "torch.lerp(x, {0}, 0.3)"))
            lines.append(f"x = {text.format(name)}")
