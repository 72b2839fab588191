"""Computes an attention from its AttentionForm alone, as a kernel does: views by strides, bounded keys, row by row.

A wrong stride, fold, scale or bound shows without a GPU. Where the bounds are exact, the mask itself is not evaluated.
"""

import torch
from form_eval import SENTINEL, viewed
from problem_eval import Evaluation

from kgen.families.attention.form import AttentionForm
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.problem import Problem


def evaluate_attention(form: AttentionForm, problem: Problem, tensors: dict[str, torch.Tensor]):
    """Return the output and, where the form has one, the logsumexp."""
    run = Evaluation(problem, tensors)
    heads = (*form.batch, form.ratio)
    q = tokens(form.q, tensors, (*heads, form.m, form.d))
    if form.pages is None:
        k = tokens(form.k, tensors, (*heads, form.n, form.d))
        v = tokens(form.v, tensors, (*heads, form.n, form.dv))
    else:
        k = paged(form, form.k, form.pages.k_page, tensors, form.d)
        v = paged(form, form.v, form.pages.v_page, tensors, form.dv)
    shape = (*heads, form.m, form.n)
    run.values = {form.scaled: form.scale * torch.einsum("...md,...nd->...mn", q, k)}
    for load in form.score_loads:
        strides = (*load.batch, load.group, load.queries, load.keys)
        run.values[load.value] = viewed(tensors[load.tensor], load.offset, shape, strides)
    for c in form.coordinates:
        place = {"queries": -2, "keys": -1, "group": -3}.get(c.along)
        place = int(c.along.removeprefix("batch_")) if place is None else place % len(shape)
        count = torch.arange(shape[place]) // c.divisor % c.extent
        run.values[c.value] = count.reshape([-1 if i == place else 1 for i in range(len(shape))])
    lengths = form.keys.lengths
    bounded = form.keys.exact or (lengths and (lengths.exact or lengths.first is not None))
    wanted = form.keys.unmasked if bounded else form.score
    for op in form.score_ops:
        run.values[op.result] = run.map(op)
    seen = inside(form) if lengths is None else inside(form) & counted(form, tensors)
    score = run.values[wanted].expand(shape).float().masked_fill(~seen, -torch.inf)
    largest = score.amax(-1, keepdim=True)
    weights = torch.exp(score - largest.masked_fill(largest == -torch.inf, 0))
    total = weights.sum(-1, keepdim=True)
    run.values = {form.output: torch.einsum("...mn,...nv->...mv", weights, v) / total}
    if form.empty_rows == "zeros":
        run.values[form.output] = run.values[form.output].masked_fill(largest == -torch.inf, 0)
    for load in form.epilogue_loads:
        run.values[load.value] = tokens(load.source, tensors, (*heads, form.m, form.dv), wide=False)
    for op in form.epilogue_ops:
        run.values[op.result] = run.map(op)
    out = stored(problem, form.out, run.values[form.result], (*heads, form.m, form.dv), form.out.tokens, form.out.dim)
    if form.logsumexp is None:
        return (out,)
    found = (torch.log(total) + largest).squeeze(-1)
    return out, stored(problem, form.logsumexp, found, (*heads, form.m), form.logsumexp.queries)


def tokens(access, tensors, shape, *, wide=True) -> torch.Tensor:
    strides = (*access.batch, access.group, access.tokens, access.dim)
    view = viewed(tensors[access.tensor], access.offset, shape, strides)
    return view.float() if wide else view


def paged(form: AttentionForm, access, page: int, tensors, dim: int) -> torch.Tensor:
    """Return K or V read through the table: an address for each element, as a kernel would make it."""
    table, heads = form.pages, (*form.batch, form.ratio)
    count = -(-form.n // table.size)
    entry = viewed(tensors[table.tensor], table.offset, (*heads, count), (*table.batch, table.group, table.entries))
    assert table.wraps or (entry >= 0).all()
    start = torch.where(entry < 0, entry + table.pages, entry).long() * page
    key = torch.arange(form.n)
    at = access.offset + start[..., key // table.size] + key % table.size * access.tokens
    for place, (extent, step) in enumerate(zip(heads, (*access.batch, access.group), strict=True)):
        at = at + (torch.arange(extent) * step).reshape([-1 if i == place else 1 for i in range(len(heads) + 1)])
    tensor = tensors[access.tensor]
    flat = tensor.as_strided((tensor.untyped_storage().size() // tensor.element_size(),), (1,), 0)
    return flat[at[..., None] + torch.arange(dim) * access.dim].float()


def inside(form: AttentionForm) -> torch.Tensor:
    """Return whether a pair of query and key is inside the form's bounds."""
    found = torch.zeros(form.m, form.n, dtype=torch.bool)
    for m in range(form.m):
        first, last = form.keys.of_query(m, form.n)
        found[m, first : last + 1] = True
    return found


def counted(form: AttentionForm, tensors) -> torch.Tensor:
    """Return whether a query sees a key by the lengths of the form."""
    lengths, load = form.keys.lengths, form.length
    assert (load.queries, load.keys) == (0, 0)
    shape = (*form.batch, form.ratio, form.m, 1)
    length = viewed(tensors[load.tensor], load.offset, shape, (*load.batch, load.group, 0, 0))
    key = torch.arange(form.n) - (torch.arange(form.m)[:, None] if lengths.sliding else 0)
    seen = key < length + lengths.extra
    return seen if lengths.first is None else seen & (key >= length + lengths.first)


def stored(problem: Problem, access, value: torch.Tensor, shape: tuple[int, ...], *inner: int) -> torch.Tensor:
    type_ = problem.tensor(access.tensor).type
    out = torch.full((max(type_.numel, 1),), SENTINEL, dtype=TORCH_DTYPES[type_.dtype])
    target = viewed(out, access.offset, shape, (*access.batch, access.group, *inner))
    target.copy_(value.expand(shape).to(target.dtype))
    return torch.as_strided(out, type_.static_shape, type_.strides)
