"""What the GEMM rules may name: the facts of one problem, and the vocabulary they form with arch and device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from kgen.ir.dtype import DType
from kgen.rules.model import Value
from kgen.rules.ruleset import Fact, Vocabulary

OUT_DTYPES = tuple(str(dtype) for dtype in DType)
IN_DTYPES = (*OUT_DTYPES, "tf32")
MAJORS = ("k", "mn", "none")
ALIGNMENTS = (1, 2, 4, 8, 16)
CHOICES: Mapping[str, tuple[Value, ...]] = {
    "in_dtype": IN_DTYPES,
    "out_dtype": OUT_DTYPES,
    "a_major": MAJORS,
    "b_major": MAJORS,
    "a_align": ALIGNMENTS,
    "b_align": ALIGNMENTS,
    "d_align": ALIGNMENTS,
    "input_ops": (0, 1),
    "fused": (0, 1),
    "promo": (1, 2),
    "products": (1, 2),
    "ieee": (0, 1),
    "in_place": (0, 1),
}
# Lets that every ISA's gemm.rules defines: all that the cost model reads of a candidate besides its tile, cluster and
# number of stages.
REQUIRED_LETS = (
    "acc_regs",
    "threads",
    "ctas_per_unit",
    "smem_bytes",
    "stage_bytes",  # smem of one stage
    "mma_cycles",  # of the tensor cores, one k step
    "mma_chain",  # MMAs of one k step that each wait for the one before
    "simt_cycles",  # of the FMA units, one k step
    "smem_read_bytes",  # by the tensor cores, one k step
    "load_bytes",  # from L2 into one CTA, one k step, what others multicast to it left out
    "staged_elements",  # loaded one by one through registers, one k step
    "epilogue_steps",  # sub-tiles of D that pass through smem
    "direct_elements",  # of D stored one by one
)
# Axes and lets that an ISA may have, and what a candidate counts as that has not.
OPTIONAL_COLUMNS: Mapping[str, int] = {
    "cluster_m": 1,  # CTAs along m that share a B tile by multicast
    "cluster_n": 1,
    "split_k": 1,  # CTAs that share a tile of D; a second kernel sums what they wrote
    "cluster_k": 1,  # CTAs of a cluster that share a tile of D, and sum what they hold through each other's smem
    "shares": 1,  # CTAs of those that finish a part of the tile each
    "exchange_bytes": 0,  # that arrive in the smem of such a CTA
    "resident": 1,  # CTAs that one unit runs at once by choice
    "planes": 0,  # of 16 bits that a kernel before cuts fp32 operands into
    "swap": 0,  # 1 where tile_m lies along n, and tile_n along m
}
DEVICE_FIELDS = (
    "warp_size",
    "threads_per_cta",
    "registers_per_thread",
    "registers_per_unit",
    "register_granule",
    "smem_bytes_per_cta",
    "smem_bytes_per_unit",
    "cluster_portable",
    "compute_units",
    "bf16_flops_per_cycle",
    "fp16_flops_per_cycle",
    "fp8_flops_per_cycle",
    "int8_flops_per_cycle",
    "tf32_flops_per_cycle",
    "fp32_flops_per_cycle",
)


def copies_of(dtype: DType) -> int:
    """Return how many sets of sums products of a type need: those of fp8 add up in few bits, and are promoted."""
    return 2 if dtype in (DType.FP8_E4M3, DType.FP8_E5M2) else 1


@dataclass(frozen=True, slots=True)
class GemmFacts:
    """One matrix product as the rules and the cost model see it.

    `in_dtype` is the type the products are taken in (tf32: fp32 operands that may be rounded). An operand is k-major or
    mn-major by its unit stride, else `none`. An alignment is the largest power of two up to 16 that divides the base
    address and every non-unit stride, in bytes. `fused`: the epilogue computes.
    `epilogue_load_bytes` counts what the epilogue reads per element of D.
    `promo` is 2 where accumulation keeps a second copy. `products` is 2 for a gate: n and tile_n count the rows of both
    Bs, and D has half as many columns. `scale_k` counts the elements along k that share their scales, 0 without any;
    `a_scale_rows` and `b_scale_rows` the rows of an operand that do, 0 where all share them. `ieee`: fp32 operands are
    multiplied as they are. `in_place`: D is a tensor that the kernel reads, too.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    in_dtype: str = "bf16"
    out_dtype: str = "bf16"
    in_bytes: int = 2
    out_bytes: int = 2
    a_major: str = "k"
    b_major: str = "k"
    a_align: int = 16
    b_align: int = 16
    d_align: int = 16
    input_ops: int = 0
    fused: int = 0
    epilogue_load_bytes: float = 0
    promo: int = 1
    products: int = 1
    scale_k: int = 0
    a_scale_rows: int = 0
    b_scale_rows: int = 0
    ieee: int = 0
    in_place: int = 0

    def as_mapping(self) -> dict[str, Value | float]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _of_operands(in_dtype: Value) -> dict[str, Value]:
    """Return what the type of the products decides."""
    dtype = DType("fp32" if in_dtype == "tf32" else str(in_dtype))
    return {"in_bytes": dtype.bytes, "promo": copies_of(dtype)}


def of_output(out_dtype: Value) -> dict[str, Value]:
    """Return what the element type of the output decides."""
    return {"out_bytes": DType(str(out_dtype)).bytes}


IMPLIED: Mapping[str, Callable[[Value], Mapping[str, Value]]] = {"in_dtype": _of_operands, "out_dtype": of_output}
GEMM_VOCABULARY = Vocabulary(
    family="gemm",
    facts=tuple(
        Fact(name, CHOICES.get(name, ()), IMPLIED.get(name))
        for name in (*(f.name for f in fields(GemmFacts)), *DEVICE_FIELDS)
    ),
    required_lets=REQUIRED_LETS,
)
