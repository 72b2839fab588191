"""What a package is made from, and the small facts that several of its texts share."""

from dataclasses import dataclass
from math import prod
from pathlib import PurePath

from kgen.ir.graph import InputKind
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Problem, TensorRole
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan import Plan, Variant
from kgen.spec.model import InputSpec, Spec


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
    def problem(self) -> Problem:
        """The first problem of the first case."""
        return self.program.problems[0]

    @property
    def source(self) -> str:
        """The spec's file name, without the folders of the machine it was read on."""
        return PurePath(self.spec.file).name or self.spec.name

    @property
    def product_dtype(self) -> str:
        """The element type that products are taken in."""
        return str(self.plan.variants[0].form.mma_dtype)

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """The arguments of kernel and reference in order, parameters and constants of a function included."""
        if self.is_module:
            return self.spec.inputs
        further = [a for a in self.program.arguments if a.kind is not InputKind.USER]
        made = [InputSpec(a.name, a.type.dtype, a.type.static_shape, strides=a.type.strides) for a in further]
        return (*self.spec.inputs, *made)

    def variants_of(self, case: str) -> tuple[Variant, ...]:
        """Return the variants of a case in the order the host tries them."""
        return tuple(v for v in self.plan.variants if v.case == case)


@dataclass(frozen=True, slots=True)
class Work:
    """Least work of one case: operations, and bytes when every element is touched once."""

    case: str
    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.bytes_read + self.bytes_written


def work_of(parts: PackageParts) -> tuple[Work, ...]:
    """Return the least work of every case; buffers between kernels are not counted, for a better cut avoids them."""
    found = []
    for case, program in parts.programs:
        form = parts.variants_of(case)[0].form
        types = {t.name: t for problem in program.problems for t in problem.tensors}
        for buffer in program.buffers:
            types.pop(buffer.name, None)
        written = sum(touched_bytes(t.type) for t in types.values() if t.role is not TensorRole.INPUT)
        read = sum(touched_bytes(t.type) for t in types.values() if t.role is not TensorRole.OUTPUT)
        # a tensor that is read in two places counts once, one that is read in part counts for that part
        found.append(Work(case, form.flops, min(read, form.bytes - written), written))
    return tuple(found)


def touched_bytes(tensor: TensorType) -> int:
    """Return the bytes of the distinct elements of a tensor; an axis of stride 0 repeats one."""
    pairs = zip(tensor.static_shape, tensor.strides, strict=True)
    return tensor.dtype.bytes * prod(extent if stride or not extent else 1 for extent, stride in pairs)


# Accesses to local memory of one sin, cos or tan on one element: the reduction of a large argument keeps a table there.
_TRIGONOMETRIC_ACCESSES = 8


def _local_accesses(variant: Variant) -> int:
    """Return how many accesses to local memory the ops of a variant bring along; anything beyond is a spill."""
    form = variant.form
    ops = (*form.a_ops.ops, *form.b_ops.ops, *form.epilogue_ops)
    uses = sum(op.op in (PointwiseOp.SIN, PointwiseOp.COS, PointwiseOp.TAN) for op in ops)
    return uses * _TRIGONOMETRIC_ACCESSES * variant.choice.candidate.number("acc_regs")


def expected_evidence(plan: Plan) -> tuple[Evidence, ...]:
    """Return what each variant's machine code must show, as far as its candidate decides it."""
    found = []
    for variant in plan.variants:
        candidate = variant.choice.candidate
        on_tensor_cores = variant.load_path != "simt"
        mnemonic = plan.device.arch.machine_code.mma_of(str(variant.form.mma_dtype))
        tma = variant.load_path == "tma"
        found.append(
            Evidence(
                variant=variant.name,
                mma=(mnemonic or "none") if on_tensor_cores else "none",
                tma_loads=tma,
                tma_stores=variant.store_path == "tma",
                multicast=tma and candidate.number("cluster_m") * candidate.number("cluster_n") > 1,
                threads=candidate.number("threads"),
                spills=_local_accesses(variant),
            )
        )
    return tuple(found)
