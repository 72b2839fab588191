"""Attention in a Problem: two contractions with a softmax between them, recognised by what the body means.

    s = score(sum_d q * k)    p = exp(s - max_n s) / sum_n exp(s - max_n s)    out = epilogue(sum_n p * v)

The body says what is computed, row by row; that a kernel keeps running maxima and never holds a row is its own
business. The front end keeps such a body as one kernel, and the attention family classifies it, by this same reading.
"""

from dataclasses import dataclass
from math import inf

from kgen.ir.grouped import without_groups
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import (
    Combine,
    Const,
    Contract,
    Definition,
    Gather,
    Index,
    Load,
    Map,
    Problem,
    Reduce,
    Store,
    operands_of,
)


@dataclass(frozen=True, slots=True)
class Logsumexp:
    """The store of a row's log(sum(exp(score))), and what a row without keys gives: "-inf" or "nan"."""

    store: Store
    empty_rows: str


@dataclass(frozen=True, slots=True)
class AttentionBody:
    """The parts of an attention, by the statements and values of its Problem.

    `divided`: rows are divided by their sum before the second product, else after it. `empty_rows`: what a row without
    keys gives, "zeros" where the body asks for it, "nan" as exp and division have it. `query` and `probability` are
    the operands of the two products that come from Q and from the softmax, `key` and `value` the others; these may be
    gathered by a table (`paged_load`).
    """

    scores: Contract
    query: str
    key: str
    score: str
    largest: Reduce
    total: Reduce
    output: Contract
    probability: str
    value: str
    divided: bool
    empty_rows: str
    out: Store
    logsumexp: Logsumexp | None


@dataclass(frozen=True, slots=True)
class PagedLoad:
    """An element that is read where an entry of a table says; `wraps`: a negative entry counts from the end."""

    gather: Gather
    table: Load
    wraps: bool


def paged_load(problem: Problem, value: str) -> PagedLoad | None:
    """Return how an operand is gathered, if it is one gathered element with pointwise ops on it."""
    needed, definitions = problem.needed(value), problem.definitions()
    gathers = [s for s in needed if isinstance(s, Gather)]
    if len(gathers) != 1 or gathers[0].access.valid:
        return None
    index, wraps = gathers[0].index, False
    rest = problem.needed(value, frozenset({gathers[0].result}))
    match definitions[index]:
        case Map(op=Op.WHERE, operands=(str(negative), str(wrapped), str(entry))):
            below = definitions[negative] == Map(negative, Op.LT, (entry, Const(0)), definitions[negative].dtype)
            match definitions[wrapped]:
                case Map(op=Op.ADD, operands=(str(added), Const(value=pages))) if below and added == entry:
                    shape = problem.tensor(gathers[0].access.tensor).type.shape
                    index, wraps = entry, pages == shape[gathers[0].position]
    while isinstance(cast := definitions[index], Map) and cast.op is Op.CAST and not cast.dtype.is_float:
        index = str(cast.operands[0])
    table = definitions[index]
    if not all(isinstance(s, Map) for s in rest) or not isinstance(table, Load) or table.access.valid:
        return None
    steps = [c for access in (gathers[0].access, table.access) for i in access.indices for _, c in i.terms]
    return PagedLoad(gathers[0], table, wraps) if all(c > 0 for c in steps) else None


def attention_body(problem: Problem) -> AttentionBody | None:
    """Return the parts of a Problem that is one attention, or None if it is not one."""
    return _Reader(problem).read()


def holds_two_products(problem: Problem) -> bool:
    """Return whether a body has the two contractions of an attention, with reductions beside them."""
    reduces = any(isinstance(s, Reduce) for s in without_groups(problem).body)
    return reduces and sum(isinstance(s, Contract) for s in problem.body) == 2


class _Reader:
    """Reads a body from its stores to its loads; every step returns None where the body is something else."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.definitions = problem.definitions()

    def read(self) -> AttentionBody | None:
        products = [s for s in self.problem.body if isinstance(s, Contract)]
        reduces = [s for s in self.problem.body if isinstance(s, Reduce)]
        if len(products) != 2 or not all(isinstance(s, _STATEMENTS) for s in self.problem.body):
            return None
        scores, output = products
        split = self.operands(output, scores.result)
        if split is None or not all(self.is_loaded(o) for o in (scores.lhs, scores.rhs, split[1])):
            return None
        softmax = self.softmax(split[0], output, reduces)
        if softmax is None:
            return None
        largest, total, divided, empty_rows = softmax
        stores = self.stores(output, largest, total)
        score = largest.operand
        if stores is None or not self.is_score(score, scores.result):
            return None
        out, logsumexp, divided_after = stores
        if divided == divided_after:
            return None
        sides = self.sides(scores, set(output.axes))
        if sides is None or set(output.axes) & set(out.access.axes):
            return None
        gathers = sum(isinstance(s, Gather) for s in self.problem.body)
        paged = {p.gather for o in (sides[1], split[1]) if (p := paged_load(self.problem, o)) is not None}
        if gathers != len(paged):
            return None
        return AttentionBody(scores, *sides, score, largest, total, output, *split, divided, empty_rows, out, logsumexp)

    def is_loaded(self, value: str) -> bool:
        """Return whether an operand is one element of a tensor, loaded or gathered, with pointwise ops on it."""
        return self.is_simple(value) or paged_load(self.problem, value) is not None

    def is_simple(self, value: str) -> bool:
        """Return whether an operand is one loaded element, read everywhere, with pointwise ops on it."""
        needed = self.problem.needed(value)
        loads = [s for s in needed if isinstance(s, Load)]
        steps = [c for s in loads for i in s.access.indices for _, c in i.terms]
        plain = all(isinstance(s, Load | Map) for s in needed) and all(c > 0 for c in steps)
        return plain and len(loads) == 1 and not loads[0].access.valid and not loads[0].access.gathered

    def operands(self, output: Contract, scores: str) -> tuple[str, str] | None:
        """Return the operand of the second product that comes from the scores, and the other one."""
        depends = [any(s.result == scores for s in self.problem.needed(o)) for o in (output.lhs, output.rhs)]
        if depends == [True, False]:
            return output.lhs, output.rhs
        return (output.rhs, output.lhs) if depends == [False, True] else None

    def softmax(self, value: str, output: Contract, reduces: list[Reduce]) -> tuple[Reduce, Reduce, bool, str] | None:
        """Return the greatest score, the sum of exponentials, whether it divides them here, and the empty rows."""
        value = self.uncast(value)
        guarded = self.guarded(value)
        numerator, divisor = self.quotient(self.uncast(guarded[1]) if guarded else value)
        largest, exponent = self.exponential(numerator)
        if largest is None or exponent is None or (guarded and guarded[0] != largest.result):
            return None
        total = next((r for r in reduces if r.combine is Combine.SUM and self.uncast(r.operand) == numerator), None)
        fits = all(set(r.axes) == set(output.axes) for r in (largest, total) if r is not None)
        if total is None or not fits or (divisor is not None and divisor != total.result):
            return None
        return largest, total, divisor is not None, "zeros" if guarded else "nan"

    def guarded(self, value: str) -> tuple[str, str] | None:
        """Return the reduced value and the other choice of `0 where largest == -inf`."""
        match self.definitions[value]:
            case Map(op=Op.WHERE, operands=(str(condition), Const(value=0), str(other))):
                wanted = Op.EQ
            case Map(op=Op.WHERE, operands=(str(condition), str(other), Const(value=0))):
                wanted = Op.NE
            case _:
                return None
        match self.definitions[condition]:
            case Map(op=op, operands=(str(tested), Const(value=number))) if op is wanted and number == -inf:
                return tested, other
        return None

    def quotient(self, value: str) -> tuple[str, str | None]:
        """Return what a value divides and by what; a value that is no quotient by a reduction is divided by nothing."""
        match self.definitions[value]:
            case Map(op=Op.DIV, operands=(str(over), str(under))) if isinstance(self.definitions[under], Reduce):
                return self.uncast(over), under
            case Map(op=Op.MUL, operands=(str(one), str(other))):
                for over, inverse in ((one, other), (other, one)):
                    match self.definitions[inverse]:
                        case Map(op=Op.RECIPROCAL, operands=(str(under),)):
                            return self.uncast(over), under
        return value, None

    def exponential(self, value: str) -> tuple[Reduce | None, str | None]:
        """Return the reduction and the difference of `exp(score - largest score)`."""
        match self.definitions[value]:
            case Map(op=Op.EXP, operands=(str(exponent),)):
                match self.definitions[self.uncast(exponent)]:
                    case Map(op=Op.SUB, operands=(str(score), str(largest))):
                        found = self.definitions[largest]
                        if isinstance(found, Reduce) and found.combine is Combine.MAX and found.operand == score:
                            return found, exponent
        return None, None

    def uncast(self, value: str) -> str:
        """Return the value before it was rounded."""
        match self.definitions[value]:
            case Map(op=Op.CAST, operands=(str(before),)):
                return self.uncast(before)
        return value

    def is_score(self, score: str, product: str) -> bool:
        """Return whether a score is made from its product, loads and coordinates by pointwise ops alone."""
        needed = self.problem.needed(score, frozenset({product}))
        return any(product in operands_of(s) for s in needed) or score == product

    def stores(self, output: Contract, largest: Reduce, total: Reduce) -> tuple[Store, Logsumexp | None, bool] | None:
        """Return the store of the output, that of log(sum(exp(score))), and whether rows are divided on their way."""
        out: Store | None = None
        logsumexp: Logsumexp | None = None
        divided = False
        for store in (s for s in self.problem.body if isinstance(s, Store)):
            needed = self.problem.needed(store.value, frozenset({output.result, total.result}))
            used = {store.value, *(o for s in needed for o in operands_of(s))}
            if output.result in used:
                if out is not None or not all(isinstance(s, Load | Map) for s in needed):
                    return None
                out, divided = store, self.divides_output(needed, output.result, total.result)
                if not divided and total.result in used:
                    return None
            elif logsumexp is None and (empty := self.logsumexp_of(store.value, largest)) is not None:
                logsumexp = Logsumexp(store, empty)
            else:
                return None
        return (out, logsumexp, divided) if out is not None else None

    def divides_output(self, needed: list[Definition], output: str, total: str) -> bool:
        """Return whether an epilogue's only use of the row's sum is to divide the product, and that comes first."""
        users = [s for s in needed if total in operands_of(s)]
        first = [s for s in needed if output in operands_of(s)]
        match users:
            case [Map(op=Op.DIV, operands=(str(over), str(under)))] if (over, under) == (output, total):
                return first == users
        return False

    def logsumexp_of(self, value: str, largest: Reduce) -> str | None:
        """Return what a row without keys gives if a value is `log(sum(exp(score - shift))) + shift`, else None.

        The shift is the greatest score or, as in torch.logsumexp, that where it is finite and 0 elsewhere.
        """
        match self.definitions[self.uncast(value)]:
            case Map(op=Op.ADD, operands=(str(one), str(other))):
                for log, shift in ((one, other), (other, one)):
                    match self.definitions[log]:
                        case Map(op=Op.LOG, operands=(str(summed),)) if self.sums(summed, largest, shift):
                            if shift == largest.result:
                                return "nan"
                            return "-inf" if self.is_finite_or_zero(shift, largest.result) else None
        return None

    def sums(self, value: str, largest: Reduce, shift: str) -> bool:
        """Return whether a value is the sum of `exp(score - shift)` over the keys."""
        match self.definitions[value]:
            case Reduce(combine=Combine.SUM, operand=operand, axes=axes) if set(axes) == set(largest.axes):
                match self.definitions[operand]:
                    case Map(op=Op.EXP, operands=(str(exponent),)):
                        match self.definitions[exponent]:
                            case Map(op=Op.SUB, operands=(str(score), str(less))):
                                return (score, less) == (largest.operand, shift)
        return False

    def is_finite_or_zero(self, value: str, largest: str) -> bool:
        """Return whether a value is `largest where abs(largest) != inf else 0`."""
        match self.definitions[value]:
            case Map(op=Op.WHERE, operands=(str(condition), str(chosen), Const(value=0))) if chosen == largest:
                match self.definitions[condition]:
                    case Map(op=Op.NE, operands=(str(tested), Const(value=number))) if number == inf:
                        match self.definitions[tested]:
                            case Map(op=Op.ABS, operands=(str(inner),)):
                                return inner == largest
        return False

    def sides(self, scores: Contract, keys: set[str]) -> tuple[str, str] | None:
        """Return the operands that come from Q and from K: K alone runs along the keys."""
        on_keys = [
            any(keys & set(s.access.axes) for s in self.problem.needed(o) if isinstance(s, Load | Gather))
            for o in (scores.lhs, scores.rhs)
        ]
        if on_keys == [False, True]:
            return scores.lhs, scores.rhs
        return (scores.rhs, scores.lhs) if on_keys == [True, False] else None


_STATEMENTS = Load | Gather | Map | Contract | Reduce | Index | Store
