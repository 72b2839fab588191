"""What the templates print of a gate: which columns and sums its epilogue takes, which sections its kernels have."""

from dataclasses import dataclass

from kgen.backends.cutedsl.gemm_types import Product
from kgen.backends.source.fused import FusedTensor
from kgen.backends.source.gemm_rows import B_OFFSETS, offset_field
from kgen.families.gemm.form import GemmForm
from kgen.ir.pointwise import PointwiseOp

# What torch rounds correctly stays so: a quotient or a root may decide which way a later step goes.
_CORRECTLY_ROUNDED = frozenset({PointwiseOp.DIV, PointwiseOp.RECIPROCAL, PointwiseOp.SQRT, PointwiseOp.POW})


@dataclass(frozen=True, slots=True)
class SumsView:
    """The sums that one element of D is made of.

    `columns` counts those of a tile of D. `of_box` finds the sums of a box, `in_box` are those of an element of a box,
    `in_row` those of an element of a row of wgmma tiles, `names` what the epilogue calls them. `b_parts` are the rows
    of each B in the smem of all stages, `b_part` makes their layout.
    """

    columns: str
    of_box: tuple[str, ...]
    in_box: str
    in_row: str
    names: str
    b_part: str
    b_parts: str


_ONE = SumsView(
    columns="v.tile_n",
    of_box=("first = (box_m * boxes_n + box_n) * values",),
    in_box="acc[first + i]",
    in_row="acc[box * (box_n // 2) + i]",
    names="x0",
    b_part="b_layout(v)",
    b_parts="(sB,)",
)
# tile_n columns of sums are those of the first product and then those of the second one: a wgmma gives a thread the
# same columns of each run of 8, so that both sums of an element are its own.
_TWO = SumsView(
    columns="d_columns(v)",
    of_box=("first = (2 * box_m * boxes_n + box_n) * values", "second = first + boxes_n * values"),
    in_box="acc[first + i], acc[second + i]",
    in_row="acc[box * box_n + i], acc[box * box_n + box_n // 2 + i]",
    names="x0, x1",
    b_part="b_part_layout(v)",
    b_parts="halves(v, sB, None)",
)


def sums_view(products: int) -> SumsView:
    """Return how the epilogue of one product, or of two, takes its sums."""
    return _ONE if products == 1 else _TWO


def tile_sections(products: int, multiplied: Product, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the templates of what a gate's tiles are, besides those of every product."""
    if products == 1:
        return ()
    part = "b_part" if multiplied.any_major else "b_part_k"
    return ("gate_tiles", *((part,) if {"gated", "grouped"}.intersection(kinds) else ()))


def approximates(op: PointwiseOp, form: GemmForm) -> bool:
    """Return whether an op of a gate takes the hardware's approximations, which are far inside a 16-bit result.

    Nothing else runs while all warps of a CTA are in the epilogue: with exp and a division to the last bit, and its
    branches, silu took 4 us of a tile's 53 on an H200.
    """
    return form.products == 2 and form.d.dtype.bytes == 2 and op not in _CORRECTLY_ROUNDED


def b_pointers(form: GemmForm, names: dict[str, str]) -> str:
    """Return the addresses of both Bs: parts of one weight lie as far apart as the row of their case says."""
    pointers = (f"{names[b.tensor]}.iterator + v.{B_OFFSETS}[{i}]" for i, b in enumerate(form.operands[1:]))
    return f"({', '.join(pointers)})"


def fused_pointer(fused: FusedTensor) -> str:
    """Return the address of what an epilogue reads: a part of a bias starts where the row of its case says."""
    offset = f" + v.{offset_field(fused)}" if fused.source.offset else ""
    return f"{fused.argument}.iterator{offset}"
