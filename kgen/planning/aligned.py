"""Attentions whose operands cannot be loaded as they lie: copies whose rows it can, made by kernels of their own.

A row that is no whole number of 16 bytes, a slice that starts between them, or a V whose tokens are contiguous: the
copy has its head dim last, padded to 16 bytes. An output with such rows is stored so, too, and copied afterwards.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kgen.errors.base import UnsupportedError
from kgen.families.attention.classify import classify_attention
from kgen.families.attention.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.attention.form import TokenAccess
from kgen.ir.access import Access, Affine
from kgen.ir.attention import holds_two_products
from kgen.ir.problem import Axis, Load, Problem, ProblemTensor, Store, TensorRole
from kgen.ir.program import Buffer, Program
from kgen.ir.tensor import TensorType, row_major_strides
from kgen.planning.attention import why_not_fused
from kgen.target import Device


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of a tensor: its type, and the axis along which it starts at `offset`, that of the head dim."""

    type: TensorType
    axis: int
    offset: int


Copies = Mapping[str, _Copy]  # by the name of a tensor


@dataclass(frozen=True, slots=True)
class _Copied:
    """An attention between its copies, in the order of launch."""

    problems: tuple[Problem, ...]
    buffers: tuple[Buffer, ...]


def with_aligned(programs: Mapping[str, Program], device: Device) -> tuple[dict[str, Program], tuple[str, ...]]:
    """Return the programs with such copies where they make an attention one kernel, and the reasons.

    All cases copy the same tensors, or none does.
    """
    wanted: dict[int, set[str]] = {}
    reasons: dict[str, None] = {}
    for program in programs.values():
        for place, problem in enumerate(program.problems):
            if copies := _needed(problem, device):
                wanted.setdefault(place, set()).update(copies)
                names = ", ".join(copies)
                reasons[f"{problem.name}: {names} in copies with rows of whole 16 bytes along the head dim"] = None
    if not wanted:
        return dict(programs), ()
    return {case: _with_copies(program, wanted) for case, program in programs.items()}, tuple(reasons)


def _with_copies(program: Program, wanted: Mapping[int, set[str]]) -> Program:
    problems: list[Problem] = []
    buffers = list(program.buffers)
    for place, problem in enumerate(program.problems):
        names = wanted.get(place, set())
        copied = _copied(problem, {name: copy for name, copy in _layouts(problem).items() if name in names})
        problems += copied.problems
        buffers += copied.buffers
    return replace(program, problems=tuple(problems), buffers=tuple(buffers))


def _needed(problem: Problem, device: Device) -> Copies:
    """Return the copies that make a problem one kernel, if it is an attention that is none without."""
    if not holds_two_products(problem) or why_not_fused(problem, device) is None:
        return {}
    with suppress(UnsupportedError):
        copies = _copies(problem)
        whole = _copied(problem, copies).problems[len(_inputs(problem, copies))]
        return copies if why_not_fused(whole, device) is None else {}
    return {}


def _copies(problem: Problem) -> Copies:
    """Return the copies of what a template cannot load or store as it lies."""
    form = classify_attention(problem)
    if form.pages is not None:
        return {}
    facts = facts_of(form, MAX_ALIGN_BYTES)
    fits = {
        form.q.tensor: facts.q_align == MAX_ALIGN_BYTES and facts.q_major == "dim",
        form.out.tensor: facts.out_align == MAX_ALIGN_BYTES,
    }
    for access, align, major in ((form.k, facts.k_align, facts.k_major), (form.v, facts.v_align, facts.v_major)):
        fits[access.tensor] = fits.get(access.tensor, True) and align == MAX_ALIGN_BYTES and major == "dim"
    layouts = _layouts(problem)
    return {name: layouts[name] for name, whole in fits.items() if not whole and name in layouts}


def _layouts(problem: Problem) -> Copies:
    """Return the copies of Q, K, V and O, of those whose head dim is one axis."""
    if not holds_two_products(problem):
        return {}
    form = classify_attention(problem)
    found: dict[str, _Copy | None] = {}
    for access, dim in ((form.q, form.d), (form.k, form.d), (form.v, form.dv), (form.out, form.dv)):
        copy = _layout(problem, access, dim)
        if found.setdefault(access.tensor, copy) != copy:
            found[access.tensor] = None  # operands of one tensor with head dims that differ
    return {name: copy for name, copy in found.items() if copy is not None}


def _layout(problem: Problem, access: TokenAccess, dim: int) -> _Copy | None:
    """Return the copy of a tensor: its head dim last and padded to 16 bytes, other axes in their order."""
    type_ = problem.tensor(access.tensor).type
    walks = [s.access for s in problem.body if isinstance(s, Load | Store) and s.access.tensor == access.tensor]
    starts = {(i, walk.indices[i].offset) for walk in walks for i in _head_dims(problem, walk, type_, access, dim)}
    if len(starts) != 1 or any(walk.valid for walk in walks):
        return None
    ((axis, offset),) = starts
    shape, unit = list(type_.static_shape), MAX_ALIGN_BYTES // type_.dtype.bytes
    shape[axis] = dim
    order = [*sorted((i for i in range(type_.rank) if i != axis), key=lambda i: (-type_.strides[i], i)), axis]
    padded = [*(shape[i] for i in order[:-1]), -(-dim // unit) * unit]
    steps = dict(zip(order, row_major_strides(tuple(padded)), strict=True))
    strides = tuple(steps[i] for i in range(type_.rank))
    return _Copy(TensorType(type_.dtype, tuple(shape), strides), axis, offset)


def _head_dims(problem: Problem, walk: Access, type_: TensorType, access: TokenAccess, dim: int) -> Iterator[int]:
    """Yield the axes of a tensor along which the head dim walks alone."""
    for i, index in enumerate(walk.indices):
        is_axis = type_.strides[i] == access.dim and [c for _, c in index.terms] == [1] and index.divisor == 1
        if is_axis and problem.axis(index.axes[0]).extent == dim:
            yield i


def _inputs(problem: Problem, copies: Copies) -> list[ProblemTensor]:
    return [t for t in problem.inputs if t.name in copies]


def _copied(problem: Problem, copies: Copies) -> _Copied:
    """Return an attention that reads and writes copies, between the kernels that make them."""
    names = {name: f"{problem.name}.{name}" for name in copies}
    before = [_read(t, names[t.name], copies[t.name]) for t in _inputs(problem, copies)]
    after = [_written(t, names[t.name], copies[t.name]) for t in problem.outputs if t.name in copies]
    tensors = tuple(
        replace(t, name=names[t.name], type=copies[t.name].type) if t.name in copies else t for t in problem.tensors
    )
    body = tuple(
        replace(s, access=_moved(s.access, names[s.access.tensor], copies[s.access.tensor]))
        if isinstance(s, Load | Store) and s.access.tensor in copies
        else s
        for s in problem.body
    )
    buffers = tuple(Buffer(names[name], copy.type) for name, copy in copies.items())
    return _Copied((*before, replace(problem, tensors=tensors, body=body), *after), buffers)


def _moved(access: Access, name: str, copy: _Copy) -> Access:
    """Return the access of a tensor as that of its copy, which starts at the offset."""
    indices = list(access.indices)
    indices[copy.axis] = replace(indices[copy.axis], offset=0)
    return replace(access, tensor=name, indices=tuple(indices))


def _read(tensor: ProblemTensor, name: str, copy: _Copy) -> Problem:
    """Return the kernel that makes the copy of an operand."""
    indices = [Affine.of(f"i{i}") for i in range(tensor.type.rank)]
    indices[copy.axis] = replace(indices[copy.axis], offset=copy.offset)
    return _copying(Access(tensor.name, tuple(indices)), tensor.type, name, copy.type)


def _written(tensor: ProblemTensor, name: str, copy: _Copy) -> Problem:
    """Return the kernel that makes a result of its copy."""
    indices = tuple(Affine.of(f"i{i}") for i in range(tensor.type.rank))
    return _copying(Access(name, indices), copy.type, tensor.name, tensor.type)


def _copying(source: Access, source_type: TensorType, target: str, type_: TensorType) -> Problem:
    axes = tuple(Axis(f"i{i}", extent) for i, extent in enumerate(type_.static_shape))
    indices = tuple(Affine.of(axis.name) for axis in axes)
    return Problem(
        name=f"copy of {source.tensor}",
        axes=axes,
        tensors=(
            ProblemTensor(source.tensor, source_type, TensorRole.INPUT),
            ProblemTensor(target, type_, TensorRole.OUTPUT),
        ),
        body=(Load("value", source, source_type.dtype), Store("value", Access(target, indices))),
    )
