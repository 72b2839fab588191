"""What the kernels of a cut leave in memory for one another: of each value that crosses, the smallest form of it."""

from kgen.frontend.group import Cut, Group
from kgen.frontend.views import view_operand
from kgen.ir.graph import ValueRef


def exchange(cut: Cut) -> None:
    """Give every group, from the last to the first, the stores of what later groups read of it."""
    for position in reversed(range(len(cut.groups))):
        group = cut.groups[position]
        later = cut.groups[position + 1 :]
        demanded = cut.demanded(group, later)
        stored = {t.ref for t in group.targets}
        wanted = {r for r in demanded if r not in stored}
        if not wanted:
            continue
        value = _frontier(cut, group, position, wanted, later)
        refs = wanted if value is None else {value}
        for ref in sorted(refs, key=lambda r: cut.position[r.name]):
            cut.home[ref] = group
            group.targets.append(cut.target(ref))
    cut.groups = [g for g in cut.groups if g.targets]


def _frontier(cut: Cut, group: Group, position: int, wanted: set[ValueRef], later: list[Group]) -> ValueRef | None:
    """Return a value after those wanted through which alone later groups need them, if it takes no more bytes."""
    ends = [r for g in later for r in (t.ref for t in g.targets)]
    ends += [r for g in later for r in g.anchors]
    limit = sum(cut.bytes(r) for r in wanted)
    for ref in reversed(_after(cut, wanted)):
        if cut.bytes(ref) > limit or cut.reaches(ends, wanted, {ref}) or cut.latest((ref,), group) > position:
            continue
        if cut.fits(group, position, (cut.target(ref),)):
            return ref
    return None


def _after(cut: Cut, wanted: set[ValueRef]) -> list[ValueRef]:
    """Return the pointwise values made of those wanted with no other anchor in between."""
    reached, found = set(wanted), []
    for node in cut.graph.nodes[min(cut.position[r.name] for r in wanted) :]:
        ref = ValueRef(node.name)
        if cut.is_anchor(node) or ref in cut.home or not reached.intersection(cut.operands(ref)):
            continue
        reached.update(ValueRef(node.name, i) for i in range(len(node.types)))
        if len(node.types) == 1 and view_operand(node) is None:
            found.append(ref)
    return found
