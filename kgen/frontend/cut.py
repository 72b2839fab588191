"""The cut of a graph into kernels, with the fewest passes over memory that greedy joining finds.

Anchors are the operations that need more than one element of an operand: products, reductions and scans. Each joins
the kernel of the anchors it depends on where the result still is one kernel, else it starts one. Results then join the
kernel of their latest anchor, or share a pointwise one. Last, working backwards, each kernel learns what later ones
need of it.
"""

from collections.abc import Mapping

from kgen.errors.frontend import MutationError, UnsupportedViewError
from kgen.frontend.attention import Attention
from kgen.frontend.contractions import CONTRACTIONS, product_of
from kgen.frontend.exchange import exchange
from kgen.frontend.gates import Gate
from kgen.frontend.group import Cut, Group
from kgen.frontend.kernel import OF_PRODUCTS, OF_SCALED, Kind, Target, draft, simple_operands, updates_in_place
from kgen.frontend.scales import Scaled
from kgen.frontend.steps import steps_of
from kgen.frontend.views import view_operand
from kgen.ir.graph import Node, OpGraph, ValueRef
from kgen.ir.grouped import row_groups
from kgen.ir.problem import Contract, Problem, TensorRole


def cut_graph(graph: OpGraph, results: tuple[Target, ...], fused: Mapping[str, Attention | Gate | Scaled]) -> Cut:
    """Return the cut of a graph that stores the results: groups in launch order, each with all that it stores.

    Attentions, gates and products of scaled operands (`fused`, by the name of their last product) become one kernel
    each; whether they are some is seen when the kernels are written.
    """
    cut = _Placement(graph, results)
    inside = {a.name for found in fused.values() for a in found.anchors}
    for node in graph.nodes:
        match fused.get(node.name):
            case Attention() as attention:
                cut.place_attention(attention)
            case Gate(anchors=anchors):
                cut.place_products(Group(Kind.GATED), anchors)
            case Scaled(anchors=anchors, may_divide=may_divide):
                cut.place_products(Group(Kind.SCALED_IN_PLACE if may_divide else Kind.SCALED), anchors)
            case None if cut.is_anchor(node) and node.name not in inside:
                cut.place_anchor(node)
    for target in results:
        cut.place_result(target)
    cut.settle_updates()
    exchange(cut)
    return cut


class _Placement(Cut):
    """Assigns every anchor and every result to a group."""

    def __init__(self, graph: OpGraph, results: tuple[Target, ...]) -> None:
        super().__init__(graph)
        self.results = {t.ref for t in results}

    def place_anchor(self, node: Node) -> None:
        """Join the first group after all it depends on that can take an anchor, or start one."""
        ref = ValueRef(node.name)
        if node.op in CONTRACTIONS:
            self.place_products(Group(Kind.PRODUCT), (ref,))
            return
        if self.joined(ref):
            return
        if (rest := self.halved(node)) is not None:
            self.place_anchor(rest)
            return
        group = Group()
        if self.fits(group, len(self.groups), (self.target(ref),)) is None:
            self.materialise(self.operands(ref)[0])
        self.groups.append(group)
        self.adopt(group, ref)

    def joined(self, ref: ValueRef) -> bool:
        """Let an anchor join the groups it depends on, or a later one that reads the same."""
        target, operand = self.target(ref), self.operands(ref)[:1]
        if self.merged(target):
            self.adopt(self.groups[self.latest(operand)], ref)
            return True
        first = self.latest(operand)
        for position in range(max(first, 0), len(self.groups)):
            group = self.groups[position]
            if group.is_product or not (position == first or self.shares_input(group, operand)):
                continue
            if self.fits(group, position, (target,)):
                self.adopt(group, ref)
                return True
        return False

    def halved(self, node: Node) -> Node | None:
        """Reduce in two steps if the first can join a group, so that its operand is neither stored nor read again.

        Returns the second step, or None.
        """
        if self.latest((ValueRef(node.name),)) < 0:
            return None
        before = self.graph
        for inner, outer in steps_of(node, before, self.nodes.keys() | self.inputs):
            self.rewrite(node, (inner, outer))
            if self.joined(ValueRef(inner.name)):
                return outer
            self.read_graph(before)
        return None

    def merged(self, target: Target) -> bool:
        """Make one of all the groups that a value depends on, if that is one kernel together with the value."""
        homes = {self.order(self.home[r]) for r in self.sources((target.ref,)) if r in self.home}
        parts = [self.groups[i] for i in sorted(homes)]
        if len(parts) < 2 or any(g.is_product or not g.anchors for g in parts):
            return False
        inside = range(min(homes), max(homes) + 1)
        between = [self.groups[i] for i in inside if i not in homes]
        if any(self.demanded(part, between) for part in parts):
            return False
        joint = Group(anchors=[a for g in parts for a in g.anchors], targets=[t for g in parts for t in g.targets])
        before, homes_before = self.groups, dict(self.home)
        self.home.update({r: joint for r, g in self.home.items() if g in parts})
        self.groups = [joint if g is parts[-1] else g for g in self.groups if g is parts[-1] or g not in parts]
        if self.fits(joint, self.order(joint), (target,)):
            return True
        self.groups, self.home = before, homes_before
        return False

    def adopt(self, group: Group, ref: ValueRef) -> None:
        """Make a group the home of an anchor."""
        group.anchors.append(ref)
        self.home[ref] = group

    def shares_input(self, group: Group, refs: tuple[ValueRef, ...]) -> bool:
        """Return whether a group reads a tensor with axes that values are computed from."""
        read = {r for r in self.sources(group.ends, group) if self.graph.type_of(r).rank}
        return bool(read.intersection(self.sources(refs)))

    def place_products(self, group: Group, refs: tuple[ValueRef, ...]) -> None:
        """Start a group of matrix products."""
        for ref in refs:
            if group.kind in OF_SCALED:
                self.drafted(group, self.target(ref))  # copies what no index shows; all else stays in the kernel
            else:
                self.settle_operands(ref)
        self.groups.append(group)
        for ref in refs:
            self.adopt(group, ref)

    def settle_operands(self, ref: ValueRef) -> None:
        """Have what a matrix product cannot take as loads stored by earlier kernels."""
        group, target = Group(Kind.PRODUCT), self.target(ref)
        found = product_of(self.nodes[ref.name], lambda r: self.graph.type_of(r).rank)
        if found.ends and row_groups(self.drafted(group, target)) is None:
            self.materialise(self.unviewed(found.ends))
        for _ in range(2):
            problem = self.drafted(group, target)
            (product,) = (s for s in problem.body if isinstance(s, Contract))
            simple = simple_operands(problem)
            for operand, value in ((found.lhs, product.lhs), (found.rhs, product.rhs)):
                if not simple[value]:
                    self.materialise(self.unviewed(operand))
            if all(simple.values()):
                break

    def place_attention(self, attention: Attention) -> None:
        """Start the group of an attention; what its products cannot take as loads comes from earlier kernels."""
        group = Group(Kind.ATTENTION, anchors=list(attention.anchors))
        target = self.target(group.anchors[-1])
        for _ in range(2):
            problem = self.drafted(group, target)
            simple = simple_operands(problem, paged=attention.paged)
            first, second = (s for s in problem.body if isinstance(s, Contract))
            operands = zip(attention.operands, (first.lhs, first.rhs, second.lhs, second.rhs), strict=True)
            for operand, value in operands:
                if operand is not None and not simple[value]:
                    self.materialise(self.unviewed(operand))
        self.groups.append(group)
        for anchor in attention.anchors:
            self.home[anchor] = group

    def drafted(self, group: Group, target: Target) -> Problem:
        """Return the draft of a new group's products; a view that no index of theirs can show is copied before."""
        copied: set[ValueRef] = set()
        while True:
            try:
                return draft(self.source(group, len(self.groups)), target, group.kind)
            except UnsupportedViewError as error:
                view = error.fields.get("view")
                if not isinstance(view, ValueRef) or view in copied:
                    raise
                copied.add(view)
                self.materialise(view)

    def unviewed(self, ref: ValueRef) -> ValueRef:
        """Return what a view shows if this kernel would have to compute it, else the view itself."""
        inner, node = ref, self.nodes.get(ref.name)
        while node is not None and inner not in self.home and (operand := view_operand(node)) is not None:
            inner, node = operand, self.nodes.get(operand.name)
        return ref if inner in self.home or inner.name in self.inputs else inner

    def materialise(self, ref: ValueRef) -> None:
        """Have a value stored by the groups so far, in the one of its latest anchor if that can take it."""
        if ref in self.home:
            return
        self.place_result(self.target(ref))

    def place_result(self, target: Target) -> None:
        """Join the group of the latest anchor a result depends on, or one with the same axes, or start one."""
        if target.role is TensorRole.OUTPUT and self.merged(target):
            self.store(self.groups[self.latest((target.ref,))], target)
            return
        first = max(self.latest((target.ref,)), self.last_reader(target))
        for position in range(max(first, 0), len(self.groups)):
            group = self.groups[position]
            if self.welcomes(group, position == first, target) and self.accepts(group, position, target):
                self.store(group, target)
                return
        group = Group()
        self.groups.append(group)
        if target.role is TensorRole.UPDATED and not self.accepts(group, len(self.groups) - 1, target):
            self.groups.pop()
            self.copy_back(target)
            return
        self.store(group, target)

    def accepts(self, group: Group, position: int, target: Target) -> bool:
        """Return whether a group stays one kernel with a store, and a safe one if it updates an input."""
        problem = self.fits(group, position, (target,))
        if problem is None:
            return False
        return target.role is TensorRole.OUTPUT or updates_in_place(problem, target.name)

    def last_reader(self, target: Target) -> int:
        """Return the position of the last group that reads the input which a target updates, else -1."""
        if target.role is TensorRole.OUTPUT:
            return -1
        readers = (i for i, g in enumerate(self.groups) if self.reads(g, target.name))
        return max(readers, default=-1)

    def reads(self, group: Group, name: str) -> bool:
        """Return whether a group reads an input."""
        return ValueRef(name) in self.sources(group.ends, group)

    def copy_back(self, target: Target) -> None:
        """Update an input from a buffer, in a kernel after everything else."""
        if target.ref.name in self.inputs:
            raise MutationError(op="copy_", target=target.name)
        self.materialise(target.ref)
        group = Group()
        self.groups.append(group)
        group.targets.append(target)

    def settle_updates(self) -> None:
        """Move an update that a later kernel would see to the end, through a buffer."""
        updates = [(g, t) for g in self.groups for t in g.targets if t.role is TensorRole.UPDATED]
        for group, target in updates:
            later = self.groups[self.order(group) + 1 :]
            if any(self.reads(g, target.name) for g in later):
                group.targets.remove(target)
                self.copy_back(target)

    def welcomes(self, group: Group, is_latest: bool, target: Target) -> bool:
        """Return whether a result should share a group's kernel if it can."""
        if group.kind in OF_PRODUCTS:
            only = all(self.only_through(anchor, target.ref) for anchor in group.anchors)
            return is_latest and not group.targets and only
        if group.kind is Kind.ATTENTION:
            return is_latest
        scalar = target.type.numel == 1
        return is_latest or scalar or not group.anchors or self.shares_input(group, (target.ref,))

    def only_through(self, anchor: ValueRef, ref: ValueRef) -> bool:
        """Return whether nothing but one value needs an anchor, so that the anchor itself need not be stored."""
        ends = [r for r in self.results if r != ref]
        ends += [ValueRef(n.name) for n in self.graph.nodes if self.is_anchor(n)]
        return not self.reaches([e for e in ends if e != anchor], {anchor}, stop={ref})

    def store(self, group: Group, target: Target) -> None:
        """Add a store to a group; the value can be read from there."""
        group.targets.append(target)
        if target.role is TensorRole.OUTPUT and target.ref.name not in self.inputs:
            self.home.setdefault(target.ref, group)
