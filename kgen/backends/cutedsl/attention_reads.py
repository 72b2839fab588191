"""The tensors that scores and the epilogue of an attention read, each reading under a name of its own in the kernel."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kgen.families.attention.form import AttentionForm, EpilogueLoad, ScoreLoad
from kgen.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class Read:
    """One way to read a tensor; `strides` are of (query, key or dim, group, *batch), `values` what it is loaded for."""

    name: str
    tensor: str
    dtype: DType
    offset: int
    strides: tuple[int, ...]
    values: tuple[str, ...]


def score_reads(form: AttentionForm) -> tuple[Read, ...]:
    """Return the distinct readings of the score in order."""
    return _reads("score", form.score_loads)


def epilogue_reads(form: AttentionForm) -> tuple[Read, ...]:
    """Return the distinct readings of the epilogue in order."""
    return _reads("after", form.epilogue_loads)


def _reads(prefix: str, loads: Sequence[ScoreLoad | EpilogueLoad]) -> tuple[Read, ...]:
    found: dict[tuple[str, DType, int, tuple[int, ...]], list[str]] = {}
    for load in loads:
        match load:
            case ScoreLoad(value=value, tensor=tensor, dtype=dtype, offset=offset):
                strides = (load.queries, load.keys, load.group, *load.batch)
            case EpilogueLoad(value=value, source=source):
                tensor, dtype, offset = source.tensor, source.dtype, source.offset
                strides = (source.tokens, source.dim, source.group, *source.batch)
        found.setdefault((tensor, dtype, offset, strides), []).append(value)
    reads: list[Read] = []
    for (tensor, dtype, offset, strides), values in found.items():
        name = f"{prefix}_" + re.sub(r"\W", "_", tensor)
        while any(r.name == name for r in reads):
            name += "_"
        reads.append(Read(name, tensor, dtype, offset, strides, tuple(values)))
    return tuple(reads)
