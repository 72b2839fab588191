"""OpGraph to Program: the meaning of the reference as Problems. No choices are made here.

The body is written backwards from the result. A reshape may need a finer axis than there is; then the axis is split and
the body written again, until it stands.
"""

from dataclasses import replace

from kgen.errors.frontend import ChainTooLongError, MutationError, NoContractionError, SeveralResultsError
from kgen.frontend.axis_names import axis_names
from kgen.frontend.body import Axes, Body, free_name
from kgen.frontend.indices import AxisSplit
from kgen.frontend.rename import renamed
from kgen.ir.access import Access
from kgen.ir.graph import OpGraph
from kgen.ir.problem import Axis, Const, Load, Problem, ProblemTensor, Store, TensorRole
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.spec.model import Spec, ordered_strides


def lower(graph: OpGraph, spec: Spec) -> Program:
    """Return the program of a reference that is one matrix product with views and pointwise work around it.

    Raises an `UnsupportedError` that names the op and the user's line for everything else.
    """
    _check_results(graph)
    problem = _problem(graph)
    problem = renamed(problem, axis_names(problem, spec))
    results = tuple(t.name for t in problem.outputs)
    return Program(graph.name, graph.inputs, results, (problem,), (), graph.returns_tuple)


def _check_results(graph: OpGraph) -> None:
    for mutation in graph.mutations:
        node = graph.node(mutation.value.name)
        op = node.op if node else "the reference"
        raise MutationError(where=node.where if node else None, op=op, target=mutation.input)
    if len(graph.outputs) > 1:
        where = graph.nodes[-1].where if graph.nodes else None
        raise SeveralResultsError(where=where, count=len(graph.outputs))


def _problem(graph: OpGraph) -> Problem:
    splits: dict[str, tuple[int, ...]] = {}
    while True:
        axes = Axes(splits)
        try:
            return _written(graph, Body(graph, axes), axes)
        except AxisSplit as split:
            _split(splits, axes, split)
        except RecursionError:  # a value asks for its operands, and so a chain of operations nests calls
            where = graph.nodes[-1].where if graph.nodes else None
            raise ChainTooLongError(where=where, count=len(graph.nodes)) from None


def _split(splits: dict[str, tuple[int, ...]], axes: Axes, split: AxisSplit) -> None:
    """Record that an axis becomes two; an axis that is a factor already is split within its tensor axis."""
    root, _, position = split.axis.rpartition(".")
    extent = axes.extents[split.axis]
    halves = (extent // split.inner, split.inner)
    if root in splits:
        factors, at = splits[root], int(position)
        splits[root] = (*factors[:at], *halves, *factors[at + 1 :])
    else:
        splits[split.axis] = halves


def _written(graph: OpGraph, body: Body, axes: Axes) -> Problem:
    (result,) = graph.outputs
    type_ = graph.type_of(result)
    indices = tuple(axes.index(f"out{i}", extent) for i, extent in enumerate(type_.static_shape))
    value = body.value(result, indices)
    if body.product is None or isinstance(value, Const):
        ops = ", ".join(dict.fromkeys(n.op for n in graph.nodes)) or "none"
        where = graph.nodes[-1].where if graph.nodes else None
        raise NoContractionError(where=where, ops=ops)
    name = free_name("out", {i.name for i in graph.inputs})
    read = {s.access.tensor for s in body.statements if isinstance(s, Load)}
    tensors = [ProblemTensor(i.name, i.type, TensorRole.INPUT) for i in graph.inputs if i.name in read]
    tensors.append(ProblemTensor(name, dense(type_), TensorRole.OUTPUT))
    kernel_axes = tuple(Axis(axis, extent) for axis, extent in axes.extents.items())
    store = Store(value, Access(name, indices))
    return Problem(graph.name, kernel_axes, tuple(tensors), (*body.statements, store))


def dense(type_: TensorType) -> TensorType:
    """Return the type with its axes in the same stride order and no gaps: what a kernel allocates for a result."""
    if any(stride == 0 and extent > 1 for extent, stride in zip(type_.static_shape, type_.strides, strict=True)):
        return TensorType.contiguous(type_.dtype, type_.static_shape)  # an expanded axis has no place in the order
    order = sorted(range(type_.rank), key=lambda axis: (-type_.strides[axis], axis))
    return replace(type_, strides=ordered_strides(type_.static_shape, tuple(order)))
