"""The view of `test_kernel.py`: limits from the spec, peaks from the device, least work from the problem."""

from collections.abc import Iterable

from kgen.ir.problem import Contract, Precision
from kgen.package.limits import element_factor, rel_errs
from kgen.package.parts import PackageParts
from kgen.package.views import KernelTestView, WorkView
from kgen.package.work import work_of
from kgen.planning.plan_attention import AttentionVariant
from kgen.planning.plan_gemm import GemmVariant
from kgen.target import PEAK_OF, Quantity


def kernel_test_view(parts: PackageParts) -> KernelTestView:
    """Return the view of `test_kernel.py`."""
    spec, device = parts.spec, parts.plan.device
    factor, reason = element_factor(parts)
    any_base = parts.base_alignment == 1
    operations = "products, dense" if parts.has_product else "arithmetic"
    peak = f"dense_peak.{PEAK_OF.get(parts.product_dtype, parts.product_dtype)}"
    peak_flops, peak_flops_source = _peak(device.decisive(peak), f"{parts.product_dtype} {operations}")
    peak_bytes, peak_bytes_source = _peak(device.decisive("quantities.memory_bandwidth"), "device memory")
    masked = hidden_inputs(parts)
    hidden = _names(i.name for i in parts.inputs if i.name in masked)
    tf32 = spec.precision is Precision.TF32
    exact = "TF32 or sums in bf16 would make the reference less exact than the kernel"
    integers = any(isinstance(s, Contract) and not s.dtype.is_float for p in parts.problems for s in p.body)
    return KernelTestView(
        title=spec.name,
        is_module=parts.is_module,
        rel_errs=tuple((device.arch.torch_name(dtype), repr(limit)) for dtype, limit in rel_errs(parts).items()),
        element_factor=factor,
        element_reason=reason,
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
        multiplies_integers=integers,
        allow_tf32=repr(tf32),
        tf32_reason="the spec asks for tf32; sums in bf16 would be less exact than the kernel's" if tf32 else exact,
        expected="exact_on_integers(reference.reference)" if integers else "reference.reference",
        updated=_names(i.name for i in parts.inputs if i.name in parts.updated),
        hidden=_hidden(hidden, parts),
        planted=(
            "for name, x in inputs.items():" if hidden else "for x in inputs.values():",
            f"    if x.is_floating_point() and x.numel() > 1{' and name not in HIDDEN' if hidden else ''}:",
        ),
    )


def _hidden(names: str, parts: PackageParts) -> tuple[str, ...]:
    if not names:
        return ()
    reason = "a mask hides values of these: 0 * Inf is NaN where they are multiplied, and kernels skip them"
    if any(isinstance(v, GemmVariant) for v in parts.plan.variants):
        reason = "scales: of an element, 0 * Inf is NaN; kernels scale sums"
    return (f"HIDDEN = ({names})  # {reason}",)


def hidden_inputs(parts: PackageParts) -> frozenset[str]:
    """Return the inputs with values that a kernel does not multiply by what the reference multiplies them by.

    Where a mask hides keys, torch's plain operations multiply values by a weight of 0, which is NaN for an infinity;
    its fused ones skip some. Scales of blocks multiply sums of products here, and elements of 0 there.
    """
    scales = {s.tensor for v in parts.plan.variants if isinstance(v, GemmVariant) for s in v.form.scales}
    attentions = [v for v in parts.plan.variants if isinstance(v, AttentionVariant)]
    bounded = (v for v in attentions if v.facts.bounded or v.facts.lengths)
    return frozenset(v.form.v.tensor for v in bounded) | scales


def _names(names: Iterable[str]) -> str:
    """Return the inside of a Python tuple of texts."""
    found = [f'"{name}"' for name in names]
    return f"{found[0]}," if len(found) == 1 else ", ".join(found)


def _peak(quantity: Quantity | None, what: str) -> tuple[str, str]:
    """Return a peak in operations or bytes per second, and where it is from; an unsure one decides nothing."""
    if quantity is None:
        return "math.inf", f"{what}: not known well enough to judge a measurement"
    return f"{quantity.per_second:.4g}".replace("e+", "e"), f"{what} [{quantity.source}]"
