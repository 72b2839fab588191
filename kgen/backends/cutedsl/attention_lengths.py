"""The number of keys of a sequence in a kernel that reads it once for each tile or item, and not for each score."""

from dataclasses import replace

from kgen.backends.source.attention import score_ops
from kgen.backends.source.lines import Lines, bracketed
from kgen.families.attention.form import AttentionForm, ScoreLoad
from kgen.ir.problem import operands_of
from kgen.planning.plan_attention import AttentionVariant


def measured(variant: AttentionVariant) -> ScoreLoad | None:
    """Return where a variant reads the number of keys of an item from; None where no number bounds them."""
    load = variant.form.length
    return load if load is not None and not load.group else None


def masks_by_length(variant: AttentionVariant) -> bool:
    """Return whether that number is all that masks keys inside of the bounds."""
    lengths = variant.form.keys.lengths
    return measured(variant) is not None and lengths is not None and lengths.exact


def masks_by_sequence(variant: AttentionVariant) -> bool:
    """Return whether the numbers of sequences are all that masks keys inside of the bounds, in a kernel of tiles."""
    sequences = variant.form.keys.sequences
    return variant.ranges_keys and sequences is not None and sequences.exact


def printed_form(variant: AttentionVariant) -> AttentionForm:
    """Return the form whose scores are printed: without what the mask of a block says already."""
    form = variant.form
    if not (masks_by_length(variant) or masks_by_sequence(variant)):
        return form
    form = replace(form, keys=replace(form.keys, exact=True))
    used = {form.keys.unmasked, *(o for op in score_ops(form) for o in operands_of(op))}
    used |= {load.value for load in form.sequences or ()}
    return replace(form, score_loads=tuple(load for load in form.score_loads if load.value in used))


def length_view(variant: AttentionVariant) -> Lines:
    """Return the statement that views the numbers of keys by batch, behind a mode of extent 1."""
    length = measured(variant)
    if length is None:
        return ()
    pointer = "lengths.iterator + v.lengths_offset" if length.offset else "lengths.iterator"
    layout = "cute.make_layout((1, *v.batch), stride=v.lengths_stride)"
    return bracketed("mLengths = cute.make_tensor(", (pointer, layout), ")", indent=4)


def length_words(form: AttentionForm) -> str:
    """Return whose keys the number counts."""
    return "its first query sees" if form.keys.lengths and form.keys.lengths.sliding else "of a sequence"
