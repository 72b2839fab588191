"""The view of `README.md`: the device with its sources, the roofline, when to stop, and what SASS must show."""

from kgen.package.parts import Evidence, PackageParts
from kgen.package.plan_words import number_text, quantities_used, source_rows, words
from kgen.package.views import FactRow, IntervalRow, ReadmeView, RooflineRow, TargetRow
from kgen.package.work import Work, work_of
from kgen.planning.dynamic_words import values_text
from kgen.planning.plan import Plan

FILES = (
    ("kernel.py", "the kernels: device code, launch, host function"),
    ("reference.py", "what it computes, in PyTorch"),
    ("test_kernel.py", "correctness and speed, one process per case"),
    ("input.py", "the inputs of the test"),
    ("shapes.json", "the cases"),
    ("plan.json", "the plan, and why no other choice"),
    ("plans/v0_plan.md", "what was read out of the PyTorch text, and what was decided"),
)
PORT_FILES = (
    ("incumbent.py", "the kernel that this one replaces, byte for byte"),
    ("plans/port.md", "what the port keeps, and what is free"),
)
STOP_CONDITIONS = (
    "`test_kernel.py` passes every case, and `kgen check` finds the instructions below: before that, nothing is timed.",
    "Before the first timing, fix the parity band: the noise of two identical builds against each other.",
    "Stop when the time is inside the parity band of the kernel it replaces, or of the reference.",
    "Otherwise at most three further variants in all, on whatever axes: the runners-up of `plans/v0_plan.md`; then the "
    "best correct one stands and the gap is reported.",
    "No time below the roofline above is a result: it is a measurement error.",
)


def readme_view(parts: PackageParts) -> ReadmeView:
    """Return the view of `README.md`."""
    device = parts.plan.device
    used = (*quantities_used(parts.plan), *device.arch.limits)
    return ReadmeView(
        title=parts.spec.name,
        computation="\n".join(map(str, parts.problems)),
        device=device.title,
        arch=device.arch.isa,
        spec=parts.source,
        usage=_usage(parts),
        files=(*FILES, *(PORT_FILES if parts.spec.incumbent is not None else ())),
        ridge=_ridge(parts),
        hardware=tuple(FactRow(words(n), number_text(q), q.source, str(q.confidence)) for n, q in used),
        roofline=tuple(_roofline(parts, work) for work in work_of(parts)),
        extent=parts.plan.dynamic.extent.name if parts.plan.dynamic else "",
        intervals=_interval_rows(parts.plan),
        stop_conditions=STOP_CONDITIONS,
        targets=tuple(TargetRow(e.variant, _target(e)) for e in parts.evidence),
        sources=source_rows(parts.plan),
    )


def _interval_rows(plan: Plan) -> tuple[IntervalRow, ...]:
    """Return the table of an extent of run time; nothing where every extent is a constant."""
    return tuple(
        IntervalRow(
            values=values_text(i.first, i.last),
            variants=", then ".join(i.variants),
            predicted=f"{i.time_us:.1f} us",
            best=f"{i.best_us:.1f} us",
            because=i.because,
        )
        for i in (plan.dynamic.intervals if plan.dynamic else ())
    )


def _usage(parts: PackageParts) -> tuple[str, ...]:
    arguments = ", ".join(i.name for i in parts.inputs)
    if parts.is_module:
        init = ", ".join(f"{name}={value!r}" for name, value in parts.init_kwargs)
        return ("from kernel import Model", "", f'model = Model({init}).to("cuda")', f"out = model({arguments})")
    return ("from kernel import kernel", "", f"out = kernel({arguments})")


def _peaks(parts: PackageParts) -> tuple[float, float] | None:
    """Return the peak in operations and in bytes per microsecond, or None where one is not known."""
    device = parts.plan.device
    peak, bandwidth = device.dense_peak(parts.product_dtype), device.quantity("quantities.memory_bandwidth")
    return (peak.value * 1e6, bandwidth.value * 1e6) if peak and bandwidth else None


def _ridge(parts: PackageParts) -> str:
    peaks = _peaks(parts)
    if peaks is None:
        return f"No dense peak for {_operations(parts)} is known: there is no roofline."
    above = "the MMA" if parts.has_product else "arithmetic"
    return (
        f"Of the whole problem, every element touched once. The ridge of {_operations(parts)} is at "
        f"{peaks[0] / peaks[1]:.0f} operations per byte: below it device memory sets the least time, above it {above}."
    )


def _operations(parts: PackageParts) -> str:
    return f"{parts.product_dtype} {'products' if parts.has_product else 'arithmetic'}"


def _roofline(parts: PackageParts, work: Work) -> RooflineRow:
    predicted = sum(v.choice.time_us for v in parts.first_variants_of(work.case))
    peaks = _peaks(parts)
    intensity = f"{work.flops / work.bytes:.1f}" if work.bytes else "-"
    bound, least = "unknown", "-"
    if peaks is not None:
        compute_us, memory_us = work.flops / peaks[0], work.bytes / peaks[1]
        compute = "MMA" if parts.has_product else "arithmetic"
        bound, least = (compute if compute_us >= memory_us else "memory"), f"{max(compute_us, memory_us):.2f} us"
    return RooflineRow(work.case, work.flops, work.bytes, intensity, bound, least, f"{predicted:.1f} us")


def _target(evidence: Evidence) -> str:
    mma = "no tensor-core instruction" if evidence.mma == "none" else f"{evidence.mma} and no other MMA"
    loads = "bulk (TMA) loads" if evidence.tma_loads else "no bulk loads"
    stores = "bulk stores" if evidence.tma_stores else "no bulk stores"
    multicast = ", multicast" if evidence.multicast else ""
    sums = "; stores into the smem of other CTAs" if evidence.cluster_stores else ""
    waits = "; waits for the kernel before it" if evidence.grid_waits else ""
    access = "" if evidence.access_bytes is None else f"; accesses of {evidence.access_bytes} bytes"
    moves = f"{loads}{multicast}; {stores}{sums}{waits}{access}"
    return f"{mma}; {moves}; {evidence.threads} threads; {evidence.spills} spills"
