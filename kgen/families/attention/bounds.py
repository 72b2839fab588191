"""Which keys a query may see, as far as the mask's expression says so: what lets a kernel skip tiles."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Definition, Index, Load, Map, Operand

Linear = dict[str, int]  # sum of coefficient * (coordinate of an axis, or loaded value); "" stands for 1
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ}
_NEGATED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


@dataclass(frozen=True, slots=True)
class KeyLengths:
    """How many keys a sequence has: a query at m sees keys `n < length + extra`; with `sliding` m more of them.

    `value` is the loaded length, the same for all queries and keys of a head; it may be beyond the keys, or negative.
    `exact`: where n is also inside of the bounds, nothing is masked, and the score is `KeyBounds.unmasked`. It is not
    where a window ends at the length: `first` is set if all that is masked besides are keys `n < length + first` (with
    `sliding` m more of these, too).
    """

    value: str
    extra: int
    sliding: bool
    exact: bool
    first: int | None = None


@dataclass(frozen=True, slots=True)
class KeySequences:
    """Two loaded integers, such as the numbers of their sequences: a query sees no key that has another one.

    `exact`: where n is also inside of the bounds, nothing else is masked.
    """

    query: str
    key: str
    exact: bool


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """A query at m sees keys n with `least <= n - m <= most`; None is no bound.

    `exact`: inside of the bounds nothing is masked, so that the score there is the value `unmasked`. With `lengths`
    or `sequences` it is not: these bound the keys, too, and say themselves whether they mask the rest.
    """

    least: int | None
    most: int | None
    exact: bool
    unmasked: str
    lengths: KeyLengths | None = None
    sequences: KeySequences | None = None

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


def key_bounds(
    definitions: Mapping[str, Definition], score: str, query_axis: str, key_axes: Mapping[str, int]
) -> KeyBounds:
    """Return the bounds that the masks on top of a score give; `key_axes` are the axes of keys with their steps."""
    reader = _Reader(definitions, query_axis, key_axes)
    value = score
    while (masked := reader.mask(value)) is not None:
        value, condition, keeps = masked
        reader.join(condition, keeps)
    lengths, sequences = reader.lengths(), reader.sequences()
    exact = reader.exact and lengths is None and sequences is None and not reader.starts
    return KeyBounds(reader.least, reader.most, exact, value, lengths, sequences)


class _Reader:
    """Collects what conditions demand of the distance from query to key, and of keys and a length in memory."""

    def __init__(self, definitions: Mapping[str, Definition], query_axis: str, key_axes: Mapping[str, int]) -> None:
        self.definitions = definitions
        self.query_axis, self.key_axes = query_axis, key_axes
        self.least: int | None = None
        self.most: int | None = None
        self.starts: dict[tuple[str, bool], int] = {}  # by a length and whether queries slide: first keys behind it
        self.ends: dict[tuple[str, bool], int] = {}  # and how many keys more than it
        self.numbers: tuple[str, str] | None = None  # of the sequences of a query and of a key
        self.exact = True

    def lengths(self) -> KeyLengths | None:
        """Return what conditions on one length say of the keys; those on others are left."""
        if not self.ends:
            return None
        length, extra = next(iter(self.ends.items()))
        value, sliding = length
        whole = self.exact and len(self.ends) == 1 and set(self.starts) <= {length} and self.numbers is None
        exact, first = whole and not self.starts, self.starts.get(length) if whole else None
        return KeyLengths(value, extra, sliding, exact, first)

    def sequences(self) -> KeySequences | None:
        """Return what the equality of two numbers says of the keys."""
        if self.numbers is None:
            return None
        query, key = self.numbers
        return KeySequences(query, key, self.exact and not self.starts and not self.ends)

    def mask(self, value: str) -> tuple[str, str, bool] | None:
        """Return what a mask leaves, its condition, and whether the condition keeps or drops; None for no mask."""
        match self.definitions[value]:
            case Map(op=Op.WHERE, operands=(str(condition), str(kept), Const(value=dropped))) if dropped == -inf:
                return kept, condition, True
            case Map(op=Op.WHERE, operands=(str(condition), Const(value=dropped), str(kept))) if dropped == -inf:
                return kept, condition, False
            case Map(op=Op.ADD, operands=(str(one), str(other))):
                for kept, added in ((one, other), (other, one)):
                    match self.definitions[self.uncast(added)]:
                        case Map(op=Op.WHERE, operands=(str(condition), Const(value=yes), Const(value=no))):
                            if sorted((yes, no)) == [-inf, 0]:
                                return kept, condition, no == -inf
        return None

    def uncast(self, value: str) -> str:
        """Return the value before it was rounded, which 0 and -inf are by no type."""
        match self.definitions[value]:
            case Map(op=Op.CAST, operands=(str(before),), dtype=dtype) if dtype.is_float:
                return self.uncast(before)
        return value

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
            case Map(op=Op.NE, operands=(one, other)) if not keeps:
                self.compare(Op.EQ, one, other, True)
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
        if op is Op.EQ and self.joins(self.linear(one), self.linear(other)):
            return
        match self.definitions[one] if isinstance(one, str) else None:
            case Map(op=Op.ABS, operands=(inner,)) if op in (Op.LT, Op.LE):
                self.within(op, self.linear(inner), self.linear(other))
            case _:
                self.distance(op, self.linear(one), self.linear(other))

    def joins(self, one: Linear | None, other: Linear | None) -> bool:
        """Take in `one == other` where one is an integer of the query and the other one of the key."""
        for query, key in ((one, other), (other, one)):
            if self.loaded_along(query, {self.query_axis}, self.key_axes.keys()) and self.loaded_along(
                key, self.key_axes.keys(), {self.query_axis}
            ):
                found = next(iter(query or ())), next(iter(key or ()))
                self.exact = self.exact and self.numbers in (None, found)
                self.numbers = self.numbers or found
                return True
        return False

    def loaded_along(self, linear: Linear | None, walked: Collection[str], fixed: Collection[str]) -> bool:
        """Return whether a value is one loaded integer, different along the walked axes and the same along others."""
        if linear is None or list(linear.values()) != [1]:
            return False
        match self.definitions.get(next(iter(linear))):
            case Load(access=access):
                return not access.valid and set(walked) <= set(access.axes) and not set(fixed) & set(access.axes)
        return False

    def within(self, op: Op, inner: Linear | None, limit: Linear | None) -> None:
        """Take in `abs(inner) op limit` where that is about key - query."""
        parts = self.parts(inner)
        if parts is None or limit is None or set(limit) - {""} or (parts[1], parts[2]) != (-1, {}):
            self.exact = False
            return
        most, centre = limit.get("", 0) - (op is Op.LT), -parts[3]
        self.bound(centre - most, centre + most)

    def distance(self, op: Op, one: Linear | None, other: Linear | None) -> None:
        """Take in `one op other` where that is about key - query, or about a key and a length."""
        parts = self.parts(_sum(one, other, -1))
        if parts is None:
            self.exact = False
            return
        sign, query, loaded, rest = parts  # key + query * m + loaded + rest  op  0
        op = op if sign == 1 else _FLIPPED[op]
        if not loaded and query == -1:
            if op in (Op.GT, Op.GE, Op.EQ):
                self.bound(-rest + (op is Op.GT), None)
            if op in (Op.LT, Op.LE, Op.EQ):
                self.bound(None, -rest - (op is Op.LT))
        elif list(loaded.values()) == [-1] and query in (0, -1) and op is not Op.EQ:
            length = next(iter(loaded)), query == -1
            if op in (Op.LT, Op.LE):
                edge = -rest + (op is Op.LE)
                self.ends[length] = min(self.ends.get(length, edge), edge)
            else:
                edge = -rest + (op is Op.GT)
                self.starts[length] = max(self.starts.get(length, edge), edge)
        else:
            self.exact = False

    def parts(self, linear: Linear | None) -> tuple[int, int, Linear, int] | None:
        """Return the sign of the key, and of the value times it: the query's step, what is loaded, and the number.

        None for a value that has not the key once, or another coordinate.
        """
        inner = next((axis for axis, step in self.key_axes.items() if step == 1), None)
        if linear is None or inner is None:
            return None
        sign = linear.get(inner, 0)
        if abs(sign) != 1 or any(linear.get(axis, 0) != sign * step for axis, step in self.key_axes.items()):
            return None
        signed = {name: sign * c for name, c in linear.items() if name not in self.key_axes}
        query, rest = signed.pop(self.query_axis, 0) if self.query_axis else 0, signed.pop("", 0)
        return (sign, query, signed, rest) if all(self.is_length(name) for name in signed) else None

    def is_length(self, name: str) -> bool:
        """Return whether a name is that of a loaded integer that is the same for all queries and keys."""
        match self.definitions.get(name):
            case Load(access=access):
                return not access.valid and not {self.query_axis, *self.key_axes}.intersection(access.axes)
        return False

    def bound(self, least: int | None, most: int | None) -> None:
        if least is not None:
            self.least = least if self.least is None else max(self.least, least)
        if most is not None:
            self.most = most if self.most is None else min(self.most, most)

    def linear(self, value: Operand) -> Linear | None:
        """Return a value as a sum of coordinates, loaded integers and a number, or None if it is no such sum."""
        if isinstance(value, Const):
            return {"": int(value.value)} if float(value.value).is_integer() else None
        match self.definitions[value]:
            case Index(axis=axis):
                return {axis: 1}
            case Load(dtype=DType.INT32 | DType.INT64):
                return {value: 1}
            case Map(op=Op.CAST, operands=(inner,), dtype=DType.INT32 | DType.INT64):
                return self.linear(inner)
            case Map(op=Op.NEG, operands=(inner,)):
                return _sum({}, self.linear(inner), -1)
            case Map(op=Op.ADD | Op.SUB as op, operands=(one, other)):
                return _sum(self.linear(one), self.linear(other), 1 if op is Op.ADD else -1)
            case Map(op=Op.MUL, operands=(one, Const(value=int(factor))) | (Const(value=int(factor)), one)):
                return _sum({}, self.linear(one), factor)
        return None


def _sum(one: Linear | None, other: Linear | None, factor: int) -> Linear | None:
    """Return `one + factor * other`, without what cancels."""
    if one is None or other is None:
        return None
    found = dict(one)
    for name, coefficient in other.items():
        found[name] = found.get(name, 0) + factor * coefficient
    return {name: c for name, c in found.items() if c}
