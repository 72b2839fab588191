"""The clock and the power of a GPU while it works: a thread reads them every few milliseconds.

Runs in the measuring process, beside replays of graphs that need no host.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from kgen.check.cuda import ManagedDevice, management
from kgen.check.kfd import number_of

PERIOD_S = 0.02  # the drivers renew their own readings about as often


@dataclass(frozen=True, slots=True)
class Reading:
    """One moment: MHz, watts, and whether the power limit holds the clock down; `None` is what nothing says."""

    mhz: float | None
    watts: float | None
    is_capped: bool | None


Sensor = Callable[[], Reading]


def sensor_of(api: str, place: str | None) -> Sensor | None:
    """Return what reads a GPU's clock and power: at a PCI bus id through NVML, or in a folder of sysfs."""
    if place is None:
        return None
    if api == "hip":
        return lambda: _read_sysfs(Path(place))
    nvml = management()
    device = None if nvml is None else nvml.device(place)
    return None if device is None else lambda: _read_nvml(device)


def _read_nvml(device: ManagedDevice) -> Reading:
    milliwatts = device.power_mw()
    return Reading(device.mhz(), milliwatts / 1e3 if milliwatts else None, device.is_power_capped())


def _read_sysfs(folder: Path) -> Reading:
    hertz = number_of(folder / "freq1_input")
    microwatts = number_of(folder / "power1_average") or number_of(folder / "power1_input")
    limit = number_of(folder / "power1_cap")
    capped = microwatts >= 0.98 * limit if microwatts and limit else None  # the driver says no more than both
    return Reading(hertz / 1e6 if hertz else None, microwatts / 1e6 if microwatts else None, capped)


class Watch:
    """Reads a sensor until it ends; usable as a context manager, and with no sensor too."""

    def __init__(self, sensor: Sensor | None) -> None:
        self._sensor = sensor
        self._readings: list[tuple[float, Reading]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Watch":
        if self._sensor is not None:
            self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        if self._sensor is not None:
            self._thread.join()

    def within(self, *spans: tuple[float, float]) -> dict[str, Any]:
        """Return the medians of what was read in spans of `time.monotonic`, and how often the clock was capped."""
        found = [reading for at, reading in self._readings if any(start <= at <= end for start, end in spans)]
        capped = [reading.is_capped for reading in found if reading.is_capped is not None]
        return {
            "mhz": _median([reading.mhz for reading in found]),
            "watts": _median([reading.watts for reading in found]),
            "capped": sum(capped) / len(capped) if capped else None,
        }

    def _read(self) -> None:
        assert self._sensor is not None
        while not self._over.wait(PERIOD_S):
            self._readings.append((time.monotonic(), self._sensor()))


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
