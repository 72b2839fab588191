"""How a variant of an attention computes it, in the words of a docstring."""

from kgen.backends.source.lines import Lines
from kgen.planning.plan_attention import AttentionVariant


def attention_words(variant: AttentionVariant) -> Lines:
    """Return how a variant loads, its tile and its grid, a line each."""
    candidate, choice = variant.choice.candidate, variant.choice
    if variant.few_rows:
        return _few_rows_words(variant)
    turns = "take turns on the tensor cores (ping-pong)" if candidate.value("pingpong") else "multiply"
    return (
        f"Variant {variant.name} ({variant.guard}): Q, K and V arrive by TMA, one producer warp; "
        f"{candidate.number('consumer_wgs')} consumer warp groups {turns}; scores, weights and output in registers.",
        f"  tile {candidate.value('tile_m')} queries x {candidate.value('tile_n')} keys, "
        f"{candidate.number('stages')} stages, {candidate.number('threads')} threads, "
        f"{candidate.number('smem_bytes')} bytes of smem,",
        f"  {choice.ctas} tiles in {choice.waves} grid waves, {choice.wave_efficiency:.0%} full",
    )


def _few_rows_words(variant: AttentionVariant) -> Lines:
    candidate, choice, form = variant.choice.candidate, variant.choice, variant.form
    parts = f"; a second kernel adds up the {variant.splits} parts of a head"
    return (
        f"Variant {variant.name} ({variant.guard}): a CTA for each head of K and V and part of its keys; one tile has "
        f"all {form.m * form.ratio} rows of Q that share them{parts if variant.splits > 1 else ''}.",
        f"  tile 64 rows x {candidate.value('tile_n')} keys, {candidate.number('stages')} stages, "
        f"{candidate.number('threads')} threads, {candidate.number('smem_bytes')} bytes of smem, "
        f"{candidate.number('ctas_per_unit')} CTAs per SM,",
        f"  {choice.ctas} items in {choice.waves} grid waves, {choice.wave_efficiency:.0%} full",
    )
