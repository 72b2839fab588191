"""Three hundred random pointwise and reduction programs: program `index` is the same in every run.

The kinds take turns; everything else is drawn from a generator seeded with the index.
"""

import hashlib
import random
import subprocess
from functools import cache
from pathlib import Path

import program_fused as fused
import program_pointwise as pointwise
import program_reductions as reductions
from program_model import Draft, Program

COUNT = 300
OF_A_COMMIT = 30
ROOT = Path(__file__).resolve().parents[2]
KINDS = (
    *(pointwise.unary_chain, reductions.total, fused.softmax, pointwise.two_inputs, reductions.extremum),
    *(fused.row_norm, pointwise.many_inputs, reductions.variance, fused.loss, pointwise.choice),
    *(reductions.place_of_extremum, fused.residual_norm, pointwise.integers, reductions.prefix, fused.quantise),
    *(pointwise.extremes, reductions.rows_and_columns, fused.other_norm, pointwise.mixed_kinds, reductions.norm),
    *(fused.batch_norm, pointwise.views, reductions.logsumexp, fused.cross_entropy, pointwise.quotient),
    *(reductions.integer_total, fused.norm_activation, pointwise.two_results, reductions.truth, fused.similarity),
    *(pointwise.rounding, reductions.product, fused.gated, pointwise.integer_division, reductions.around),
    *(fused.rotary, pointwise.fused_arithmetic, reductions.extremum_with_place, fused.two_kernels, reductions.total),
    *(reductions.degenerate, fused.dequantise, reductions.several_of_a_row, reductions.wide_total, fused.update),
)


def program(index: int) -> Program:
    """Return the program of that index."""
    kind = KINDS[index % len(KINDS)]
    draft = Draft(index, kind.__name__)
    return draft.program(*kind(draft))


def of_commit(digest: str) -> list[int]:
    """Return the 30 programs that a commit's hash picks."""
    return sorted(random.Random(digest).sample(range(COUNT), OF_A_COMMIT))


@cache
def commit() -> str:
    """Return the hash of the commit that is checked out; outside of a checkout, a digest of kgen's sources."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20
        )
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        digest = hashlib.sha256()
        for path in sorted((ROOT / "kgen").rglob("*.py")):
            digest.update(path.read_bytes())
        return digest.hexdigest()
