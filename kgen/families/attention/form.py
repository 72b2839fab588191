"""AttentionForm: a Problem classified as one attention, its axes folded into queries, keys, head dims, group and batch.

    S[b, g, m, n] = score( scale * sum_d Q[b, g, m, d] * K[b, n, d] )        fp32
    P = exp(S - max_n S)
    O[b, g, m, v] = epilogue( sum_n P[b, g, m, n] * V[b, n, v] / sum_n P[b, g, m, n] )

A group are the query heads that share one head of K and V. All strides and offsets are in elements of their tensor; a
stride of 0 means that the tensor is the same along that axis. An axis of extent 1 has no stride of its own.
"""

from dataclasses import dataclass
from math import prod

from kgen.families.attention.bounds import KeyBounds
from kgen.ir.dtype import DType
from kgen.ir.problem import Map


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """How Q or O (`tokens` are the queries), K or V (keys; `group` is 0) is accessed; `dim` walks the head dim."""

    tensor: str
    dtype: DType
    offset: int
    tokens: int
    dim: int
    group: int
    batch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PageTable:
    """K and V in pages: key n of a head is token `n % size` of page `table[n // size]`, one of `pages`.

    `entries`, `group` and `batch` are the table's strides; `k_page` and `v_page` those from page to page of K and V,
    whose `tokens` walk a page. With `wraps` a negative entry counts from the end, else there is none.
    """

    tensor: str
    dtype: DType
    offset: int
    entries: int
    group: int
    batch: tuple[int, ...]
    size: int
    pages: int
    k_page: int
    v_page: int
    wraps: bool


@dataclass(frozen=True, slots=True)
class ScoreLoad:
    """A tensor that scores are modified with, or that masks them: the SSA value and where it is read from."""

    value: str
    tensor: str
    dtype: DType
    offset: int
    queries: int
    keys: int
    group: int
    batch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpilogueLoad:
    """A tensor that the epilogue reads at an element of O."""

    value: str
    source: TokenAccess


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A coordinate as a value of the score's expression: along `queries`, `keys`, `group` or batch mode `batch_0`...

    It is the coordinate of one axis: `value // divisor % extent` of the folded one.
    """

    value: str
    along: str
    divisor: int
    extent: int


@dataclass(frozen=True, slots=True)
class LogsumexpAccess:
    """Where log(sum(exp(S))) of a row is stored, and what a row without keys gives: "-inf" or "nan"."""

    tensor: str
    dtype: DType
    offset: int
    queries: int
    group: int
    batch: tuple[int, ...]
    empty_rows: str


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """One attention with everything fused into it; extents are static.

    `score_ops` lead from `scaled` (scale times the product) to `score`; inside of `keys` where these are exact, only
    to `keys.unmasked`. `epilogue_ops` lead from `output` (the divided row) to `result`. `input_ops`: an operand is
    computed before its product, other than by a factor, which is part of `scale`. Where `keys` has lengths, `length` is
    how they are loaded, one of the `score_loads`.
    """

    m: int  # queries
    n: int  # keys
    d: int  # head dim of Q and K
    dv: int  # head dim of V and O
    ratio: int  # query heads that share a head of K and V
    batch: tuple[int, ...]
    q: TokenAccess
    k: TokenAccess
    v: TokenAccess
    pages: PageTable | None
    out: TokenAccess
    mma_dtype: DType
    input_ops: bool
    scale: float
    scaled: str
    score: str
    score_ops: tuple[Map, ...]
    score_loads: tuple[ScoreLoad, ...]
    coordinates: tuple[Coordinate, ...]
    keys: KeyBounds
    empty_rows: str  # what a row without keys gives: "zeros" or "nan"
    output: str
    epilogue_loads: tuple[EpilogueLoad, ...]
    epilogue_ops: tuple[Map, ...]
    result: str
    logsumexp: LogsumexpAccess | None

    @property
    def family(self) -> str:
        """Name of the family."""
        return "attention"

    @property
    def length(self) -> ScoreLoad | None:
        """Where the number of keys of a sequence is read from."""
        lengths = self.keys.lengths
        return next((load for load in self.score_loads if lengths and load.value == lengths.value), None)

    @property
    def sequences(self) -> tuple[ScoreLoad, ScoreLoad] | None:
        """Where the sequence numbers of queries and keys are read from, if all heads have the same ones."""
        if self.keys.sequences is None:
            return None
        numbers = (self.keys.sequences.query, self.keys.sequences.key)
        query, key = (next(load for load in self.score_loads if load.value == v) for v in numbers)
        differ = any((query.group, *query.batch, key.group, *key.batch)) or not query.queries or not key.keys
        return None if differ else (query, key)

    @property
    def batch_count(self) -> int:
        """Number of heads of K and V in all batches."""
        return prod(self.batch)

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that it may see, in all heads."""
        return self.keys.visible(self.m, self.n) * self.ratio * self.batch_count

    @property
    def flops(self) -> int:
        """Multiply-adds of both products over the pairs inside the bounds, counted as two operations each."""
        return 2 * self.pairs * (self.d + self.dv)

    @property
    def bytes(self) -> int:
        """Fewest bytes moved through device memory: each operand read once, the results written once."""
        heads = self.batch_count * self.ratio
        operands = (
            self.m * self.d * self.q.dtype.bytes * _distinct(self, self.q)
            + self.n * self.d * self.k.dtype.bytes * _distinct(self, self.k, self.pages)
            + self.n * self.dv * self.v.dtype.bytes * _distinct(self, self.v, self.pages)
        )
        stored = self.m * heads * (self.dv * self.out.dtype.bytes + (4 if self.logsumexp else 0))
        return operands + stored + sum(_load_bytes(self, load) for load in self.score_loads)

    @property
    def is_empty(self) -> bool:
        """Whether the output has no element."""
        return self.m * self.dv * self.ratio * self.batch_count == 0


def _distinct(form: AttentionForm, access: TokenAccess, pages: PageTable | None = None) -> int:
    """Return how many matrices of a tensor differ, by its own strides or by those of its table."""
    table = pages or access
    count = form.ratio if access.group or table.group else 1
    strides = zip(access.batch, table.batch, strict=True)
    return count * prod(extent for extent, both in zip(form.batch, strides, strict=True) if any(both))


def _load_bytes(form: AttentionForm, load: ScoreLoad) -> int:
    extents = (form.m, form.n, form.ratio, *form.batch)
    strides = (load.queries, load.keys, load.group, *load.batch)
    return load.dtype.bytes * prod(e for e, s in zip(extents, strides, strict=True) if s)
