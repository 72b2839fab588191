"""What a device could do at best: its peaks for the chart, and the least time of a case's work.

A peak of low confidence is drawn as such; a device whose file is not known has no roof, and the page says so.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kgen.bench.plan_facts import Work
from kgen.errors.base import KgenError
from kgen.target import Device, Quantity, load_device


def known_devices(names: Iterable[str], files: Iterable[Path]) -> dict[str, Device]:
    """Load the devices of that name; `files` are device files that are not kgen's own, and come first."""
    found = {device.name: device for device in (load_device(file) for file in files)}
    for name in names:
        if name not in found:
            try:
                found[name] = load_device(name)
            except KgenError:
                continue
    return found


def roofline_us(device: Device | None, dtype: str, work: Work) -> float | None:
    """Return the least time that both peaks allow for a case's work, in us; None where one is unknown."""
    if device is None:
        return None
    peak, bandwidth = device.dense_peak(dtype), device.quantity("quantities.memory_bandwidth")
    if peak is None or bandwidth is None:
        return None
    least = max(work.flops / peak.per_second, work.bytes / bandwidth.per_second)
    return least * 1e6 or None


def device_json(name: str, device: Device | None, dtypes: Iterable[str]) -> dict[str, Any]:
    """Return a device for the chart: its bandwidth, and the dense peaks of the element types that are used."""
    if device is None:
        return {"name": name, "title": name, "arch": "", "bandwidth": None, "peaks": []}
    bandwidth = device.quantity("quantities.memory_bandwidth")
    peaks: dict[tuple[float, str, str], list[str]] = {}
    for dtype in dtypes:
        if (peak := device.dense_peak(dtype)) is not None:
            peaks.setdefault((peak.per_second, peak.source, str(peak.confidence)), []).append(dtype)
    return {
        "name": name,
        "title": device.title,
        "arch": device.arch.name,
        "bandwidth": bandwidth and _peak(bandwidth),
        "peaks": [
            {"dtypes": sorted(of), "per_second": rate, "source": source, "confidence": confidence}
            for (rate, source, confidence), of in sorted(peaks.items())
        ],
    }


def _peak(found: Quantity) -> Mapping[str, Any]:
    return {"per_second": found.per_second, "source": found.source, "confidence": str(found.confidence)}
