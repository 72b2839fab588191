"""How an attention variant works, in the words of a docstring."""

from kgen.backends.source.lines import Lines
from kgen.planning.plan_attention import AttentionVariant


def attention_words(variant: AttentionVariant) -> Lines:
    """Return how a variant loads, its tile and its grid, a line each."""
    candidate, choice = variant.choice.candidate, variant.choice
    turns = "take turns on the tensor cores (ping-pong)" if candidate.value("pingpong") else "multiply"
    return (
        f"Variant {variant.name} ({variant.guard}): Q, K and V arrive by TMA, one producer warp; "
        f"{candidate.number('consumer_wgs')} consumer warp groups {turns}; scores, weights and output in registers.",
        f"  tile {candidate.value('tile_m')} queries x {candidate.value('tile_n')} keys, "
        f"{candidate.number('stages')} stages, {candidate.number('threads')} threads, "
        f"{candidate.number('smem_bytes')} bytes of smem,",
        f"  {choice.ctas} tiles in {choice.waves} grid waves, {choice.wave_efficiency:.0%} full",
    )
