"""Computes D from a GemmForm alone: every operand is viewed through the form's extents, strides and offsets.

This is what the emitted kernels do with those numbers, so that a wrong stride, fold or swap shows without a GPU.
"""

import torch
from problem_eval import Evaluation

from kgen.families.gemm.form import BlockScale, GemmForm, InputOps
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.problem import Map, Problem

SENTINEL = 77


def viewed(tensor: torch.Tensor, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """Return a view of the tensor's storage; a stride outside of it is a RuntimeError."""
    return torch.as_strided(tensor, shape, strides, tensor.storage_offset() + offset)


def _operand(form: GemmForm, access, outer: int, ops: InputOps, tensors, evaluation: Evaluation) -> torch.Tensor:
    shape = (*form.batch, outer, form.k)
    view = viewed(
        tensors[access.tensor], access.offset, shape, (*(s or 0 for s in access.batch), access.outer, access.k)
    )
    evaluation.values = {ops.source: view}
    return _apply(ops.ops, evaluation)[ops.result].to(TORCH_DTYPES[form.mma_dtype])


def _scaled(form: GemmForm, operand: torch.Tensor, scales: tuple[BlockScale, ...], tensors, evaluation: Evaluation):
    """Return an operand times its scales, each read at its block of rows and of k, and its batch."""
    found = operand.float()
    for scale in scales:
        extents = (*form.batch, *operand.shape[-2:])
        row, k, *batch = scale.stride
        steps = (*((1, stride) for stride in batch), (scale.rows or operand.shape[-2], row), (scale.k, k))
        at = torch.full((1,) * len(extents), scale.offset)
        for dim, (extent, (run, stride)) in enumerate(zip(extents, steps, strict=True)):
            index = torch.arange(extent) // run * stride
            at = at + index.view(*(-1 if d == dim else 1 for d in range(len(extents))))
        tensor = tensors[scale.tensor]
        size = int(at.max()) + 1
        evaluation.values = {scale.ops.source: viewed(tensor, 0, (size,), (1,))[at]}
        found = found * _apply(scale.ops.ops, evaluation)[scale.ops.result]
    return found


def _of_groups(form: GemmForm, access, ops: InputOps, tensors, evaluation: Evaluation) -> torch.Tensor:
    """Return the B of each row's group: (m, n, k); of rows behind the last group the last one's."""
    groups = form.groups
    shape, strides = (groups.count, form.n, form.k), (groups.b_stride, access.outer, access.k)
    evaluation.values = {ops.source: viewed(tensors[access.tensor], access.offset, shape, strides)}
    each = _apply(ops.ops, evaluation)[ops.result].to(TORCH_DTYPES[form.mma_dtype])
    ends = viewed(tensors[groups.ends], groups.offset, (groups.count,), (groups.stride,))
    group = torch.searchsorted(ends.contiguous(), torch.arange(form.m, dtype=ends.dtype), right=True)
    return each[group.clamp(max=groups.count - 1)]


def _apply(ops: tuple[Map, ...], evaluation: Evaluation) -> dict[str, torch.Tensor]:
    for op in ops:
        evaluation.values[op.result] = evaluation.map(op)
    return evaluation.values


def evaluate_form(form: GemmForm, problem: Problem, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the output tensor; elements that the form does not reach keep `SENTINEL`."""
    evaluation = Evaluation(problem, tensors)
    a = _operand(form, form.a, form.m, form.a_ops, tensors, evaluation)
    a = _scaled(form, a, form.a_scales, tensors, evaluation)
    shape = (*form.batch, form.m, form.n)
    products = [(form.accumulator, form.b, form.b_ops)]
    if form.second:
        products.append((form.second.accumulator, form.second.b, form.second.b_ops))
    sums = {}
    for accumulator, access, ops in products:
        if form.groups:
            b, equation = _of_groups(form, access, ops, tensors, evaluation), "mk,mnk->mn"
        else:
            b, equation = _operand(form, access, form.n, ops, tensors, evaluation), "...mk,...nk->...mn"
            b = _scaled(form, b, form.b_scales, tensors, evaluation)
        sums[accumulator] = torch.einsum(equation, a.float(), b.float())
    evaluation.values = sums
    for load in form.epilogue_loads:
        s = load.source
        evaluation.values[load.value] = viewed(tensors[s.tensor], s.offset, shape, (*s.batch, s.m, s.n))
    result = _apply(form.epilogue_ops, evaluation)[form.result]
    type_ = problem.tensor(form.d.tensor).type
    out = torch.full((max(type_.numel, 1),), SENTINEL, dtype=TORCH_DTYPES[type_.dtype])
    target = viewed(out, form.d.offset, shape, (*form.d.batch, form.d.m, form.d.n))
    target.copy_(result.expand(shape).to(target.dtype))
    return torch.as_strided(out, type_.static_shape, type_.strides)
