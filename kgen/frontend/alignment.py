"""Where the values of a graph stand in one kernel, so that a reduced axis is the axis that other uses run along.

`softmax` asks for x at (m, n), for its greatest element at (m), and for that's operand x at (m, ?): the axis is n,
because x already stands there. Without this every reduction would bring an axis of its own.
"""

from collections.abc import Callable, Iterator, Mapping

from kgen.frontend.contractions import CONTRACTIONS, product_of
from kgen.frontend.expand.builder import REDUCE, SCAN
from kgen.frontend.indices import ZERO, Indices, NotAffineError
from kgen.frontend.kernel_axes import Axes, match_indices
from kgen.frontend.pointwise_rules import POINTWISE
from kgen.frontend.products import operand_places
from kgen.frontend.views import broadcast, pull_view, view_operand
from kgen.ir.access import Affine
from kgen.ir.graph import Node, OpGraph, ValueRef, argument_refs

Place = tuple[ValueRef, Indices]


class Alignment:
    """The places at which values stand, and the axes that reductions run along."""

    def __init__(
        self,
        graph: OpGraph,
        nodes: Mapping[str, Node],
        axes: Axes,
        external: Mapping[ValueRef, str],
        *,
        through_products: bool = False,
    ) -> None:
        self.through_products = through_products  # a product's operands stand in this kernel, too
        self.graph, self.nodes, self.axes, self.external = graph, nodes, axes, external
        self.known: dict[ValueRef, list[Indices]] = {}
        self.reduced: dict[tuple[str, Indices], Indices] = {}
        self.running: dict[str, None] = {}  # axes that are reduced or scanned

    def note(self, ref: ValueRef, indices: Indices) -> None:
        """Record where everything that a value is computed from stands."""
        pending: list[tuple[Node, Indices]] = []
        for seen, where in self.walk((ref, indices), lambda node, kept: pending.append((node, kept))):
            self.known.setdefault(seen, []).append(where)
        for node, kept in pending:
            self.reduced_indices(node, kept)

    def reduced_indices(self, node: Node, kept: Indices) -> Indices:
        """Return the indices of the axes that a reduction combines, for the indices of its result."""
        key = (node.name, kept)
        if key not in self.reduced:
            operand, dims, shape = self._operand(node)
            wanted = tuple(self.axes.candidate(f"{node.name}:{d}", shape[d]) for d in dims)
            bound = self._bind(wanted, [(operand, _merged(kept, dims, wanted))], kept)
            found = tuple(
                self._placed(index, f"{node.name}:{d}", shape[d], bound) for d, index in zip(dims, wanted, strict=True)
            )
            self.reduced[key] = found
            self.running.update(dict.fromkeys(a for index in found for a in index.axes))
            self.note(operand, _merged(kept, dims, found))
        return self.reduced[key]

    def stored_indices(self, ref: ValueRef, shape: tuple[int, ...], label: str) -> Indices:
        """Return the indices at which a value is stored: where it stands already, else on axes of its own."""
        roots = [f"{label}{i}" for i in range(len(shape))]
        wanted = tuple(self.axes.candidate(root, extent) for root, extent in zip(roots, shape, strict=True))
        bound = self._bind(wanted, [(ref, wanted)], ()) if self.known else {}
        found = tuple(
            self._placed(index, root, extent, bound) for index, root, extent in zip(wanted, roots, shape, strict=True)
        )
        self.note(ref, found)
        return found

    def full_indices(self, node: Node, kept: Indices) -> Indices:
        """Return the indices of a reduction's operand."""
        _, dims, _ = self._operand(node)
        return _merged(kept, dims, self.reduced_indices(node, kept))

    def _operand(self, node: Node) -> tuple[ValueRef, tuple[int, ...], tuple[int, ...]]:
        operand, dims = node.args[0], node.args[1]
        assert isinstance(operand, ValueRef) and isinstance(dims, tuple)
        return operand, tuple(d for d in dims if isinstance(d, int)), self.graph.type_of(operand).static_shape

    def _placed(self, index: Affine, root: str, extent: int, bound: Mapping[str, str]) -> Affine:
        if index.axes and all(a in bound for a in index.axes):
            return Affine(tuple((bound[a], c) for a, c in index.terms), index.offset)
        return self.axes.index(root, extent)

    def _bind(self, wanted: Indices, start: list[Place], kept: Indices) -> dict[str, str]:
        """Return an existing axis for each candidate axis that has one, first where the same values stand."""
        free = {a for index in wanted for a in index.axes if a not in self.axes.extents}
        used = {a for index in kept for a in index.axes}
        bound: dict[str, str] = {}
        for place in start:
            for ref, where in self.walk(place, None):
                if free <= bound.keys():
                    return bound
                for other in self.known.get(ref, ()):
                    found = match_indices(where, other, self.axes, self._candidates(where))
                    mine = {a: b for a, b in (found or {}).items() if a in free}
                    if mine and not used.intersection(mine.values()) and self._agrees(bound, mine):
                        bound.update(mine)
                        break
        self._bind_by_extent(wanted, bound, used)
        return bound

    def _candidates(self, where: Indices) -> set[str]:
        return {a for index in where for a in index.axes if a not in self.axes.extents and a not in self.axes.dynamic}

    def _agrees(self, bound: Mapping[str, str], found: Mapping[str, str]) -> bool:
        joint = {**bound, **found}
        return all(bound.get(a, b) == b for a, b in found.items()) and len(set(joint.values())) == len(joint)

    def _bind_by_extent(self, wanted: Indices, bound: dict[str, str], used: set[str]) -> None:
        """Give candidates that no value places an existing axis of their extent; reduced axes first."""
        existing = [*self.running, *(a for a in self.axes.extents if a not in self.running)]
        for index in wanted:
            for axis in index.axes:
                taken = used | set(bound.values())
                fits = (a for a in existing if a not in taken and self.axes.extents[a] == self.axes.known[axis])
                if axis not in bound and axis not in self.axes.extents and (partner := next(fits, None)):
                    bound[axis] = partner

    def walk(self, start: Place, pending: Callable[[Node, Indices], None] | None) -> Iterator[Place]:
        """Yield a place and those of all it is computed from; reductions go to `pending`, or are walked through."""
        stack, met = [start], {start}
        while stack:
            ref, indices = stack.pop()
            yield ref, indices
            for place in self._operands(ref, indices, pending):
                if place not in met:
                    met.add(place)
                    stack.append(place)

    def _operands(
        self, ref: ValueRef, indices: Indices, pending: Callable[[Node, Indices], None] | None
    ) -> list[Place]:
        node = self.nodes.get(ref.name)
        if node is None or ref in self.external:
            return []
        if (operand := view_operand(node)) is not None:
            shape = self.graph.type_of(operand).static_shape
            try:
                return [(operand, pull_view(node, ref.index, shape, self.axes.known, indices))]
            except NotAffineError:
                return []
        if node.op.startswith(REDUCE):
            return self._through(node, indices, pending)
        if node.op in CONTRACTIONS and self.through_products:
            product = product_of(node, lambda r: len(self.graph.type_of(r).static_shape))
            return list(operand_places(node, product, self.graph, self.axes, indices))
        if node.op.startswith(SCAN):
            dim = node.args[1]
            assert isinstance(dim, int)
            self.running.update(dict.fromkeys(a for a in indices[dim].axes if a in self.axes.extents))
        elif node.op not in POINTWISE and not node.op.startswith("kgen."):
            return []
        shape = node.types[0].static_shape
        refs = dict.fromkeys(r for argument in node.args for r in argument_refs(argument))
        shapes = {r: self.graph.type_of(r).static_shape for r in refs}
        return [(r, broadcast(s, shape, indices)) for r, s in shapes.items() if _broadcasts(s, shape)][::-1]

    def _through(self, node: Node, kept: Indices, pending: Callable[[Node, Indices], None] | None) -> list[Place]:
        if pending is not None:
            pending(node, kept)
            return []
        operand, dims, shape = self._operand(node)
        found = self.reduced.get((node.name, kept))
        if found is None:
            found = tuple(self.axes.candidate(f"{node.name}:{d}", shape[d]) for d in dims)
        return [(operand, _merged(kept, dims, found))]


def _broadcasts(source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    tail = target[len(target) - len(source) :]
    return len(source) <= len(target) and all(a in (1, b) for a, b in zip(source, tail, strict=True))


def _merged(kept: Indices, dims: tuple[int, ...], reduced: Indices) -> Indices:
    """Return the indices of an operand from those of its kept and of its reduced axes."""
    kept_left, reduced_left = iter(kept), iter(reduced)
    return tuple(next(reduced_left if d in dims else kept_left, ZERO) for d in range(len(kept) + len(dims)))
