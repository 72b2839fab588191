"""What the launch function of an attention takes: its parameters by their roles, and the tensors that these are."""

from kgen.backends.cutedsl.attention_lengths import measured, printed_form
from kgen.backends.cutedsl.attention_reads import epilogue_reads, score_reads
from kgen.planning.plan_attention import AttentionVariant


def parameters(variant: AttentionVariant) -> tuple[str, ...]:
    """Return the parameters for tensors, those that only its kernels see at the end."""
    form = printed_form(variant)
    return (
        *("q", "k", "values", *(r.name for r in (*score_reads(form), *epilogue_reads(form))), "o"),
        *(("logsumexp",) if form.logsumexp else ()),
        *(("lengths",) if measured(variant) else ()),
        *(("table",) if form.pages else ()),
        *variant.workspace,
    )


def tensors(variant: AttentionVariant) -> tuple[str, ...]:
    """Return the tensors of the program that these are, which the workspace is not."""
    form, length = printed_form(variant), measured(variant)
    reads = (r.tensor for r in (*score_reads(form), *epilogue_reads(form)))
    return (
        *(form.q.tensor, form.k.tensor, form.v.tensor, *reads, form.out.tensor),
        *((form.logsumexp.tensor,) if form.logsumexp else ()),
        *((length.tensor,) if length else ()),
        *((form.pages.tensor,) if form.pages else ()),
    )
