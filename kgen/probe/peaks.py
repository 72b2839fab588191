"""Theoretical peaks: what the driver says times what documents say of the arch, held against what was measured.

A card may have its tensor cores cut down, by the maker and with no word from the driver: the H20 multiplies at a
quarter of its arch's rate. Products per unit and cycle of the clock that they really ran at show that: the rate is
halved until it is less than twice what the best type reached.
"""

from dataclasses import replace
from math import floor, log2

from kgen.errors.probe import DriverSaysTooLittleError
from kgen.probe.digits import COMPUTED, rounded
from kgen.probe.driver import Facts
from kgen.probe.measure import Measurement
from kgen.probe.sizes import TENSOR_TYPES
from kgen.target import UNITS, Arch, Confidence, Quantity

TRANSFERS = (2, 4, 8)  # a clock of the memory: two by its edges, more where the driver tells a slower base clock
NO_TENSOR_TF32 = 1.2  # tf32 no faster than that many times fp32 did not run on tensor cores
NOISE = 1.02  # how far a measured rate may stand above a peak


def believed(measured: Measurement) -> Measurement:
    """Return the measurement without tf32 that the library multiplied as fp32, which is said among what is skipped."""
    tf32, plain = measured.best("tf32"), measured.best("fp32")
    if tf32 is None or plain is None or tf32.value >= NO_TENSOR_TF32 * plain.value:
        return measured
    reason = f"no faster than fp32 ({tf32.value:.4g} and {plain.value:.4g} TFLOP/s): it did not run on tensor cores"
    kept = tuple(sample for sample in measured.samples if sample.quantity != "tf32")
    return replace(measured, samples=kept, skipped=(*measured.skipped, ("tf32", reason)))


def memory_peak(facts: Facts, measured: Measurement) -> Quantity:
    """Return the bandwidth of the memory: clock x width x the fewest transfers a clock that admit what was measured.

    Raises `DriverSaysTooLittleError` where neither is known.
    """
    samples = [measured.best(name) for name in ("copy_bandwidth", "read_bandwidth")]
    best = max((sample.value for sample in samples if sample), default=0.0)
    mhz, bits = facts.memory_clock_mhz, facts.memory_bus_bits
    for transfers in TRANSFERS if mhz and bits else ():
        assert mhz and bits
        peak = mhz * bits / 8 * transfers / 1e6
        if peak >= best:
            note = f"{mhz:g} MHz x {bits} bits x {transfers} transfers a clock"
            return Quantity(rounded(peak), "TB/s", "probe", Confidence.MEDIUM, note)
    if not best:
        raise DriverSaysTooLittleError(gpu=facts.name, driver=facts.driver, what="clock and width of its memory")
    note = "the most that was measured: the driver says no clock and width of the memory that would do"
    return Quantity(rounded(best), "TB/s", "probe", Confidence.LOW, note)


Peaks = tuple[tuple[tuple[str, Quantity], ...], tuple[tuple[str, str], ...]]


def dense_peaks(facts: Facts, measured: Measurement, arch: Arch) -> Peaks:
    """Return the dense peaks of the types whose products were measured, and the others with the reason."""
    found: list[tuple[str, Quantity]] = []
    without: list[tuple[str, str]] = []
    rates = reached_rates(facts, measured)
    known = dict(arch.rates)
    tensor = [name for name in TENSOR_TYPES if name in rates and name in known]
    common = min((_halvings(known[name].value, rates[name]) for name in tensor), default=0)
    is_timed = measured.products.mhz is not None
    for name, rate in arch.rates:
        if name not in rates:
            without.append((name, "no product of it was measured, and its rate may be cut down"))
            continue
        cut = 2 ** (common if name in tensor else _halvings(rate.value, rates[name])) if is_timed else 1
        peak = rounded(rate.value / cut * facts.compute_units * _ghz(facts) / 1e3, COMPUTED)
        sample = measured.best(name)
        assert sample is not None
        if sample.value > NOISE * peak:
            without.append((name, f"{sample.value:.4g} {UNITS['dense_peak'][name]} were measured, above {peak:g}"))
            continue
        found.append((name, _peak(name, rate, peak, cut, is_timed)))
    return tuple(found), tuple(without)


def reached_rates(facts: Facts, measured: Measurement) -> dict[str, float]:
    """Return operations per unit and cycle that products reached, at the clock that they ran at where it was read."""
    cycles = facts.compute_units * (measured.products.mhz or facts.clock_mhz or 0.0)  # of all units, in a microsecond
    samples = {name: sample for name in UNITS["dense_peak"] if (sample := measured.best(name)) is not None}
    return {name: sample.value * 1e6 / cycles for name, sample in samples.items()}


def _halvings(rate: float, reached: float) -> int:
    """Return how often a rate may be halved and still admits what was reached."""
    return max(0, floor(log2(rate * NOISE / reached)))


def _peak(name: str, rate: Quantity, peak: float, cut: int, is_timed: bool) -> Quantity:
    times = f"{rate.value:g} / {cut}" if cut > 1 else f"{rate.value:g}"
    notes = [f"{times} {rate.unit} [{rate.source}] x units x clock"]
    if cut > 1:
        notes.append(f"products at the clock that was read show 1/{cut} of the arch's rate")
    if not is_timed:
        notes.append("no clock was read meanwhile, so that a cut of the rate would not be seen")
    level = Confidence.MEDIUM if is_timed and rate.confidence is not Confidence.LOW else Confidence.LOW
    return Quantity(peak, UNITS["dense_peak"][name], "probe", level, "; ".join(notes))


def _ghz(facts: Facts) -> float:
    return (facts.clock_mhz or 0.0) / 1e3
