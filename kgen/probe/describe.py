"""A GPU as a device file: the driver's facts, what was measured, and what a known device of its arch lends.

Pure: no file is written here and no device asked. Every number has source, confidence and the note of its formula.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from kgen.errors.probe import DriverSaysTooLittleError, ProbedIsaError
from kgen.probe.digits import COMPUTED, rounded
from kgen.probe.driver import Facts
from kgen.probe.fitted import fitted_from, nearest_device
from kgen.probe.measure import Measurement, Sample
from kgen.probe.peaks import believed, dense_peaks, memory_peak
from kgen.target import UNITS, Arch, Confidence, Device, Probe, Quantity, Spread

SOURCE = "probe"
_QUIET, _LOUD = 0.05, 0.15  # of spread over the median: up to these, high and medium confidence
_AT_MOST_MEDIUM = ("l2_copy_bandwidth",)  # two copies of torch's, subtracted: others may be faster


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that the file does not have, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Described:
    """The content of a device file, by `section.name`, and what it lacks."""

    title: str
    arch: str
    probe: Probe
    limits: tuple[tuple[str, Quantity], ...]
    quantities: tuple[tuple[str, Quantity], ...]
    missing: tuple[Missing, ...]
    nearest: str | None  # the device that figures were taken over from


def arch_of(facts: Facts, arches: Iterable[Arch]) -> Arch:
    """Return the arch of a GPU, by its compute capability or gfx name alone; raises `ProbedIsaError`."""
    known = {arch.isa: arch for arch in arches}
    for isa, arch in known.items():
        if facts.isa == isa.removesuffix("a"):
            return arch
    raise ProbedIsaError(gpu=facts.name, isa=facts.isa, known=", ".join(known))


def check_said(facts: Facts) -> None:
    """Raise `DriverSaysTooLittleError` where a number lacks that nothing else gives and no device file goes without."""
    for number, what in ((facts.clock_mhz, "its clock"), (facts.l2_bytes, "the size of all its L2")):
        if not number:
            raise DriverSaysTooLittleError(gpu=facts.name, driver=facts.driver, what=what)


def describe(facts: Facts, measured: Measurement, arch: Arch, devices: Iterable[Device], date: str) -> Described:
    """Return the device file of a GPU; `devices` are those known, `date` is today's."""
    check_said(facts)
    measured = believed(measured)
    kin = [device for device in devices if device.arch.isa == arch.isa]
    known = dict(_of_driver(facts, measured))
    peaks, without = dense_peaks(facts, measured, arch)
    known |= {f"dense_peak.{name}": quantity for name, quantity in peaks}
    known |= {f"measured.{name}": quantity for name, quantity in _of_measurement(measured)}
    nearest = nearest_device(known, kin)
    if nearest is not None:
        sustained = measured.sustained
        known |= dict(fitted_from(nearest, known, sustained.quantity if sustained else None))
        known |= {name: _lent(name, nearest) for name in _lendable(nearest, facts) if name not in known}
        known |= dict(_planes(known, nearest))
    units = dict(arch.limits)
    return Described(
        title=facts.name,
        arch=arch.name,
        probe=Probe(date=date, gpu=facts.name, driver=facts.driver, torch=measured.torch),
        limits=tuple((n, _said(v, units[n].unit)) for n, v in facts.limits if n in units),
        quantities=tuple(_in_order(known)),
        missing=tuple(_missing(facts, measured, without, nearest)),
        nearest=None if nearest is None else nearest.name,
    )


def _of_driver(facts: Facts, measured: Measurement) -> Iterator[tuple[str, Quantity]]:
    assert facts.clock_mhz and facts.l2_bytes  # check_said
    ghz = rounded(facts.clock_mhz / 1e3, COMPUTED)
    yield "quantities.compute_units", _said(facts.compute_units, "count")
    if facts.dies:
        yield "quantities.dies", _said(facts.dies, "count", "XCDs of this partition")
    highest = "the highest that the driver allows"
    yield "quantities.clock", _said(ghz, "GHz", f"{highest}; the dense peaks are stated for it")
    yield "quantities.boost_clock", _said(ghz, "GHz", highest)
    yield "quantities.memory", _said(rounded(facts.memory_bytes / 2**30), "GB", "of 2^30 bytes, as data sheets count")
    yield "quantities.memory_bandwidth", memory_peak(facts, measured)
    per_die = "that of one die x dies" if facts.dies else ""
    yield "quantities.l2", _said(rounded(facts.l2_bytes / 2**20), "MB", per_die)
    if facts.last_level_cache_bytes:
        yield "quantities.last_level_cache", _said(rounded(facts.last_level_cache_bytes / 2**20), "MB")
    if facts.power_limit_w:
        yield "quantities.board_power", _said(rounded(facts.power_limit_w), "W", "the limit that is set")


def _of_measurement(measured: Measurement) -> Iterator[tuple[str, Quantity]]:
    for name, unit in UNITS["measured"].items():
        if (sample := measured.best(name)) is not None:
            yield name, _sampled(name, sample, unit)
    load = measured.sustained_load
    if (sustained := measured.sustained) is not None:
        held = "" if load.capped is None else f"; the power limit held the clock in {load.capped:.0%} of the readings"
        note = f"{sustained.quantity} {sustained.label}{held}"
        unit = UNITS["measured"]["sustained_mma"]
        yield "sustained_mma", _sampled("sustained_mma", sustained, unit, note)
    if load.mhz is not None:
        yield "sustained_clock", _said(rounded(load.mhz / 1e3), "GHz")
    if load.watts is not None:
        yield "sustained_power", _said(rounded(load.watts), "W")


def _sampled(name: str, sample: Sample, unit: str, note: str | None = None) -> Quantity:
    spread = sample.spread
    share = (spread.high - spread.low) / sample.value
    level = Confidence.HIGH if share <= _QUIET else Confidence.MEDIUM if share <= _LOUD else Confidence.LOW
    if name in _AT_MOST_MEDIUM and level is Confidence.HIGH:
        level = Confidence.MEDIUM
    kept = Spread(rounded(spread.low), rounded(spread.high), spread.rounds)
    return Quantity(rounded(sample.value), unit, SOURCE, level, sample.label if note is None else note, kept)


def _said(value: float | int, unit: str, note: str = "") -> Quantity:
    return Quantity(value, unit, SOURCE, Confidence.HIGH, note)


# What the CUDA driver does not tell, and no plan can do without.
_LENT = ("quantities.dies", "quantities.gpcs")
# It would tell these of a compiled kernel only. Units are cut off GPC by GPC, and so their number says much.
_LENT_TO_ITS_LIKE = tuple(f"quantities.clusters_of_{size}" for size in (4, 8, 16))


def _lendable(nearest: Device, facts: Facts) -> Iterator[str]:
    """Yield what a device file takes over from the nearest device."""
    is_like = nearest.compute_units == facts.compute_units
    names = (*_LENT, *(_LENT_TO_ITS_LIKE if is_like else ()))
    return (name for name in names if nearest.quantity(name))


def _planes(known: Mapping[str, Quantity], nearest: Device) -> Iterator[tuple[str, Quantity]]:
    """Yield the peak of fp32 in planes, which is no rate of the hardware's own, where kernels of the arch have them."""
    name, fp16 = "dense_peak.fp32_planes", known.get("dense_peak.fp16")
    if fp16 is not None and nearest.quantity(name):
        note = "a third of fp16: three products of planes"
        yield name, Quantity(rounded(fp16.value / 3, COMPUTED), fp16.unit, "derived", Confidence.MEDIUM, note)


def _lent(name: str, nearest: Device) -> Quantity:
    note = f"of the {nearest.name}: the driver does not say"
    theirs = nearest.quantity(name)
    assert theirs is not None
    return Quantity(theirs.value, theirs.unit, "carried_over", Confidence.LOW, note)


def _in_order(known: dict[str, Quantity]) -> Iterator[tuple[str, Quantity]]:
    """Yield quantities in the order of `UNITS`."""
    names = chain.from_iterable((f"{section}.{name}" for name in units) for section, units in UNITS.items())
    return ((name, known[name]) for name in names if name in known)


def _missing(
    facts: Facts, measured: Measurement, without: Iterable[tuple[str, str]], nearest: Device | None
) -> Iterator[Missing]:
    for name, reason in measured.skipped:
        yield Missing(f"measured.{name}", reason)
    for name, reason in without:
        yield Missing(f"dense_peak.{name}", reason)
    if measured.best("l2_copy_bandwidth") is None:
        reason = "its dies have an L2 each, and what a copy moves between them is no rate of one"
        yield Missing("measured.l2_copy_bandwidth", reason if facts.api == "hip" else "the larger copy took no longer")
    if not facts.power_limit_w:
        yield Missing("quantities.board_power", "neither NVML nor sysfs says it")
    if nearest is None:
        yield Missing("fitted", "no device of this arch is known that lends its constants")
