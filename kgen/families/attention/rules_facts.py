"""What the attention rules may name: the facts of one problem, and the vocabulary they form with arch and device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from kgen.families.gemm.rules_facts import ALIGNMENTS, DEVICE_FIELDS, OUT_DTYPES, of_output
from kgen.ir.dtype import DType
from kgen.rules.model import Value
from kgen.rules.ruleset import Fact, Vocabulary

MAJORS = ("dim", "tokens", "none")
FLAGS = (0, 1)
CHOICES: Mapping[str, tuple[Value, ...]] = {
    "in_dtype": OUT_DTYPES,
    "out_dtype": OUT_DTYPES,
    "q_major": MAJORS,
    "k_major": MAJORS,
    "v_major": MAJORS,
    "q_align": ALIGNMENTS,
    "k_align": ALIGNMENTS,
    "v_align": ALIGNMENTS,
    "out_align": ALIGNMENTS,
    "input_ops": FLAGS,
    "bounded": FLAGS,
    "q_shared": FLAGS,
    "logsumexp": FLAGS,
    "lengths": FLAGS,
}
# Lets that every ISA's attention.rules defines: what the cost model reads of a candidate besides its axes.
REQUIRED_LETS = (
    "threads",
    "ctas_per_unit",
    "few_rows",  # 1: all rows that share keys are one tile, whose keys pass once
    "smem_bytes",
    "packed_rows",  # rows of Q that share keys: those of all heads of a group, or of one
    "mma_cycles",  # of the tensor cores, both products of one tile of scores
    "softmax_cycles",  # of the function and FMA units, one tile of scores
    "hidden",  # share of the shorter of these two that runs beside the other
    "smem_moved",  # bytes that one tile of scores writes to smem and reads from it
    "q_waits",  # 1 where the next tile's Q can not arrive before this one's output has left
    "step_bytes",  # of K and V, from L2 into one CTA, one tile of scores
)


@dataclass(frozen=True, slots=True)
class AttentionFacts:
    """One attention as the rules and the cost model see it.

    `batch` counts heads of K and V, `ratio` the query heads of each, which read one Q where it is `q_shared`.
    `padded_queries` is the power of two at or above `queries`. A query sees `mean_keys` keys on average and
    `most_keys` at most; `bounded` where a mask lets tiles be skipped, `lengths` where a number of keys is read for each
    sequence, and nothing else is masked but what `bounded` says. K and V are in pages of `page_size` keys, or in none
    where it is 0. A tensor is major by its unit stride. An
    alignment is the largest power of two up to 16 that divides the base address and every non-unit stride, in bytes.
    `score_ops` counts the pointwise operations on a score, `score_loads` the elements loaded for one, and
    `score_load_bytes` the bytes of those that every score has of its own. `epilogue_ops` counts operations and loads of
    the epilogue, but for rounding. `row_step` is the most bytes from one token of a tensor to the next.
    """

    queries: int
    keys: int
    d: int
    dv: int
    batch: int = 1
    ratio: int = 1
    mean_keys: float = 0
    most_keys: int = 0
    bounded: int = 0
    in_dtype: str = "bf16"
    out_dtype: str = "bf16"
    in_bytes: int = 2
    out_bytes: int = 2
    q_major: str = "dim"
    k_major: str = "dim"
    v_major: str = "dim"
    q_align: int = 16
    k_align: int = 16
    v_align: int = 16
    out_align: int = 16
    input_ops: int = 0
    score_ops: int = 0
    score_loads: int = 0
    score_load_bytes: int = 0
    epilogue_ops: int = 0
    logsumexp: int = 0
    q_shared: int = 0
    lengths: int = 0
    page_size: int = 0
    row_step: int = 0
    padded_queries: int = field(init=False)

    def __post_init__(self) -> None:
        """Fill in what follows from the other facts."""
        object.__setattr__(self, "padded_queries", 1 << max(self.queries - 1, 0).bit_length())

    def as_mapping(self) -> dict[str, Value | float]:
        """Return the facts by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _of_inputs(in_dtype: Value) -> dict[str, Value]:
    """Return what the element type of Q, K and V decides."""
    return {"in_bytes": DType(str(in_dtype)).bytes}


IMPLIED: Mapping[str, Callable[[Value], Mapping[str, Value]]] = {"in_dtype": _of_inputs, "out_dtype": of_output}
ATTENTION_VOCABULARY = Vocabulary(
    family="attention",
    facts=tuple(
        Fact(name, CHOICES.get(name, ()), IMPLIED.get(name))
        for name in (*(f.name for f in fields(AttentionFacts)), *DEVICE_FIELDS)
    ),
    required_lets=REQUIRED_LETS,
)
