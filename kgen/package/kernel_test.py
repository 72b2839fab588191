"""The view of `test_kernel.py`: limits from the spec, peaks from the device, least work from the problem."""

from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Map
from kgen.package.parts import PackageParts, work_of
from kgen.package.views import KernelTestView, WorkView
from kgen.target import PEAK_OF, Quantity

ELEMENT_FACTOR = 10  # an element may be off by this many times the limit on the whole
_STEPS = frozenset({PointwiseOp.SIGN, PointwiseOp.FLOOR, PointwiseOp.CEIL, PointwiseOp.TRUNC, PointwiseOp.ROUND})


def kernel_test_view(parts: PackageParts) -> KernelTestView:
    """Return the view of `test_kernel.py`."""
    spec, device = parts.spec, parts.plan.device
    element_err, element_err_reason = element_limit(parts)
    any_base = spec.accepts.base_alignment_bytes == 1
    peak = f"dense_peak.{PEAK_OF.get(parts.product_dtype, parts.product_dtype)}"
    peak_flops, peak_flops_source = _peak(device.decisive(peak), f"{parts.product_dtype} products, dense")
    peak_bytes, peak_bytes_source = _peak(device.decisive("quantities.memory_bandwidth"), "device memory")
    return KernelTestView(
        title=spec.name,
        is_module=parts.is_module,
        rel_err=repr(spec.tolerance.rel_err),
        element_err=element_err,
        element_err_reason=element_err_reason,
        atol=repr(spec.tolerance.atol),
        offsets="0, 1" if any_base else "0,",
        offsets_reason="any base is accepted" if any_base else "16-byte aligned bases only are accepted",
        refused_offsets="" if any_base else "1,",
        device=device.title,
        sm_count=device.compute_units,
        peak_flops=peak_flops,
        peak_flops_source=peak_flops_source,
        peak_bytes=peak_bytes,
        peak_bytes_source=peak_bytes_source,
        work=tuple(WorkView(w.case, w.flops, w.bytes_read, w.bytes_written) for w in work_of(parts)),
    )


def element_limit(parts: PackageParts) -> tuple[str, str]:
    """Return the limit on single elements as a Python expression, and why it is that.

    A limit on the norm alone lets a few wrong elements of a large output pass. Where the body has steps, rounding may
    put an element on the other side of one, so that no such limit holds.
    """
    maps = [s for _, program in parts.programs for p in program.problems for s in p.body if isinstance(s, Map)]
    if steps := sorted({str(s.op) for s in maps if s.op in _STEPS or s.op.is_predicate or _truncates(s)}):
        return "math.inf", f"none, for {steps[0]} has steps"
    return repr(round(ELEMENT_FACTOR * parts.spec.tolerance.rel_err, 12)), f"{ELEMENT_FACTOR} x REL_ERR"


def _truncates(statement: Map) -> bool:
    return statement.op is PointwiseOp.CAST and not statement.dtype.is_float


def _peak(quantity: Quantity | None, what: str) -> tuple[str, str]:
    """Return a peak in operations or bytes per second, and where it is from; an unsure one decides nothing."""
    if quantity is None:
        return "math.inf", f"{what}: not known well enough to judge a measurement"
    return f"{quantity.per_second:.4g}".replace("e+", "e"), f"{what} [{quantity.source}]"
