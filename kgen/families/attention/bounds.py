"""Which keys a query may see, as far as the mask's expression says so: what lets a kernel skip tiles."""

from dataclasses import dataclass
from math import inf

from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Definition, Index, Map, Operand

_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ}
_NEGATED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """A query at m sees keys n with `least <= n - m <= most`; None is no bound.

    `exact`: inside of the bounds nothing is masked, so that the score there is the value `unmasked`.
    """

    least: int | None
    most: int | None
    exact: bool
    unmasked: str

    def visible(self, queries: int, keys: int) -> int:
        """Return how many pairs of query and key are inside the bounds."""
        if self.least is None and self.most is None:
            return queries * keys
        return sum(last - first + 1 for first, last in (self.of_query(m, keys) for m in range(queries)))

    def of_query(self, m: int, keys: int) -> tuple[int, int]:
        """Return the first and the last key of a query; the last is the one before the first where it sees none."""
        first = 0 if self.least is None else min(max(m + self.least, 0), keys)
        last = keys - 1 if self.most is None else min(m + self.most, keys - 1)
        return first, max(last, first - 1)


def key_bounds(definitions: dict[str, Definition], score: str, query_axis: str, key_axis: str) -> KeyBounds:
    """Return the bounds that the masks on top of a score give."""
    reader = _Reader(definitions, query_axis, key_axis)
    value = score
    while (masked := reader.mask(value)) is not None:
        value, condition, keeps = masked
        reader.join(condition, keeps)
    return KeyBounds(reader.least, reader.most, reader.exact, value)


class _Reader:
    """Collects what conditions on coordinates demand of the distance from query to key."""

    def __init__(self, definitions: dict[str, Definition], query_axis: str, key_axis: str) -> None:
        self.definitions = definitions
        self.query_axis, self.key_axis = query_axis, key_axis
        self.least: int | None = None
        self.most: int | None = None
        self.exact = True

    def mask(self, value: str) -> tuple[str, str, bool] | None:
        """Return what a mask leaves, its condition, and whether the condition keeps or drops; None for no mask."""
        match self.definitions[value]:
            case Map(op=Op.WHERE, operands=(str(condition), str(kept), Const(value=dropped))) if dropped == -inf:
                return kept, condition, True
            case Map(op=Op.WHERE, operands=(str(condition), Const(value=dropped), str(kept))) if dropped == -inf:
                return kept, condition, False
            case Map(op=Op.ADD, operands=(str(one), str(other))):
                for kept, added in ((one, other), (other, one)):
                    match self.definitions[added]:
                        case Map(op=Op.WHERE, operands=(str(condition), Const(value=yes), Const(value=no))):
                            if sorted((yes, no)) == [-inf, 0]:
                                return kept, condition, no == -inf
        return None

    def join(self, condition: Operand, keeps: bool) -> None:
        """Take in that keys are kept where a condition holds, or where it does not."""
        definition = self.definitions[condition] if isinstance(condition, str) else None
        match definition:
            case Map(op=Op.LOGICAL_NOT | Op.BITWISE_NOT, operands=(inner,)):
                self.join(inner, not keeps)
            case Map(op=Op.LOGICAL_AND | Op.BITWISE_AND, operands=(one, other)) if keeps:
                self.join(one, keeps)
                self.join(other, keeps)
            case Map(op=Op.LOGICAL_OR | Op.BITWISE_OR, operands=(one, other)) if not keeps:
                self.join(one, keeps)
                self.join(other, keeps)
            case Map(op=Op.WHERE, operands=(inner, Const(value=yes), Const(value=0))) if yes:
                self.join(inner, keeps)
            case Map(op=Op.WHERE, operands=(one, str(other), Const(value=0))) if keeps:
                self.join(one, keeps)
                self.join(other, keeps)
            case Map(op=Op.EQ | Op.NE as op, operands=(str(inner), Const(value=0))) if self.is_flag(inner):
                self.join(inner, keeps is (op is Op.NE))
            case Map(op=Op.LT | Op.LE | Op.GT | Op.GE | Op.EQ as op, operands=(one, other)):
                self.compare(op, one, other, keeps)
            case _:
                self.exact = False

    def is_flag(self, value: str) -> bool:
        """Return whether a value is a condition as a number: 0 where it does not hold."""
        match self.definitions[value]:
            case Map(op=Op.WHERE, operands=(_, Const(value=yes), Const(value=0))):
                return bool(yes)
            case Map(op=op):
                return op.is_predicate
        return False

    def compare(self, op: Op, one: Operand, other: Operand, keeps: bool) -> None:
        if not keeps:
            if op not in _NEGATED:
                self.exact = False
                return
            op = _NEGATED[op]
        match self.definitions[one] if isinstance(one, str) else None:
            case Map(op=Op.ABS, operands=(inner,)) if op in (Op.LT, Op.LE):
                self.distance(op, self.affine(inner), self.affine(other), both=True)
            case _:
                self.distance(op, self.affine(one), self.affine(other))

    def distance(
        self, op: Op, one: tuple[int, int, int] | None, other: tuple[int, int, int] | None, *, both: bool = False
    ) -> None:
        """Take in `one op other` where that is about key - query; with `both`, about its absolute value."""
        if one is None or other is None or (both and other[:2] != (0, 0)):
            self.exact = False
            return
        key, query, rest = (a - b for a, b in zip(one, other, strict=True))
        if key + query or abs(key) != 1:
            self.exact = False
            return
        if both:
            limit, centre = other[2] - (op is Op.LT), -key * one[2]
            self.bound(centre - limit, centre + limit)
            return
        op = op if key == 1 else _FLIPPED[op]
        edge = -rest if key == 1 else rest  # key - query  op  edge
        if op in (Op.GT, Op.GE, Op.EQ):
            self.bound(edge + (op is Op.GT), None)
        if op in (Op.LT, Op.LE, Op.EQ):
            self.bound(None, edge - (op is Op.LT))

    def bound(self, least: int | None, most: int | None) -> None:
        if least is not None:
            self.least = least if self.least is None else max(self.least, least)
        if most is not None:
            self.most = most if self.most is None else min(self.most, most)

    def affine(self, value: Operand) -> tuple[int, int, int] | None:
        """Return a value as (a, b, c) of a * key + b * query + c, or None."""
        if isinstance(value, Const):
            return (0, 0, int(value.value)) if float(value.value).is_integer() else None
        match self.definitions[value]:
            case Index(axis=axis) if axis in (self.key_axis, self.query_axis):
                return (1, 0, 0) if axis == self.key_axis else (0, 1, 0)
            case Map(op=Op.CAST, operands=(inner,), dtype=dtype) if not dtype.is_float:
                return self.affine(inner)
            case Map(op=Op.NEG, operands=(inner,)):
                found = self.affine(inner)
                return None if found is None else (-found[0], -found[1], -found[2])
            case Map(op=Op.ADD | Op.SUB as op, operands=(one, other)):
                left, right = self.affine(one), self.affine(other)
                sign = 1 if op is Op.ADD else -1
                if left is None or right is None:
                    return None
                return left[0] + sign * right[0], left[1] + sign * right[1], left[2] + sign * right[2]
        return None
