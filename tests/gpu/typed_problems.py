"""Random products of fp8, int8, tf32 and fp32 operands: problem `index` is the same in every run.

As `problems.py`: the type, the class of extents and the layouts turn at different speeds, the rest is drawn.
"""

import random
from dataclasses import dataclass, replace

from problems import FEW, LAYOUTS, GemmProblem, draw_extents, extend, laid_out, product, shape_of

FIRST, COUNT = 1000, 130  # indices that no problem of `problems.py` has
FIRST_OF_FEW = FIRST + 100  # from here on: few rows, and few tiles over a long k, as bulk copies take them
EXTENTS = ("tiles", "ragged", "eights", "large", "m = 1", "deep", "n = 1", "ragged", "k = 1", "eights", "k = 0")
PLAIN = ("operator", "mm", "matmul", "bmm")
SPELLINGS = (*PLAIN, "linear without bias", "einsum", "linear", "addmm", "baddbmm")


@dataclass(frozen=True, slots=True)
class Operands:
    """A type of operands: torch's name, what both are cast to, the spellings, and the limit of rel_err.

    `limit` is of a product in fp32; where the result has 16 bits, its own type's limit holds.
    """

    dtype: str
    cast: str
    spellings: tuple[str, ...]
    limit: float
    allow_tf32: bool = False


TYPES = (
    Operands("float8_e4m3fn", "float32", SPELLINGS, 1e-3),
    Operands("int8", "int32", PLAIN, 1e-5),
    Operands("float32", "", SPELLINGS, 1e-5),
    Operands("float32", "", SPELLINGS, 1e-3, allow_tf32=True),
    Operands("float8_e5m2", "float32", SPELLINGS, 1e-3),
    Operands("float32", "", SPELLINGS, 1e-5),
)
TYPES_OF_FEW = (*TYPES[:2], TYPES[4], TYPES[1], TYPES[0], *TYPES[2:4])


def typed_problem(index: int) -> GemmProblem:
    """Return the problem of that index, counted from `FIRST`: the first draw that torch takes."""
    for draw in range(20):
        try:
            found = _drawn(index, random.Random(30_000 + index + 100 * draw))
            shape_of(found)
        except RuntimeError:  # types that an operation of torch does not mix
            continue
        return found
    raise AssertionError(f"no draw of problem {index} runs")


def _drawn(index: int, rng: random.Random) -> GemmProblem:
    turn = index - FIRST
    kind, types = EXTENTS[turn % len(EXTENTS)], TYPES[turn % len(TYPES)]
    spelling = types.spellings[turn // 2 % len(types.spellings)]
    is_few = index >= FIRST_OF_FEW
    if is_few:
        kind, types = FEW[turn % len(FEW)], TYPES_OF_FEW[turn % len(TYPES_OF_FEW)]
        spelling = types.spellings[turn // 2 % len(types.spellings)]
    extents = draw_extents(kind, rng, is_few)
    if is_few:
        extents = replace(extents, k=-(-extents.k // 16) * 16)
    made, expression = product(spelling, extents, rng)
    made = laid_out(made, LAYOUTS[1 if is_few else turn // 4 % 4], extents.k, rng)
    if is_few:
        made = [replace(o, pad=o.pad // 16 * 16, offset=o.offset // 16 * 16) for o in made]
    operands = [replace(o, dtype=types.dtype if place < 2 else "float32") for place, o in enumerate(made)]
    if types.cast:  # an operand along k is the common case: bytes are multiplied so
        operands[1] = replace(operands[1], columns=operands[1].columns or turn % 3 == 0 or is_few)
    lines = [f"{name} = {name}.to(torch.{types.cast})" for name in "ab" if types.cast] + [f"x = {expression}"]
    limit: float | None = types.limit
    steps = rng.choice((0, 0, 1, 2))
    if types.cast == "int32" and steps:
        lines.append("x = x.to(torch.float32)")
    shape = shape_of(GemmProblem(index, spelling, kind, tuple(operands), tuple(lines)))
    for _ in range(steps):
        extend(operands, lines, shape, "bfloat16", rng)
    if rng.random() < 0.3:
        lines.append("x = x.to(torch.bfloat16)")
    if any("bfloat16" in line or "float16" in line for line in lines):
        limit = None
    if turn % 8 == 3 and types.dtype == "float32":
        place = rng.randrange(2)
        operands[place] = replace(operands[place], planted=True)
    return GemmProblem(index, spelling, kind, tuple(operands), tuple(lines), limit, types.allow_tf32)
