"""Why a program has other kernels on another device: both ways to cut it, timed on both."""

from collections.abc import Sequence

from kgen.diff.reasons import Cause, Reason
from kgen.diff.replan import Planned, Replanner
from kgen.errors.base import KgenError
from kgen.planning.partition import FEWER_PARTS, GAIN
from kgen.target import Device


def kernels_reason(replanner: Replanner, a: Planned, b: Planned) -> Reason:
    """Return the predicted times of A's and of B's kernels on both devices, and what decides between them."""
    names = ("A's kernels", "B's kernels")
    sides = ((a.device, "a"), (b.device, "b"))
    times = {
        f"{kernels[0].lower()}_kernels_on_{side}": _time_us(replanner, planned, device)
        for device, side in sides
        for kernels, planned in zip(names, (a, b), strict=True)
    }
    parts = []
    for device, side in sides:
        told = (f"{name} {_told(times[f'{name[0].lower()}_kernels_on_{side}'])}" for name in names)
        parts.append(f"on {device.name} {', '.join(told)}")
    counts = f"{_count(a)} against {_count(b)}"
    margins = f"a cut has to gain {1 - GAIN:.0%}, more parts {FEWER_PARTS:.0%}"
    cuts = "; ".join(
        f"{side}: {'; '.join(planned.plan.cut)}" for side, planned in (("A", a), ("B", b)) if planned.plan.cut
    )
    text = f"{counts}, the first case predicted {'; '.join(parts)} ({margins}). {cuts}".strip()
    return Reason(Cause.KERNELS, text, times_us=times)


def _time_us(replanner: Replanner, kernels: Planned, device: Device) -> float | None:
    """Return the predicted time of a plan's kernels on a device, in its first case; None where they are not legal."""
    try:
        plan = replanner.with_kernels_of(kernels, device).plan
    except KgenError:
        return None
    case = plan.variants[0].case
    firsts = (plan.variants_of(case, kernel)[0] for kernel in plan.kernels_of(case))
    return round(sum(variant.choice.time_us for variant in firsts), 3)


def _told(time_us: float | None) -> str:
    return "not legal" if time_us is None else f"{time_us:.2f} us"


def _count(planned: Planned) -> str:
    count = len(planned.kernels)
    return f"{count} kernel{'s' if count != 1 else ''}"


def stated_kernels_reason(cuts: Sequence[Sequence[str]]) -> Reason:
    """Return what the plans say of their cuts, where they cannot be made anew."""
    told = ("; ".join(cut) or "nothing of a cut" for cut in cuts)
    first, second = told
    return Reason(Cause.STATED, f"A's plan says {first}; B's says {second}")
