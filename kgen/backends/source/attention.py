"""What an attention computes, on every back-end: what is printed of its scores, and its formula."""

from kgen.backends.source.lines import Lines
from kgen.families.attention.form import AttentionForm
from kgen.ir.problem import Map, operands_of
from kgen.planning.plan_attention import AttentionVariant


def score_ops(form: AttentionForm) -> tuple[Map, ...]:
    """Return the operations on a score that the bounds do not say already."""
    if not form.keys.exact:
        return form.score_ops
    by_result = {op.result: op for op in form.score_ops}
    found, stack = set[str](), [form.keys.unmasked]
    while stack:
        name = stack.pop()
        if name in by_result and name not in found:
            found.add(name)
            stack += operands_of(by_result[name])
    return tuple(op for op in form.score_ops if op.result in found)


def modifies(form: AttentionForm) -> bool:
    """Return whether scores are more than a positive multiple of the products inside of their exact bounds."""
    return bool(score_ops(form)) or form.scale <= 0


def attention_formula(variant: AttentionVariant) -> Lines:
    """Return the attention of a variant as a formula with what goes beyond it."""
    form, keys, ops = variant.form, variant.form.keys, score_ops(variant.form)
    formula = (
        f"{form.out.tensor} = softmax({form.scale!r} * Q K^T) V of {form.q.tensor}, {form.k.tensor}, {form.v.tensor}"
    )
    bounds = [f"n {sign} m + {bound}" for sign, bound in ((">=", keys.least), ("<=", keys.most)) if bound is not None]
    beyond = (
        f"{form.ratio} query heads share a head of K and V" if form.ratio > 1 else "",
        f"a query at m sees the keys {' and '.join(bounds)}" if bounds else "",
        f"{form.length.tensor} says how many keys a sequence has" if form.length else "",
        f"{form.pages.tensor} where the pages of K and V lie" if form.pages else "",
        f"{len(ops)} more operations on scores" if ops else "",
        f"{len(form.epilogue_ops)} on the output" if form.epilogue_ops else "",
        f"{form.logsumexp.tensor} = log(sum(exp(scores)))" if form.logsumexp else "",
    )
    return ("; ".join((formula, *filter(None, beyond))) + ".",)
