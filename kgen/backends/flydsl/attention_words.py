"""How a variant of an attention on CDNA computes it, in the words of a docstring."""

from kgen.backends.source.lines import Lines
from kgen.planning.plan_attention import AttentionVariant


def attention_words(variant: AttentionVariant) -> Lines:
    """Return how a variant loads, its tile and its grid, a line each."""
    candidate, choice = variant.choice.candidate, variant.choice
    buffers = candidate.number("buffers")
    return (
        f"Variant {variant.name} ({variant.guard}): K and V pass through registers into LDS, while MFMA multiplies the "
        "tile before; scores, weights, Q and the output stay in registers.",
        f"  tile {candidate.number('tile_m')} queries x {candidate.number('tile_n')} keys, {candidate.number('warps')} "
        f"warps of 32x32 MFMAs, {buffers} tile{'s' if buffers > 1 else ''} of keys in {candidate.number('smem_bytes')} "
        "bytes of LDS,",
        f"  {choice.ctas} workgroups in {choice.waves} grid waves, {choice.wave_efficiency:.0%} full",
    )
