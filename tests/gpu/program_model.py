"""A random pointwise or reduction program: its text, its tensors, and the draft that draws both from a seed."""

import linecache
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

HALF = ("bfloat16", "float16")
FLOATS = ("float32", *HALF)
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
SPREAD = ("padded", "offset", "transposed", "reversed", "stepped", "rows stepped")
LAYOUTS = (*SPREAD, "expanded", "expanded last")
LARGEST = 400_000  # elements of a tensor
LIMITS = {"float32": 1e-5, "bfloat16": 0.01, "float16": 0.01, "float8_e4m3fn": 0.05, "float8_e5m2": 0.05}
_LENGTHS = (
    *(1, 2, 7, 8, 31, 32, 33, 64, 100, 127, 128, 129, 250, 256, 257, 511, 512, 768, 1000, 1023, 1024, 1025, 2048),
    *(3000, 4095, 4096, 4097, 5120, 8192, 8200, 16384, 20000, 32768, 40001, 65536, 70000),
)
_ROWS = (1, 2, 3, 5, 8, 17, 33, 64, 100, 128, 257, 1000)
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 64, 65)
_PLANTS = {"all": (math.nan, math.inf, -math.inf), "nan": (math.nan,), "-inf": (-math.inf, -math.inf)}


@dataclass(frozen=True, slots=True)
class ProgramTensor:
    """One argument: what it holds, and how it lies in a storage whose gaps hold NaN or the largest integer.

    `values` names a distribution of `drawn`; `planted` names special values put into a few places; an `updated` tensor
    is one that the program writes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: str = "normal"
    layout: str = "dense"
    planted: str = ""
    updated: bool = False

    def make(self, device: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tensor and the storage it lies in; the same bits on every device."""
        dtype = getattr(torch, self.dtype)
        strides, offset, size = placed(self.shape, self.layout)
        gap: Any = math.nan if dtype.is_floating_point else True if dtype is torch.bool else torch.iinfo(dtype).max
        base = torch.full((size,), gap, dtype=dtype)
        single = tuple(1 if step == 0 else n for n, step in zip(self.shape, strides, strict=True))
        values = drawn(self.values, single, dtype, torch.Generator().manual_seed(seed))
        flat = values.reshape(-1)
        for place, special in enumerate(_PLANTS.get(self.planted, ()) if flat.numel() else ()):
            flat[place * 7919 % flat.numel()] = special
        base.as_strided(single, strides, offset).copy_(flat.reshape(single))
        base = base.to(device)
        return base.as_strided(self.shape, strides, offset), base

    def __str__(self) -> str:
        words = [w for w in (self.layout, self.values, self.planted) if w and w not in ("dense", "normal")]
        return f"{self.name} {self.dtype}{list(self.shape)}{' ' if words else ''}{', '.join(words)}"


def placed(shape: tuple[int, ...], layout: str) -> tuple[tuple[int, ...], int, int]:
    """Return strides, offset and size of the storage, in elements, of a layout."""
    order = list(range(len(shape)))
    if layout == "transposed" and len(shape) >= 2:
        order[-2:] = order[-1], order[-2]
    if layout == "reversed":
        order.reverse()
    strides = [0] * len(shape)
    step = 2 if layout == "stepped" else 1
    single = {"expanded": 0, "expanded last": len(shape) - 1}.get(layout)
    for position, axis in enumerate(reversed(order)):
        if axis == single:
            continue
        strides[axis] = step
        step *= max(shape[axis], 1)
        if position == 0:
            step = step + 5 if layout == "padded" else step * 2 if layout == "rows stepped" else step
    offset = {"offset": 3, "stepped": 1}.get(layout, 0)
    return tuple(strides), offset, offset + step


def drawn(values: str, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Return random values: of the float kinds with a sound comparison in mind, of the integer kinds any."""
    uniform = torch.rand(shape, generator=generator)
    kind, _, bound = values.partition(" ")
    match kind:
        case "normal":
            return torch.randn(shape, generator=generator).to(dtype)
        case "shifted":  # E[x^2] - E[x]^2 cancels
            return (torch.randn(shape, generator=generator) + 30).to(dtype)
        case "positive":
            return (uniform * 1.5 + 0.5).to(dtype)
        case "share":
            return (uniform * 0.9 + 0.05).to(dtype)
        case "near_one":
            return (torch.randn(shape, generator=generator) * 0.02 + 1).to(dtype)
        case "quarters":  # exact in every type, with ties
            return (torch.floor(uniform * 33) / 4 - 4).to(dtype)
        case "grid":  # the scale of each row is 1/16
            return _grid(uniform, float(bound)).to(dtype)
        case "signs":
            return (torch.floor(uniform * 2) * 2 - 1).to(dtype)
        case "flags" | "rare":
            return uniform > (0.5 if kind == "flags" else 0.999)
        case "small":
            low = 0 if dtype is torch.uint8 else -9
            return torch.randint(low, 10, shape, generator=generator).to(dtype)
        case "nonzero":
            made = torch.randint(1, 8, shape, generator=generator)
            return (made if dtype is torch.uint8 else torch.where(uniform < 0.5, made, -made)).to(dtype)
        case "wide":
            limits = torch.iinfo(dtype)
            return torch.randint(limits.min // 2, limits.max // 2, shape, generator=generator).to(dtype)
        case "class":
            return torch.floor(uniform * int(bound)).to(dtype)
    raise AssertionError(values)


def _grid(uniform: torch.Tensor, bound: float) -> torch.Tensor:
    """Return multiples of 1/32 (int8) or 1/8 (fp8) of 8 bits at most; bound / 16 is in each row."""
    top, steps = bound / 16, 32 if bound < 128 else 8
    made = torch.round((uniform * 2 - 1) * top * steps) / steps
    rows = made.reshape(-1, made.shape[-1])
    places = torch.arange(rows.shape[0])
    rows[places, places * 7 % rows.shape[1]] = torch.where(places % 2 == 0, top, -top)
    return rows.reshape(uniform.shape)


@dataclass(frozen=True, slots=True)
class Program:
    """A reference as text, and its tensors in the order of the arguments."""

    index: int
    kind: str
    tensors: tuple[ProgramTensor, ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def source(self) -> str:
        """The reference."""
        arguments = ", ".join(tensor.name for tensor in self.tensors)
        body = [f"    {line}" for line in self.lines]
        return "\n".join([f"def reference({arguments}):", *body, f"    return {', '.join(self.results)}\n"])

    @property
    def limit(self) -> float:
        """The rel_err that its coarsest float type allows."""
        named = {tensor.dtype for tensor in self.tensors} | set(re.findall(r"torch\.(\w+)", self.source))
        return max((LIMITS[name] for name in named if name in LIMITS), default=LIMITS["float32"])

    def reference(self) -> Callable[..., Any]:
        """Return the reference as a function whose text tracebacks can show."""
        file = f"<random program {self.index}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names: dict[str, object] = {"torch": torch, "F": F}
        exec(compile(self.source, file, "exec"), names)
        found = names["reference"]
        assert callable(found)
        return found

    def make(self, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return each argument with the storage it lies in."""
        return [tensor.make(device, 100 * self.index + place) for place, tensor in enumerate(self.tensors)]

    def __str__(self) -> str:
        text = "; ".join((*self.lines, f"return {', '.join(self.results)}"))
        return f"{self.index:3} {self.kind}: {text}   [{'; '.join(map(str, self.tensors))}]"


class Draft:
    """A program that is being drawn: a generator seeded with the index, and what has been written so far."""

    def __init__(self, index: int, kind: str) -> None:
        self.index, self.kind = index, kind
        self.rng = random.Random(30_000 + index)
        self.dtype = FLOATS[self.rng.randrange(3)]
        self.tensors: list[ProgramTensor] = []
        self.lines: list[str] = []

    def pick(self, *options: Any) -> Any:
        """Return one of the options."""
        return self.rng.choice(options)

    def tensor(
        self, shape: tuple[int, ...], dtype: str | None = None, values: str = "normal", layout: str | None = None,
        planted: str = "", updated: bool = False,
    ) -> str:  # fmt: skip
        """Add an argument and return its name; half of the layouts are dense unless one is given."""
        if layout is None:
            layout = self.pick("dense", self.pick(*LAYOUTS)) if shape else "dense"
        name = "xyzwuvst"[len(self.tensors)]
        self.tensors.append(ProgramTensor(name, shape, dtype or self.dtype, values, layout, planted, updated))
        return name

    def line(self, text: str) -> None:
        """Add a line of the reference."""
        self.lines.append(text)

    def spread(self, shape: tuple[int, ...], dtype: str | None = None, values: str = "normal") -> str:
        """Add an argument with no repeated elements: the variance of equal elements is nothing but rounding."""
        return self.tensor(shape, dtype, values, self.pick("dense", self.pick(*SPREAD)))

    def matrix(self, least: int = 1) -> tuple[int, int]:
        """Return rows and their length, at least `least`."""
        length = self.pick(*(n for n in _LENGTHS if n >= least))
        return self.pick(*(r for r in _ROWS if r * length <= LARGEST)), length

    def block(self, rank: int) -> tuple[int, ...]:
        """Return the extents of a tensor of that rank."""
        while True:
            shape = tuple(self.pick(*_EXTENTS) for _ in range(rank))
            if math.prod(shape) <= LARGEST:
                return shape

    def shape(self) -> tuple[int, ...]:
        """Return a shape of any rank from 1 to 4."""
        rank = self.pick(1, 2, 2, 2, 3, 4)
        if rank == 1:
            return (self.pick(*_LENGTHS),)
        return self.matrix() if rank == 2 else self.block(rank)

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a reduction: the last, the first, one between, several or all."""
        several = tuple(sorted(self.rng.sample(range(rank), self.rng.randint(1, rank))))
        return self.pick((rank - 1,), (0,), (self.rng.randrange(rank),), several, tuple(range(rank)))

    def program(self, *results: str) -> Program:
        """Return what was drawn."""
        return Program(self.index, self.kind, tuple(self.tensors), tuple(self.lines), results)
