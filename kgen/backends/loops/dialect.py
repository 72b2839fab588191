"""What of a loop kernel's text is a DSL's own words; what is printed, and in which order, is the same for all DSLs.

Forms are format strings. The functions that statements call (`read`, `within`, `combine_row` ...) are those of the
dialect's library, which have the same names and meaning in every dialect.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kgen.backends.source.dialect import Dialect
from kgen.families.strided.caching import Eviction
from kgen.ir.dtype import DType
from kgen.ir.problem import Combine

AHEAD = "ahead"  # an axis that rows name where a kernel of the file reads it


@dataclass(frozen=True, slots=True, eq=False)
class LoopDialect:
    """The words of one DSL for loop kernels, beside `values`, those for values."""

    values: Dialect
    folder: str  # of the templates
    units: str  # what the vendor calls compute units
    imports: tuple[str, ...]  # of every file
    imports_by_word: Mapping[str, str]  # and of those whose functions say this word
    taken: frozenset[str]  # names that its kernels use beside those of all dialects
    index: Mapping[DType, str]  # INT32 and INT64: the type that INDEX stands for
    variant_parameter: str
    tensor_parameter: str  # of {0}, a tensor
    entered: str  # the statement that a device function makes of each tensor {0} first; empty for none
    begins: tuple[str, ...]  # the statements of a device function that starts early, before it touches a tensor
    most_bytes: int | None  # of a tensor that `entered` is for; larger ones have functions of their own, `read_far` ...
    given: Mapping[DType, str]  # the statement of a launch function on a tensor {0} that arrives as bytes
    has_scalars: bool  # whether a tensor may have no axis; else it is passed with one of extent 1
    torch_type: Callable[[DType], str]  # what torch calls an element type
    signature_type: Callable[[DType], str]  # what SIGNATURES calls an element type
    kept: Mapping[str, str]  # the axes of a candidate that a row of VARIANTS names, and what a comment says of each
    has_clusters: bool
    evictions: Mapping[Eviction, str]  # the constants that tell the L2 when what is read leaves; those it has
    constants: Mapping[str, str]  # a word -> the definition of a constant that files with this word have
    paired: Mapping[DType, str]  # functions of ({fragment}, e, {vector}) that widen an element faster than `widened_by`
    gathers_places: bool  # whether ARGMAX and ARGMIN meet the elements of a thread twice
    holds_powers: bool  # whether the exponentials of a sum stay in registers for elements that want them, too
    unrolled: str  # what a loop over constants is over
    exp: str  # of {0}: the approximation that sums of exponentials take
    fragment: str  # registers for {count} vectors that {access} reads or writes as {type}
    registers: str  # registers of a {shape} and {type}
    allocator: str
    scan_slots: str  # the statement that makes {slots}, smem for values of {type}
    scan: str  # the statement of `scan_row` on {name}, with {join}, {operation} and {first}
    across: Mapping[Combine, str]  # what joins the states of a row's threads, where that is not the binary join
    operations: Mapping[Combine, str]  # what the DSL calls a combination, where `scan` says it
