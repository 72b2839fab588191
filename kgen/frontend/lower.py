"""OpGraph to Program: the meaning of the reference as Problems, one per kernel. No choices of how are made here.

Composite operations are written out, the graph is cut into kernels, and each kernel's body is written backwards from
what it stores.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from kgen.errors.base import UnsupportedError
from kgen.frontend.attention import Attention, attentions
from kgen.frontend.axis_names import axis_names
from kgen.frontend.body import free_name
from kgen.frontend.cut import cut_graph
from kgen.frontend.expand import expand
from kgen.frontend.gates import Gate, gates
from kgen.frontend.group import Cut, Group, refusal
from kgen.frontend.indices import NotOneKernel
from kgen.frontend.kernel import Source, Target, write
from kgen.frontend.rename import renamed
from kgen.frontend.scales import Scaled, scaled_products
from kgen.ir.attention import holds_two_products
from kgen.ir.dtype import DType
from kgen.ir.graph import OpGraph, ValueRef
from kgen.ir.problem import Contract, Gather, Precision, Problem, ProblemTensor, TensorRole
from kgen.ir.program import Buffer, Program
from kgen.ir.tensor import TensorType
from kgen.spec.model import Spec, ordered_strides

Fused = Mapping[str, Attention | Gate | Scaled]  # what is one kernel with several anchors, by the name of the last one


def lower(graph: OpGraph, spec: Spec) -> Program:
    """Return the program of a reference: its kernels in launch order, and the buffers between them.

    Where it has gates, products of scaled operands or attentions, each is one kernel, and `plain` is the program for
    devices that have no such kernel: first without gates, then with scaled operands in memory, then with copies of what
    is gathered, then with no attention at all. Raises an `UnsupportedError` that names the op and the user's line for
    what no kernel computes.
    """
    expanded = expand(graph)
    program, kept = _with_scales(graph, expanded, spec)
    gated = _fused(graph, expanded, spec, gates(expanded), kept)
    return replace(gated[0], plain=program) if gated else program


def _with_scales(graph: OpGraph, expanded: OpGraph, spec: Spec) -> tuple[Program, Fused]:
    """Return the program with attentions and products of scaled operands in one kernel each, and these."""
    found = scaled_products(expanded)
    try:
        program, kept = _with_attentions(graph, expanded, spec)
    except UnsupportedError:  # scaled operands that no kernel can store
        if (scaled := _fused(graph, expanded, spec, found)) is None:
            raise
        return scaled
    scaled = _fused(graph, expanded, spec, found, kept)
    return (replace(scaled[0], plain=program), scaled[1]) if scaled else (program, kept)


def _with_attentions(graph: OpGraph, expanded: OpGraph, spec: Spec) -> tuple[Program, Fused]:
    """Return the program with attentions in one kernel each, and these attentions."""
    found = attentions(expanded)
    fused = _fused(graph, expanded, spec, found)
    if fused is None:
        return _lowered(graph, expanded, spec, {}), {}
    program, kept = fused
    plain: Program | None = None
    with suppress(UnsupportedError):
        plain = _lowered(graph, expanded, spec, {})
    if any(_reads_pages(problem) for problem in program.problems):
        copied = _fused(graph, expanded, spec, {name: replace(a, paged=False) for name, a in found.items()})
        plain = replace(copied[0], plain=plain) if copied else plain
    return replace(program, plain=plain), kept


def _reads_pages(problem: Problem) -> bool:
    """Return whether an attention reads what a table gathers."""
    return holds_two_products(problem) and any(isinstance(s, Gather) for s in problem.body)


def _fused(
    graph: OpGraph, expanded: OpGraph, spec: Spec, found: Fused, before: Fused | None = None
) -> tuple[Program, Fused] | None:
    """Return the program with as many of those found as are some in one kernel each, and these; None if none is.

    Those `before` are kernels already.
    """
    kept = dict(before or {})
    program: Program | None = None
    for name, one in found.items():
        if {a for other in kept.values() for a in other.anchors}.intersection(one.anchors):
            continue
        for attempt in _attempts(one):
            with suppress(NotOneKernel, UnsupportedError):
                program = _lowered(graph, expanded, spec, {**kept, name: attempt})
                kept[name] = attempt
                break
    return (program, kept) if program else None


def _attempts(one: Attention | Gate | Scaled) -> tuple[Attention | Gate | Scaled, ...]:
    """Return the ways to make one kernel of what was found, the best one first."""
    if isinstance(one, Attention):
        return tuple(dict.fromkeys((one, replace(one, paged=False))))
    if isinstance(one, Scaled):
        return one, replace(one, may_divide=False)
    return (one,)


def _lowered(graph: OpGraph, expanded: OpGraph, spec: Spec, fused: Fused) -> Program:
    """Return the program in which these attentions, gates and products of scaled operands are kernels."""
    results = _results(graph, expanded)
    updated = tuple(
        Target(m.value, m.input, _input_type(graph, m.input), TensorRole.UPDATED) for m in expanded.mutations
    )
    cut = cut_graph(expanded, (*results, *updated), fused)
    buffers = _named_buffers(cut)
    problems = _problems(cut, spec)
    return Program(graph.name, graph.inputs, tuple(r.name for r in results), problems, buffers, graph.returns_tuple)


def _results(graph: OpGraph, expanded: OpGraph) -> tuple[Target, ...]:
    taken = {i.name for i in graph.inputs}
    several = len(graph.outputs) > 1
    found = []
    for k, (ref, original) in enumerate(zip(expanded.outputs, graph.outputs, strict=True)):
        name = free_name(f"out{k}" if several else "out", taken)
        taken.add(name)
        found.append(Target(ref, name, dense(graph.type_of(original))))
    return tuple(found)


def _input_type(graph: OpGraph, name: str) -> TensorType:
    return next(i.type for i in graph.inputs if i.name == name)


def _named_buffers(cut: Cut) -> tuple[Buffer, ...]:
    """Give the values between kernels their names, in the order in which they are written."""
    taken = set(cut.inputs)
    buffers: list[Buffer] = []
    for group in cut.groups:
        for position, target in enumerate(group.targets):
            if target.name.startswith("@"):
                name = free_name(f"buffer_{len(buffers)}", taken)
                taken.add(name)
                group.targets[position] = replace(target, name=name)
                buffers.append(Buffer(name, target.type))
    return tuple(buffers)


def _problems(cut: Cut, spec: Spec) -> tuple[Problem, ...]:
    graph = cut.graph
    external: dict[ValueRef, ProblemTensor] = {}
    problems = []
    for position, group in enumerate(cut.groups):
        name = graph.name if len(cut.groups) == 1 else f"{graph.name}_{position}"
        problem = _precise(_written(name, Source(graph, dict(external)), group), spec)
        problems.append(renamed(problem, axis_names(problem, spec)))
        for target in group.targets:
            if target.role is TensorRole.OUTPUT and target.ref.name in cut.nodes:
                external.setdefault(target.ref, ProblemTensor(target.name, target.type, TensorRole.INPUT))
    return tuple(problems)


def _precise(problem: Problem, spec: Spec) -> Problem:
    """Return the problem whose products of fp32 operands are taken as the spec asks."""
    if spec.precision is Precision.DEFAULT:
        return problem
    definitions = problem.definitions()
    body = tuple(
        replace(s, precision=spec.precision)
        if isinstance(s, Contract) and definitions[s.lhs].dtype is DType.FP32
        else s
        for s in problem.body
    )
    return replace(problem, body=body)


def _written(name: str, source: Source, group: Group) -> Problem:
    try:
        return write(name, source, tuple(group.targets), group.kind)
    except NotOneKernel as error:
        raise refusal(source.graph, group, str(error)) from None


def dense(type_: TensorType) -> TensorType:
    """Return the type with its axes in the same stride order and no gaps: what a kernel allocates for a result."""
    if any(stride == 0 and extent > 1 for extent, stride in zip(type_.static_shape, type_.strides, strict=True)):
        return TensorType.contiguous(type_.dtype, type_.static_shape)  # an expanded axis has no place in the order
    order = sorted(range(type_.rank), key=lambda axis: (-type_.strides[axis], axis))
    return replace(type_, strides=ordered_strides(type_.static_shape, tuple(order)))
