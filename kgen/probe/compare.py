"""A probed device against the shipped one that its driver's name speaks of: figure by figure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kgen.target import Device, Quantity


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure, `None` where a file lacks it; `percent` is how far the probed one lies above the shipped one."""

    name: str
    unit: str
    shipped: float | int | None
    probed: float | int | None
    percent: float | None
    confidence: str  # of the shipped figure, or of the probed one where that is alone

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def shipped_of(gpu: str, isa: str, devices: Iterable[Device]) -> Device | None:
    """Return the device that a driver's name means: all words of its own name are in it, and as many as can be.

    The name decides what is compared, and no figure of the file.
    """
    words = set(gpu.lower().replace("-", " ").split())
    named = [d for d in devices if d.arch.isa.removesuffix("a") == isa and set(d.name.split("_")) <= words]
    return max(named, key=lambda device: len(device.name.split("_")), default=None)


def differences(shipped: Device, probed: Device) -> tuple[Difference, ...]:
    """Return the figures that differ, limits of the arch among them; measurements that nobody shipped are left out."""
    theirs, mine = _figures(shipped), _figures(probed)
    names = [*mine, *(name for name in theirs if name not in mine)]
    found = (_difference(name, theirs.get(name), mine.get(name)) for name in names)
    alone = {name for name in mine if name.startswith("measured.") and name not in theirs}
    return tuple(d for d in found if d.shipped != d.probed and d.name not in alone)


def _figures(device: Device) -> dict[str, Quantity]:
    limits = {f"limits.{name}": quantity for name, quantity in device.arch.limits}
    return {**dict(device.quantities), **limits}


def _difference(name: str, shipped: Quantity | None, probed: Quantity | None) -> Difference:
    either = shipped or probed
    assert either is not None
    values = (shipped.value if shipped else None), (probed.value if probed else None)
    percent = None
    if shipped is not None and probed is not None and shipped.value:
        percent = 100 * (probed.value / shipped.value - 1)
    return Difference(name, either.unit, *values, percent, str(either.confidence))
