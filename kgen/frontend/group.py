"""The state of a cut: the groups in launch order, which group computes a value, and what values depend on."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kgen.errors.frontend import NotOneKernelError, UnsupportedViewError
from kgen.frontend.contractions import CONTRACTIONS
from kgen.frontend.expand.builder import REDUCE, SCAN
from kgen.frontend.indices import NotOneKernel
from kgen.frontend.kernel import Kind, Source, Target, write
from kgen.frontend.layouts import stored_type, views_of
from kgen.ir.graph import Node, OpGraph, ValueRef, argument_refs
from kgen.ir.problem import Problem, ProblemTensor, TensorRole
from kgen.ir.tensor import TensorType


@dataclass(slots=True, eq=False)
class Group:
    """One kernel in the making: its kind, the anchors it computes, the values it must store."""

    kind: Kind = Kind.LOOP
    anchors: list[ValueRef] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product, which no other anchor may join."""
        return self.kind is not Kind.LOOP

    @property
    def ends(self) -> list[ValueRef]:
        """The values whose operands the group reads."""
        return [*(t.ref for t in self.targets), *self.anchors]


class Cut:
    """The groups of a graph; `home` is the group that computes an anchor or a stored value."""

    def __init__(self, graph: OpGraph) -> None:
        self.inputs = {i.name for i in graph.inputs}
        self.groups: list[Group] = []
        self.home: dict[ValueRef, Group] = {}
        self.read_graph(graph)

    def read_graph(self, graph: OpGraph) -> None:
        """Make a graph the one that is cut."""
        self.graph: OpGraph = graph
        self.nodes: dict[str, Node] = {n.name: n for n in graph.nodes}
        self.uses = {n.name: () if _reduces_nothing(n, graph) else _uses(n) for n in graph.nodes}
        self.position: dict[str, int] = {n.name: i for i, n in enumerate(graph.nodes)}
        self.views = views_of(graph)
        self.stored_types: dict[ValueRef, TensorType] = {}

    def rewrite(self, node: Node, nodes: tuple[Node, ...]) -> None:
        """Put other nodes in the place of one."""
        at = self.position[node.name]
        self.read_graph(replace(self.graph, nodes=(*self.graph.nodes[:at], *nodes, *self.graph.nodes[at + 1 :])))

    def is_anchor(self, node: Node) -> bool:
        """Return whether a node needs more than one element of an operand."""
        return bool(self.uses[node.name]) and (node.op in CONTRACTIONS or node.op.startswith((REDUCE, SCAN)))

    def order(self, group: Group) -> int:
        """Return the position of a group in launch order."""
        return next(i for i, g in enumerate(self.groups) if g is group)

    def operands(self, ref: ValueRef) -> tuple[ValueRef, ...]:
        """Return the values that a node's result is computed from."""
        return self.uses.get(ref.name, ())

    def sources(self, refs: Iterable[ValueRef], group: Group | None = None) -> list[ValueRef]:
        """Return where a walk back from values ends: graph inputs, and values that another group has computed."""
        found: dict[ValueRef, None] = {}
        met, stack = set(refs), list(refs)
        while stack:
            ref = stack.pop()
            ends = ref.name in self.inputs or (ref in self.home and self.home[ref] is not group)
            if ends:
                found[ref] = None
            for operand in () if ends else self.operands(ref):
                if operand not in met:
                    met.add(operand)
                    stack.append(operand)
        return list(found)

    def latest(self, refs: Iterable[ValueRef], group: Group | None = None) -> int:
        """Return the position of the last group that values depend on, -1 for none."""
        homes = {self.home[r] for r in self.sources(refs, group) if r in self.home}
        return next((i for i in reversed(range(len(self.groups))) if self.groups[i] in homes), -1)

    def source(self, group: Group, position: int) -> Source:
        """Return what a group at a position may read: inputs, and what earlier groups have computed."""
        external, earlier = {}, set(self.groups[:position])
        for ref, home in self.home.items():
            if home is not group and home in earlier:
                external[ref] = ProblemTensor(f"@{ref}", self.buffer_type(ref), TensorRole.INPUT)
        return Source(self.graph, external)

    def buffer_type(self, ref: ValueRef) -> TensorType:
        """Return the type of the tensor that holds a value between two kernels."""
        if ref not in self.stored_types:
            self.stored_types[ref] = stored_type(self.graph, self.views, ref)
        return self.stored_types[ref]

    def target(self, ref: ValueRef) -> Target:
        """Return a trial's store of a value."""
        return Target(ref, f"@out {ref}", self.buffer_type(ref))

    def fits(self, group: Group, position: int, more: tuple[Target, ...]) -> Problem | None:
        """Return the kernel of a group with more stores, or None if it is not one kernel."""
        targets = (*group.targets, *more)
        if group.kind is Kind.LOOP:
            targets = (*targets, *(self.target(a) for a in self.also_stored(group, targets)))
        if group.kind is Kind.ATTENTION and not self.reaches({t.ref for t in targets}, {group.anchors[-1]}, set()):
            targets = (self.target(group.anchors[-1]), *targets)
        try:
            return write("trial", self.source(group, position), targets, group.kind)
        except (NotOneKernel, UnsupportedViewError):
            return None

    def also_stored(self, group: Group, targets: tuple[Target, ...]) -> list[ValueRef]:
        """Return the values of a group that other groups read already, and its anchors that no store needs."""
        stored = {t.ref for t in targets}
        others = [g for g in self.groups if g is not group]
        read = [r for r in self.demanded(group, others) if r not in stored]
        ends = {*stored, *read}
        for anchor in reversed(group.anchors):
            if not self.reaches(ends, {anchor}, set()):
                ends.add(anchor)
                read.append(anchor)
        return sorted(read, key=lambda r: self.position[r.name])

    def demanded(self, group: Group, later: list[Group]) -> set[ValueRef]:
        """Return the values of a group that later groups read."""
        found = {r for g in later for r in self.sources(g.ends, g)}
        return {r for r in found if self.home.get(r) is group}

    def reaches(self, refs: Iterable[ValueRef], wanted: set[ValueRef], stop: set[ValueRef]) -> bool:
        """Return whether values depend on one of those wanted other than through those to stop at."""
        stack = [r for r in refs if r not in stop]
        met = set(stack)
        while stack:
            ref = stack.pop()
            if ref in wanted:
                return True
            for operand in self.operands(ref):
                if operand not in met and operand not in stop:
                    met.add(operand)
                    stack.append(operand)
        return False

    def bytes(self, ref: ValueRef) -> int:
        """Return the bytes of a value in memory."""
        type_ = self.graph.type_of(ref)
        return type_.numel * type_.dtype.bytes


def _uses(node: Node) -> tuple[ValueRef, ...]:
    arguments = (*node.args, *(v for _, v in node.kwargs))
    return tuple(r for argument in arguments for r in argument_refs(argument))


def _reduces_nothing(node: Node, graph: OpGraph) -> bool:
    """Return whether a node reduces over an axis of no elements, which makes a constant of it."""
    if not node.op.startswith(REDUCE):
        return False
    operand, dims = node.args
    assert isinstance(operand, ValueRef) and isinstance(dims, tuple)
    shape = graph.type_of(operand).static_shape
    return any(shape[d] == 0 for d in dims if isinstance(d, int))


def refusal(graph: OpGraph, group: Group, reason: str) -> NotOneKernelError:
    """Return the error that names an operation of a group that is no kernel."""
    nodes = {n.name: n for n in graph.nodes}
    node = nodes.get((*group.anchors, *(t.ref for t in group.targets))[0].name)
    return NotOneKernelError(where=node.where if node else None, op=node.op if node else "the reference", reason=reason)
