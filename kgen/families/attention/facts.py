"""AttentionForm -> AttentionFacts: the problem facts that the rules and the cost model of the family read."""

from math import gcd

from kgen.families.attention.form import AttentionForm, TokenAccess
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.ir.pointwise import PointwiseOp as Op

MAX_ALIGN_BYTES = 16  # no rule asks for more


def facts_of(form: AttentionForm, base_align: int, out_base_align: int = MAX_ALIGN_BYTES) -> AttentionFacts:
    """Return the facts of an attention whose operands' base addresses are aligned to `base_align` bytes."""
    bounded = (form.keys.least, form.keys.most) != (None, None)
    most = max((last - first + 1 for first, last in _edges(form)), default=0)
    return AttentionFacts(
        queries=form.m,
        keys=form.n,
        d=form.d,
        dv=form.dv,
        batch=form.batch_count,
        ratio=form.ratio,
        mean_keys=form.keys.visible(form.m, form.n) / max(form.m, 1),
        most_keys=most,
        bounded=int(bounded),
        in_dtype=str(form.mma_dtype),
        out_dtype=str(form.out.dtype),
        in_bytes=form.mma_dtype.bytes,
        out_bytes=form.out.dtype.bytes,
        q_major=_major(form.q, form.m, form.d),
        k_major=_major(form.k, form.n, form.d),
        v_major=_major(form.v, form.n, form.dv),
        q_align=_align(form.q, base_align),
        k_align=_align(form.k, base_align, form.pages.k_page if form.pages else 0),
        v_align=_align(form.v, base_align, form.pages.v_page if form.pages else 0),
        out_align=_align(form.out, out_base_align),
        input_ops=int(form.input_ops),
        score_ops=len(form.score_ops),
        score_loads=len(form.score_loads),
        score_load_bytes=sum(load.dtype.bytes for load in form.score_loads if load.queries and load.keys),
        epilogue_ops=sum(op.op is not Op.CAST for op in form.epilogue_ops) + len(form.epilogue_loads),
        logsumexp=int(form.logsumexp is not None),
        q_shared=int(form.ratio > 1 and not form.q.group),
        lengths=int(
            form.keys.lengths is not None and form.keys.lengths.exact and not (form.length and form.length.group)
        ),
        page_size=form.pages.size if form.pages else 0,
        row_step=max(abs(a.tokens) * a.dtype.bytes for a in (form.q, form.k, form.v, form.out)),
    )


def _edges(form: AttentionForm) -> list[tuple[int, int]]:
    """Return the keys of queries of which one sees the most: first, last, and those where a bound meets the end."""
    turns = {0, form.m - 1}
    for bound in (form.keys.least, form.keys.most):
        if bound is not None:
            turns |= {-bound, form.n - 1 - bound}
    return [form.keys.of_query(m, form.n) for m in turns if 0 <= m < form.m]


def _major(access: TokenAccess, tokens: int, dim: int) -> str:
    """Return which axis is contiguous; an axis of extent 1 is contiguous if the other one is not."""
    if access.dim == 1 or dim == 1:
        return "dim" if access.tokens or tokens == 1 else "none"
    return "tokens" if access.tokens == 1 or tokens == 1 else "none"


def _align(access: TokenAccess, base_align: int, page: int = 0) -> int:
    """Return the largest power of two up to 16 bytes that divides the base and every stride that is not 1.

    `page` is the stride from page to page.
    """
    size = access.dtype.bytes
    steps = (s for s in (access.tokens, access.dim, access.group, page, *access.batch) if s != 1)
    return gcd(MAX_ALIGN_BYTES, max(base_align, size), access.offset * size, *(s * size for s in steps))
