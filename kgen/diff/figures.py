"""The figures of a device that a plan can rest on, and devices with some of them replaced by those of another.

The peaks are stated for the whole device; here they are those of one unit in a cycle, as the rules read them. So a
device with fewer units is one whose units are as fast as before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kgen.target import Device, Quantity

_PEAK, _RATE, _LIMIT = "dense_peak.", "unit_peak.", "limits."
_UNITS, _CLOCK = "quantities.compute_units", "quantities.clock"
_PER_CYCLE = 1e6  # TFLOP/s over (units x GHz x 1e3 cycles per us) -> FLOP per cycle of one unit
_RATE_UNIT = "FLOP/clk"
# What no rule and no cost model reads.
_UNREAD = frozenset({"quantities.memory", "quantities.board_power"})
_UNREAD_SECTION = "measured."


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure that two devices have different values of; None where one does not state it."""

    name: str
    a: float | None
    b: float | None
    unit: str

    def __str__(self) -> str:
        return f"{self.label} {_number(self.a)} -> {_number(self.b)}{self.suffix}"

    @property
    def label(self) -> str:
        """Its name as it reads in a sentence."""
        section, _, field = self.name.partition(".")
        return f"{field} peak of a unit" if f"{section}." == _RATE else field

    @property
    def suffix(self) -> str:
        """Its unit, with a space before it, as far as it has one."""
        return "" if self.unit in ("count", "ratio") else f" {self.unit}"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"figure": self.name, "a": self.a, "b": self.b, "unit": self.unit}


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"


def figures_of(device: Device) -> dict[str, Quantity]:
    """Return what a plan can rest on, by name: quantities, the peaks of one unit, limits."""
    found: dict[str, Quantity] = {}
    cycles = device.value(_CLOCK) * 1e3 * device.compute_units
    for name, quantity in device.quantities:
        if name.startswith(_PEAK):
            per_cycle = quantity.value * _PER_CYCLE / cycles
            found[_RATE + name.removeprefix(_PEAK)] = replace(quantity, value=round(per_cycle), unit=_RATE_UNIT)
        elif _is_read(name):
            found[name] = quantity
    return found | {_LIMIT + name: quantity for name, quantity in device.arch.limits}


def _is_read(name: str) -> bool:
    return name not in _UNREAD and not name.startswith(_UNREAD_SECTION)


def differing(a: Device, b: Device) -> tuple[Figure, ...]:
    """Return the figures whose values differ, in the order of A's file."""
    first, second = figures_of(a), figures_of(b)
    names = dict.fromkeys((*first, *second))
    found = (Figure(n, _value(first, n), _value(second, n), (first.get(n) or second[n]).unit) for n in names)
    return tuple(figure for figure in found if figure.a != figure.b)


def _value(figures: Mapping[str, Quantity], name: str) -> float | None:
    quantity = figures.get(name)
    return None if quantity is None else quantity.value


def with_figures(device: Device, other: Device, names: Iterable[str]) -> Device:
    """Return a device in which the named figures are those of another device."""
    theirs, figures = figures_of(other), figures_of(device)
    for name in names:
        if name in theirs:
            figures[name] = theirs[name]
        else:
            figures.pop(name, None)
    units = figures[_UNITS].value * figures[_CLOCK].value * 1e3
    quantities = {n: q for n, q in device.quantities if not _is_read(n)}
    limits = {}
    for name, quantity in figures.items():
        if name.startswith(_LIMIT):
            limits[name.removeprefix(_LIMIT)] = quantity
        elif name.startswith(_RATE):
            peak = name.removeprefix(_RATE)
            whole = replace(quantity, value=quantity.value * units / _PER_CYCLE, unit=_peak_unit(device, other, peak))
            quantities[_PEAK + peak] = whole
        else:
            quantities[name] = quantity
    arch = replace(device.arch, limits=tuple(limits.items()))
    return replace(device, arch=arch, quantities=tuple(quantities.items()))


def _peak_unit(device: Device, other: Device, name: str) -> str:
    found = device.quantity(_PEAK + name) or other.quantity(_PEAK + name)
    assert found is not None
    return found.unit
