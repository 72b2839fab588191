"""Forms of pointwise ops that read the same in every DSL, and which form an op on a type takes.

Forms are format strings over the operands `{0}`, `{1}`, ... and the carried type `{kind}`. They know the ways that the
DSLs share: arithmetic on two widths widens, so operands have one type; `//` of integers rounds down, `%` towards zero
and `/` gives fp32; a comparison of bools is a signed one, where true is -1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op

COMPARISONS: Final = {
    Op.EQ: "{0} == {1}",
    Op.NE: "{0} != {1}",
    Op.LT: "{0} < {1}",
    Op.LE: "{0} <= {1}",
    Op.GT: "{0} > {1}",
    Op.GE: "{0} >= {1}",
}
ARITHMETIC: Final = {Op.ADD: "{0} + {1}", Op.SUB: "{0} - {1}", Op.MUL: "{0} * {1}", Op.NEG: "-{0}"}
_BOOL: Final = {
    Op.EQ: "{0} == {1}",
    Op.NE: "{0} != {1}",
    Op.LT: "~{0} & {1}",
    Op.LE: "~{0} | {1}",
    Op.GT: "{0} & ~{1}",
    Op.GE: "{0} | ~{1}",
    Op.LOGICAL_AND: "{0} & {1}",
    Op.LOGICAL_OR: "{0} | {1}",
    Op.LOGICAL_NOT: "~{0}",
    Op.WHERE: "choose({kind}, {0}, {1}, {2})",
}
_INTEGER: Final = {
    **ARITHMETIC,
    **COMPARISONS,
    Op.FLOOR_DIVIDE: "{0} // {1}",
    Op.TRUNC_DIVIDE: "trunc_divide_int({0}, {1})",
    Op.REMAINDER: "remainder_int({kind}, {0}, {1})",
    Op.FMOD: "{0} % {1}",
    Op.SIGN: "sign_int({kind}, {0})",
    Op.BITWISE_AND: "{0} & {1}",
    Op.BITWISE_OR: "{0} | {1}",
    Op.BITWISE_XOR: "{0} ^ {1}",
    Op.BITWISE_NOT: "~{0}",
    Op.SHIFT_LEFT: "shift_left({kind}, {0}, {1})",
    Op.SHIFT_RIGHT: "shift_right({kind}, {0}, {1})",
    Op.WHERE: "choose({kind}, {0}, {1}, {2})",
}
_UNSIGNED: Final = {
    Op.REMAINDER: "{0} % {1}",
    Op.TRUNC_DIVIDE: "{0} // {1}",
    Op.ABS: "{0}",
    Op.SHIFT_RIGHT: "shift_right_unsigned({kind}, {0}, {1})",
}


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """The forms of one DSL; of integers only those of its own, the rest is shared."""

    fp32: Mapping[Op, str]
    fp32_approximate: Mapping[Op, str]
    fp64: Mapping[Op, str]
    integer: Mapping[Op, str]
    unsigned_sign: str

    def of(self, op: Op, dtype: DType, *, approximate: bool = False) -> str | None:
        """Return the form of an op on operands that are carried as `dtype`, or None where it has none."""
        match dtype:
            case DType.BOOL:
                return _BOOL.get(op)
            case DType.FP64:
                return self.fp64.get(op)
            case DType.UINT8:
                unsigned = _UNSIGNED | {Op.SIGN: self.unsigned_sign}
                return unsigned.get(op) or self.integer.get(op) or _INTEGER.get(op)
        if dtype.is_float:
            return (self.fp32_approximate if approximate else self.fp32).get(op)
        return self.integer.get(op) or _INTEGER.get(op)
