"""Constants of the cost model that a probe cannot measure: those of the nearest device that is known, or scaled.

What a document says of the arch keeps its source. Everything else is `carried_over` with low confidence, and its note
says from where and by which formula: nobody has fitted the model to the probed device.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import log

from kgen.probe.digits import rounded
from kgen.target import Confidence, Device, Quantity, load_sources

Known = Mapping[str, Quantity]  # by "section.name"
_COMPARED = ("compute_units", "boost_clock", "memory", "memory_bandwidth", "l2")
_OF_THE_ARCH = ("vendor_document", "vendor_code", "tool")  # evidence that holds for all devices of an arch


def nearest_device(known: Known, devices: Iterable[Device]) -> Device | None:
    """Return the device whose units, clock, memory and caches are the closest, each as a ratio; `None` of none."""

    def distance(device: Device) -> float:
        pairs = ((known.get(f"quantities.{n}"), device.quantity(f"quantities.{n}")) for n in _COMPARED)
        return sum(abs(log(mine.value / theirs.value)) for mine, theirs in pairs if mine and theirs)

    return min(devices, key=distance, default=None)


def fitted_from(nearest: Device, known: Known, sustained_dtype: str | None) -> Iterator[tuple[str, Quantity]]:
    """Yield the constants of section `fitted`, by `section.name`.

    `known` is what the probe found, `sustained_dtype` the type whose products it ran on end, a name of dense peaks.
    """
    theirs = {name: quantity for name, quantity in nearest.quantities if name.startswith("fitted.")}
    efficiency = _mma_efficiency(known, sustained_dtype)
    measured = {} if efficiency is None else {"fitted.mma_efficiency": efficiency}
    for name, quantity in theirs.items():
        yield name, measured.get(name) or _carried(name, quantity, nearest, known)


def _mma_efficiency(known: Known, dtype: str | None) -> Quantity | None:
    """Return what the library sustains of the dense peak."""
    sustained, peak = known.get("measured.sustained_mma"), known.get(f"dense_peak.{dtype}")
    if sustained is None or peak is None:
        return None
    note = f"measured.sustained_mma ({dtype}, {sustained.value:g} {sustained.unit}) over its dense peak"
    return Quantity(rounded(sustained.value / peak.value), "ratio", "probe", Confidence.MEDIUM, note)


def _carried(name: str, quantity: Quantity, nearest: Device, known: Known) -> Quantity:
    value, formula = quantity.value, ""
    scale = _SCALES.get(name)
    if scale is not None and (found := scale(nearest, known)) is not None:
        factor, formula = found
        value = rounded(value * factor)
    if not formula and load_sources()[quantity.source].evidence in _OF_THE_ARCH:
        return quantity
    note = f"of the {nearest.name}" + (f" ({quantity.value:g}) {formula}" if formula else "")
    return replace(quantity, value=value, source="carried_over", confidence=Confidence.LOW, note=note)


Scale = Callable[[Device, Known], tuple[float, str] | None]


def _by(times: tuple[str, ...], over: tuple[str, ...] = (), *, words: str) -> Scale:
    """Return a scale: products and quotients of quantities, here against there; `None` where a device lacks one."""

    def scale(nearest: Device, known: Known) -> tuple[float, str] | None:
        factor = 1.0
        for name in (*times, *over):
            mine, theirs = known.get(name), nearest.quantity(name)
            if mine is None or theirs is None:
                return None
            factor *= (mine.value / theirs.value) ** (-1 if name in over else 1)
        return factor, words

    return scale


# Shares of the memory's peak move with what a copy reaches of it; the caches' rate with the units that draw from them.
_OF_COPIES = _by(
    ("measured.copy_bandwidth",),
    ("quantities.memory_bandwidth",),
    words="x the share of the peak that copies reach",
)
_SCALES: Mapping[str, Scale] = {
    "fitted.loop_efficiency": _OF_COPIES,
    "fitted.memory_efficiency": _OF_COPIES,
    "fitted.l2_bandwidth": _by(("quantities.compute_units", "quantities.boost_clock"), words="x units x boost clock"),
    "fitted.launch": _by(("measured.launch",), words="x the time of an empty kernel"),
}
