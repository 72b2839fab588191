"""The number of keys of a sequence in a kernel that reads it once for each item, and not for each score."""

from dataclasses import replace

from kgen.backends.cutedsl.attention_device import score_ops
from kgen.families.attention.form import AttentionForm, ScoreLoad
from kgen.ir.problem import operands_of
from kgen.planning.plan_attention import AttentionVariant


def measured(variant: AttentionVariant) -> ScoreLoad | None:
    """Return where a variant reads the number of keys of an item from; None where no number bounds them."""
    load = variant.form.length
    return load if variant.few_rows and load is not None and not load.group else None


def masks_by_length(variant: AttentionVariant) -> bool:
    """Return whether that number is all that masks keys inside of the bounds."""
    lengths = variant.form.keys.lengths
    return measured(variant) is not None and lengths is not None and lengths.exact


def printed_form(variant: AttentionVariant) -> AttentionForm:
    """Return the form whose scores are printed: without what the number says already."""
    form = variant.form
    if not masks_by_length(variant):
        return form
    form = replace(form, keys=replace(form.keys, exact=True))
    used = {form.keys.unmasked, *(o for op in score_ops(form) for o in operands_of(op))}
    return replace(form, score_loads=tuple(load for load in form.score_loads if load.value in used))
