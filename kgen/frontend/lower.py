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
from kgen.frontend.group import Cut, Group, refusal
from kgen.frontend.indices import NotOneKernel
from kgen.frontend.kernel import Source, Target, write
from kgen.frontend.rename import renamed
from kgen.ir.attention import holds_two_products
from kgen.ir.dtype import DType
from kgen.ir.graph import OpGraph, ValueRef
from kgen.ir.problem import Contract, Gather, Precision, Problem, ProblemTensor, TensorRole
from kgen.ir.program import Buffer, Program
from kgen.ir.tensor import TensorType
from kgen.spec.model import Spec, ordered_strides


def lower(graph: OpGraph, spec: Spec) -> Program:
    """Return the program of a reference: its kernels in launch order, and the buffers between them.

    Where it has attentions, each is one kernel, and `plain` is the program for devices that have no such kernel: first
    with copies of what is gathered, then with no attention at all. Raises an `UnsupportedError` that names the op and
    the user's line for what no kernel computes.
    """
    expanded = expand(graph)
    found = attentions(expanded)
    fused = _fused(graph, expanded, spec, found) if found else None
    if fused is None:
        return _lowered(graph, expanded, spec, {})
    plain: Program | None = None
    with suppress(UnsupportedError):
        plain = _lowered(graph, expanded, spec, {})
    if any(_reads_pages(problem) for problem in fused.problems):
        copied = _fused(graph, expanded, spec, {name: replace(a, paged=False) for name, a in found.items()})
        plain = replace(copied, plain=plain) if copied else plain
    return replace(fused, plain=plain)


def _reads_pages(problem: Problem) -> bool:
    """Return whether an attention reads what a table gathers."""
    return holds_two_products(problem) and any(isinstance(s, Gather) for s in problem.body)


def _fused(graph: OpGraph, expanded: OpGraph, spec: Spec, found: Mapping[str, Attention]) -> Program | None:
    """Return the program with as many of the attentions as are some in one kernel each; None if none is."""
    kept: dict[str, Attention] = {}
    program: Program | None = None
    for name, attention in found.items():
        for attempt in dict.fromkeys((attention, replace(attention, paged=False))):
            with suppress(NotOneKernel, UnsupportedError):
                program = _lowered(graph, expanded, spec, {**kept, name: attempt})
                kept[name] = attempt
                break
    return program


def _lowered(graph: OpGraph, expanded: OpGraph, spec: Spec, fused: Mapping[str, Attention]) -> Program:
    """Return the program in which these attentions are kernels."""
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
