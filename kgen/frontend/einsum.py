"""Einsum equations, parsed onto labels: one label an axis, an ellipsis filled with labels of its own."""

from dataclasses import dataclass

from kgen.errors.base import Where
from kgen.errors.frontend import UnsupportedEinsumError


@dataclass(frozen=True, slots=True)
class Einsum:
    """The labels of each operand's axes and of the result's."""

    operands: tuple[tuple[str, ...], ...]
    result: tuple[str, ...]


def parse_einsum(equation: str, ranks: tuple[int, ...], where: Where | None) -> Einsum:
    """Parse an equation for operands of the given ranks; refuse what is no batched product of two operands."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    fill = max((rank - _named(part) for part, rank in zip(parts, ranks, strict=True) if "..." in part), default=0)
    operands = tuple(_labels(part, rank, fill) for part, rank in zip(parts, ranks, strict=True))
    counts = {label: sum(o.count(label) for o in operands) for o in operands for label in o}
    if arrow:
        result = _labels(right, _named(right) + (fill if "..." in right else 0), fill)
    else:  # the implicit result: the ellipsis first, then labels that occur once, in alphabetical order
        dots = tuple(label for label in counts if label.startswith("."))
        result = (*sorted(dots), *sorted(label for label, n in counts.items() if n == 1 and label not in dots))
    found = Einsum(operands, result)
    if reason := _refusal(found):
        raise UnsupportedEinsumError(where=where, equation=equation, reason=reason)
    return found


def _named(part: str) -> int:
    return len(part.replace("...", ""))


def _labels(part: str, rank: int, fill: int) -> tuple[str, ...]:
    """Return one label an axis; the axes under an ellipsis are numbered from the right, as broadcasting aligns them."""
    before, dots, after = part.partition("...")
    covered = rank - len(before) - len(after)
    inner = tuple(f".{fill - covered + i}" for i in range(covered)) if dots else ()
    return (*before, *inner, *after)


def _refusal(einsum: Einsum) -> str:
    for labels in (*einsum.operands, einsum.result):
        repeated = sorted({label for label in labels if labels.count(label) > 1})
        if repeated:
            return f"the label {repeated[0]!r} is repeated in one operand (a diagonal)"
    if len(einsum.operands) != 2:
        return f"it has {len(einsum.operands)} operands"
    lhs, rhs = einsum.operands
    summed = [label for label in (*lhs, *rhs) if label not in einsum.result]
    for label in summed:
        if (label in lhs) != (label in rhs):
            return f"the label {label!r} is summed in one operand only"
    if not summed:
        return "it sums over nothing"
    return ""
