"""What a package is made from, and the small facts that several of its texts share."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from kgen.families.gemm.facts import MAX_ALIGN_BYTES
from kgen.families.strided.form import LoopForm
from kgen.ir.dtype import DType
from kgen.ir.graph import InputKind
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Map, Problem, ProblemTensor, TensorRole
from kgen.ir.program import Program
from kgen.planning.plan import Plan, Variant
from kgen.planning.plan_attention import AttentionVariant
from kgen.planning.plan_gemm import GemmVariant
from kgen.spec.model import InputSpec, Spec
from kgen.target import Arch


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the machine code of one variant must show; `kgen.check` compares it."""

    variant: str
    mma: str  # SASS class, or "none"
    tma_loads: bool
    tma_stores: bool
    multicast: bool
    threads: int
    spills: int
    access_bytes: int | None  # of the widest access to device memory, for kernels that only move memory
    cluster_stores: bool = False  # into the smem of other CTAs of a cluster
    grid_waits: bool = False  # each kernel waits for the one before it, while which it may have started


@dataclass(frozen=True, slots=True)
class PackageParts:
    """Everything a package is made from: the compile's values, and the two texts that other modules print.

    `programs` holds (case, Program) in the order of the spec's cases. `kernel_template` names what kernel.py was
    rendered from. `is_module`: kernel.py and reference.py offer a class Model, constructed with `init_kwargs`, and not
    a function; a function takes parameters and constants as further arguments.
    """

    spec: Spec
    programs: tuple[tuple[str, Program], ...]
    plan: Plan
    kernel: str
    kernel_template: str
    reference: str
    is_module: bool
    init_kwargs: tuple[tuple[str, object], ...]
    evidence: tuple[Evidence, ...]

    @property
    def program(self) -> Program:
        """The program of the first case; those of the others differ in their extents."""
        return self.programs[0][1]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the first case, in launch order."""
        return self.program.problems

    @property
    def results(self) -> tuple[ProblemTensor, ...]:
        """What the reference returns and then what else it updates, in the first case."""
        return results_of(self.program)

    @property
    def updated(self) -> tuple[str, ...]:
        """The inputs that the reference updates in place."""
        return tuple(t.name for t in self.results if t.role is TensorRole.UPDATED)

    @property
    def source(self) -> str:
        """The spec's file name, without the folders of the machine it was read on."""
        return PurePath(self.spec.file).name or self.spec.name

    @property
    def product_dtype(self) -> str:
        """The element type that products are taken in; without a product, fp32, which all else computes in."""
        return product_dtype(self.plan)

    @property
    def has_product(self) -> bool:
        """Whether a kernel multiplies matrices: else all of them only move memory and compute on the way."""
        return any(isinstance(v, GemmVariant | AttentionVariant) for v in self.plan.variants)

    @property
    def base_alignment(self) -> int:
        """How many bytes base addresses have to be multiples of: groups of rows come in bulk alone, as in torch."""
        grouped = any(isinstance(v, GemmVariant) and v.form.groups for v in self.plan.variants)
        return MAX_ALIGN_BYTES if grouped else self.spec.accepts.base_alignment_bytes

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """The arguments of kernel and reference in order, parameters and constants of a function included."""
        if self.is_module:
            return self.spec.inputs
        further = [a for a in self.program.arguments if a.kind is not InputKind.USER]
        made = [InputSpec(a.name, a.type.dtype, a.type.static_shape, strides=a.type.strides) for a in further]
        return (*self.spec.inputs, *made)

    def first_variants_of(self, case: str) -> tuple[Variant, ...]:
        """Return the variant that the host tries first of each kernel of a case, in launch order."""
        return tuple(self.plan.variants_of(case, kernel)[0] for kernel in self.plan.kernels_of(case))


def results_of(program: Program) -> tuple[ProblemTensor, ...]:
    """Return what a program returns, in the order of return, and then what else it updates."""
    buffers = {buffer.name for buffer in program.buffers}
    written = {t.name: t for p in program.problems for t in p.outputs if t.name not in buffers}
    order = dict.fromkeys((*(name for name in program.results if name in written), *written))
    return tuple(written[name] for name in order)


def product_dtype(plan: Plan) -> str:
    """Return the element type whose peak bounds the operations of a plan."""
    for v in plan.variants:
        if isinstance(v, GemmVariant):
            return "fp32_planes" if v.cuts else v.form.product_dtype
        if isinstance(v, AttentionVariant):
            return str(v.form.mma_dtype)
    return str(DType.FP32)


# Accesses to local memory of one sin, cos or tan on one element: the reduction of a large argument keeps a table there.
_TRIGONOMETRIC_ACCESSES = 8


def _local_accesses(ops: Iterable[object], elements: int) -> int:
    """Return how many accesses to local memory ops on so many elements bring along; anything beyond is a spill."""
    uses = sum(isinstance(op, Map) and op.op in (PointwiseOp.SIN, PointwiseOp.COS, PointwiseOp.TAN) for op in ops)
    return uses * _TRIGONOMETRIC_ACCESSES * elements


def expected_evidence(plan: Plan) -> tuple[Evidence, ...]:
    """Return what each variant's machine code must show, as far as its candidate decides it."""
    return tuple(_evidence(v, plan.device.arch) for v in plan.variants)


def _evidence(variant: Variant, arch: Arch) -> Evidence:
    match variant:
        case GemmVariant():
            return _gemm_evidence(variant, arch)
        case AttentionVariant():
            return _attention_evidence(variant, arch)
        case _:
            return _loop_evidence(variant)


def _gemm_evidence(variant: GemmVariant, arch: Arch) -> Evidence:
    candidate, form = variant.choice.candidate, variant.form
    ops = (*form.a_ops.ops, *form.b_ops.ops, *form.epilogue_ops)
    on_tensor_cores = variant.load_path != "simt" and variant.facts.k > 0
    mnemonic = arch.machine_code.mma_of("fp16" if variant.cuts else form.product_dtype)
    tma = variant.load_path == "tma"
    return Evidence(
        variant=variant.name,
        mma=(mnemonic or "none") if on_tensor_cores else "none",
        tma_loads=tma,
        tma_stores=variant.store_path == "tma",
        multicast=tma and candidate.number("cluster_m") * candidate.number("cluster_n") > 1,
        threads=candidate.number("threads"),
        spills=_local_accesses(ops, candidate.number("acc_regs")),
        access_bytes=None,
        cluster_stores=variant.cluster_k > 1,
        grid_waits=variant.overlaps,
    )


def _attention_evidence(variant: AttentionVariant, arch: Arch) -> Evidence:
    candidate, form = variant.choice.candidate, variant.form
    # a thread has 1 of 128 shares of a warp group's scores and output
    scores = _local_accesses(form.score_ops, candidate.number("score_regs"))
    return Evidence(
        variant=variant.name,
        mma=arch.machine_code.mma_of(str(form.mma_dtype)) or "none",
        tma_loads=candidate.value("load_path") == "tma",
        tma_stores=candidate.value("store_path") == "tma",
        multicast=False,
        threads=candidate.number("threads"),
        spills=scores + _local_accesses(form.epilogue_ops, candidate.number("output_regs")),
        access_bytes=None,
    )


def _loop_evidence(variant: Variant) -> Evidence:
    candidate, form = variant.choice.candidate, variant.form
    assert isinstance(form, LoopForm)
    return Evidence(
        variant=variant.name,
        mma="none",
        tma_loads=False,
        tma_stores=False,
        multicast=False,
        threads=candidate.number("threads"),
        spills=_local_accesses(form.body, candidate.number("steps") * candidate.number("vec")),
        access_bytes=None if variant.form.is_empty else candidate.number("access_bytes"),
    )
