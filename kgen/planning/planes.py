"""The planes that fp32 operands are cut into on the way to tensor cores: how large, and how many CTAs cut them.

docs/gemm.md has the arithmetic; the kernel that cuts is `cut_operand` of the templates.
"""

from dataclasses import dataclass
from typing import Final

from kgen.families.gemm.facts import vector_of
from kgen.families.gemm.form import GemmForm, MatrixAccess, present
from kgen.families.gemm.rules_facts import GemmFacts

PLANE_STEP: Final = 64  # k of a plane is a multiple of it: whole k steps of every tile
PLANE_ROWS: Final = 8  # rows of a plane lie on 16 bytes, whichever axis is contiguous
THREADS: Final = 256  # of a CTA that cuts
AT_ONCE: Final = 4  # loads that a thread of it has in flight
_FEW, _MANY = 128, 512  # CTAs that leave units of a large device idle, and that fill all of them with loads
_LEAST_LOADS: Final = 4  # of each thread in a piece of k: fewer do not pay for another kernel


@dataclass(frozen=True, slots=True)
class CutOperand:
    """A or B: `rows` along m or n and `k`, `entries` of its batch; loads of `vector` elements."""

    rows: int
    k: int
    entries: int
    along_k: bool
    vector: int

    @property
    def depth(self) -> int:
        """Elements of k in one plane."""
        return filled(self.k, PLANE_STEP)

    @property
    def plane_elements(self) -> int:
        """Elements of both planes."""
        return filled(self.rows, PLANE_ROWS) * 2 * self.depth * self.entries

    @property
    def pieces(self) -> int:
        """Into how many pieces of k CTAs cut the same rows: 1 where a CTA for all of their k fills a device."""
        if self.along_k:
            lanes = next((n for n in (32, 64, 128) if n * self.vector * AT_ONCE >= self.depth), THREADS)
            cta_rows, at_once = THREADS // lanes, lanes * self.vector
        else:
            lanes = 32 // self.vector
            cta_rows, at_once = 32, THREADS // lanes
        ctas = -(-self.rows // cta_rows) * self.entries
        most = self.depth // (at_once * AT_ONCE * _LEAST_LOADS)
        return max(1, min(_MANY // ctas, most)) if ctas <= _FEW else 1


def cut_operands(form: GemmForm, facts: GemmFacts) -> tuple[CutOperand, CutOperand]:
    """Return A and B as the kernels that cut them see them."""
    sides = ((form.m, form.a, facts.a_align), (form.n, form.b, facts.b_align))
    a, b = (_operand(form, *side) for side in sides)
    return a, b


def _operand(form: GemmForm, rows: int, access: MatrixAccess, align: int) -> CutOperand:
    entries, vector = present(form.batch, access.batch), vector_of(access, rows, form.k, align)
    return CutOperand(rows, form.k, entries, access.k <= access.outer, vector)


def row_words(operands: tuple[CutOperand, CutOperand]) -> int:
    """Return the words of what holds of rows: a root and a state of each, and the largest values of pieces."""
    rows = [operand.rows * operand.entries for operand in operands]
    pieces = [operand.pieces for operand in operands]
    return 2 * sum(rows) + sum(count * of for count, of in zip(rows, pieces, strict=True) if of > 1)


def filled(extent: int, step: int) -> int:
    """Return an extent made up to whole steps."""
    return -(-extent // step) * step
