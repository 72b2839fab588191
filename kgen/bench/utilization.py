"""How much of a device a measured time uses: the work of the whole problem over its time, against the dense peak and
the memory bandwidth of the device file.

A figure above a trusted peak is a measurement error and no speed. A peak of low confidence is shown as such and decides
nothing: neither which limit binds, nor that a measurement is wrong.
"""

import math
from dataclasses import dataclass
from difflib import get_close_matches

from kgen.errors.bench import AmountError, UnknownDtypeError
from kgen.target import PEAK_OF, UNITS, Confidence, Device, Quantity, Source, load_sources

_US_PER_S = 1e6
COMPUTE, MEMORY = "compute_bound", "memory_bound"  # as memory files name them


@dataclass(frozen=True, slots=True)
class Amounts:
    """The whole problem: products and sums (FLOP), bytes that memory must move at least, and the measured time."""

    flops: float
    bytes: float
    time_us: float


@dataclass(frozen=True, slots=True)
class Grid:
    """CTAs (of a persistent kernel: tiles), how many one unit holds, and the units, None for the device file's."""

    ctas: int
    ctas_per_unit: int = 1
    compute_units: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """An achieved rate per second beside its peak, None where the device file has none."""

    achieved: float
    peak: Quantity | None

    @property
    def limit(self) -> float | None:
        """The peak per second."""
        return None if self.peak is None else self.peak.per_second

    @property
    def percent(self) -> float | None:
        """The share of the peak."""
        return None if self.limit is None else 100 * self.achieved / self.limit

    @property
    def trusted(self) -> bool:
        """Whether the peak may decide anything."""
        return self.peak is not None and self.peak.confidence is not Confidence.LOW

    @property
    def above(self) -> bool:
        """Whether the achieved rate is above the peak."""
        return self.percent is not None and self.percent > 100


@dataclass(frozen=True, slots=True)
class GridWaves:
    """Grid waves: `slots` CTAs run at once; `efficiency` is the filled share of all waves."""

    ctas: int
    ctas_per_unit: int
    compute_units: Quantity
    slots: int
    waves: int
    last_wave: int
    efficiency: float

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        names = ("ctas", "ctas_per_unit", "slots", "waves", "last_wave", "efficiency")
        return {**{name: getattr(self, name) for name in names}, "compute_units": self.compute_units.to_json()}


@dataclass(frozen=True, slots=True)
class Utilization:
    """The result: both shares, the bound, the grid waves; `measurement_error` says why the figures are no speed."""

    device: Device
    dtype: str
    amounts: Amounts
    compute: Share
    memory: Share
    grid: GridWaves | None
    measurement_error: str | None
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the figures may be used."""
        return self.measurement_error is None

    @property
    def nearest_limit(self) -> str | None:
        """The limit that is reached first if both peaks hold; None where one is unknown."""
        if self.compute.percent is None or self.memory.percent is None:
            return None
        return COMPUTE if self.compute.percent >= self.memory.percent else MEMORY

    @property
    def bound(self) -> str | None:
        """The limit that is reached first; None where a peak is unknown or of low confidence."""
        return self.nearest_limit if self.compute.trusted and self.memory.trusted else None

    @property
    def roofline_us(self) -> float | None:
        """The least time that both peaks allow; None where one is unknown."""
        if self.compute.percent is None or self.memory.percent is None:
            return None
        return self.amounts.time_us * max(self.compute.percent, self.memory.percent) / 100

    def sources(self) -> tuple[Source, ...]:
        """Return the entries of the citation register that the figures rest on."""
        cited = [self.compute.peak, self.memory.peak, self.grid and self.grid.compute_units]
        known = load_sources()
        return tuple(known[i] for i in dict.fromkeys(q.source for q in cited if q) if i in known)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object; what a measurement error makes worthless is null."""
        compute, memory = self.compute, self.memory
        speed = {
            "tflops": compute.achieved / 1e12,
            "bandwidth_gbps": memory.achieved / 1e9,
            "tflops_peak_utilization_pct": compute.percent,
            "bandwidth_peak_utilization_pct": memory.percent,
        }
        work = {"flops": self.amounts.flops, "bytes": self.amounts.bytes, "time_us": self.amounts.time_us}
        return {
            "device": self.device.name,
            "dtype": self.dtype,
            **work,
            **(speed if self.ok else dict.fromkeys(speed)),
            "bound": self.bound,
            "nearest_limit": self.nearest_limit,
            "roofline_us": self.roofline_us,
            "dense_peak": compute.peak and compute.peak.to_json(),
            "memory_bandwidth": memory.peak and memory.peak.to_json(),
            "grid": self.grid and self.grid.to_json(),
            "measurement_error": self.measurement_error,
            "notes": list(self.notes),
            "sources": {
                s.id: {n: getattr(s, n) for n in ("document", "revision", "date", "evidence")} for s in self.sources()
            },
        }


def utilization(device: Device, dtype: str, amounts: Amounts, grid: Grid | None = None) -> Utilization:
    """Return how much of a device a measured time uses; raise on what can be no measurement."""
    _require_dtype(dtype)
    _require_amounts(amounts)
    compute = Share(amounts.flops * _US_PER_S / amounts.time_us, device.dense_peak(dtype))
    memory = Share(amounts.bytes * _US_PER_S / amounts.time_us, device.quantity("quantities.memory_bandwidth"))
    named = ((compute, f"the dense {dtype} peak"), (memory, "the memory bandwidth"))
    errors = [_above(share, name) for share, name in named if share.above and share.trusted]
    error = "; ".join(errors) + f": {amounts.time_us:g} us is a measurement error, not a speed" if errors else None
    notes = [note for share, name in named if (note := _doubt(share, name, device)) is not None]
    waves = grid_waves(device, grid) if grid else None
    return Utilization(device, dtype, amounts, compute, memory, waves, error, tuple(notes))


def grid_waves(device: Device, grid: Grid) -> GridWaves:
    """Return how often the grid fills the device, and how full it is over all waves."""
    units = device.quantity("quantities.compute_units")
    if grid.compute_units is not None or units is None:
        units = Quantity(
            device.compute_units if grid.compute_units is None else grid.compute_units,
            "count",
            "given",
            Confidence.HIGH,
        )
    for name, value in (("CTAs", grid.ctas), ("CTAs per unit", grid.ctas_per_unit), ("compute units", units.value)):
        if value < 1:
            raise AmountError(name=f"the number of {name}", value=value, reason="it is at least 1")
    slots = int(units.value) * grid.ctas_per_unit
    waves = -(-grid.ctas // slots)
    last = grid.ctas - (waves - 1) * slots
    return GridWaves(grid.ctas, grid.ctas_per_unit, units, slots, waves, last, grid.ctas / (waves * slots))


def _require_dtype(dtype: str) -> None:
    known = sorted({*UNITS["dense_peak"], *PEAK_OF})
    if dtype not in known:
        close = get_close_matches(dtype, known, n=1, cutoff=0)
        raise UnknownDtypeError(dtype=dtype, nearest=close[0] if close else "none", known=", ".join(known))


def _require_amounts(amounts: Amounts) -> None:
    if not (math.isfinite(amounts.time_us) and amounts.time_us > 0):
        raise AmountError(name="the time", value=amounts.time_us, reason="a kernel takes more than 0 us")
    for name, value in (("flops", amounts.flops), ("bytes", amounts.bytes)):
        if not (math.isfinite(value) and value >= 0):
            raise AmountError(name=name, value=value, reason="it is a number from 0")
    if amounts.flops == amounts.bytes == 0:
        raise AmountError(name="the work", value="0 FLOP and 0 bytes", reason="nothing was used")


def _above(share: Share, name: str) -> str:
    return f"{share.percent:.4g} % of {name} ({share.peak})"


def _doubt(share: Share, name: str, device: Device) -> str | None:
    """Return what keeps a share from deciding anything, or None."""
    if share.peak is None:
        return f"{name} of {device.name} is not known: no utilization"
    if share.trusted:
        return None
    if share.above:
        figure = f"the figure is {share.percent:.4g} % of it"
        return f"{name} ({share.peak}) is of low confidence, and {figure}: the peak or the measurement is wrong"
    return f"{name} ({share.peak}) is of low confidence: it decides nothing"
