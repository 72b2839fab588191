"""The CSV of `ncu --csv --page raw`: a line of names, one of units, then a line per profiled launch. Pure.

Other lines around it are the profiled program's and ncu's own.
"""

import csv
from dataclasses import dataclass

from kgen.bench.report import Metric

STALL_REASONS = 3  # the largest are reported
_STALL_PREFIX, _STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
_NO_STALL = frozenset({"selected"})  # that warp issues


@dataclass(frozen=True, slots=True)
class Wanted:
    """A figure that decides: names of the counter, the first that the GPU has, and what it means."""

    names: tuple[str, ...]
    meaning: str
    unit: str | None = None  # to report it in; None: as ncu gives it
    base_units: float = 1.0  # of ncu in that unit


WANTED = (
    Wanted(("gpu__time_duration.sum",), "duration of the launch under the profiler", "us", 1e3),
    Wanted(("dram__bytes.sum.per_second",), "achieved memory bandwidth", "GB/s", 1e9),
    Wanted(("dram__throughput.avg.pct_of_peak_sustained_elapsed",), "share of the memory's peak"),
    Wanted(
        (
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
            "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
        ),
        "share of the tensor pipe's peak",
    ),
    Wanted(("launch__waves_per_multiprocessor",), "grid waves"),
    Wanted(("launch__registers_per_thread",), "registers a thread"),
    Wanted(("sm__maximum_warps_per_active_cycle_pct",), "occupancy that the launch allows"),
    Wanted(("sm__warps_active.avg.pct_of_peak_sustained_active",), "occupancy that was achieved"),
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One profiled launch: its figures and their units, by the names of the counters."""

    name: str
    figures: dict[str, float | str]
    units: dict[str, str]


def requested() -> tuple[str, ...]:
    """Return the options that ask for all of `WANTED`, and for the section of stall reasons, which differ by GPU."""
    names = ",".join(name for wanted in WANTED for name in wanted.names)
    return ("--section", "WarpStateStats", "--metrics", names)


def profiled_kernels(text: str) -> tuple[Kernel, ...]:
    """Return the launches in what ncu printed; none where there is no table."""
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return ()
    rows = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    names, units, launches = rows[0], rows[1] if len(rows) > 1 else [], rows[2:]
    return tuple(_kernel(names, units, row) for row in launches if len(row) == len(names))


def metrics_of(kernel: Kernel) -> tuple[Metric, ...]:
    """Return what decides, a missing counter as None; then the largest reasons for warps to wait."""
    return (*(_metric(kernel, wanted) for wanted in WANTED), *_stalls(kernel))


def _kernel(names: list[str], units: list[str], row: list[str]) -> Kernel:
    cells = dict(zip(names, row, strict=True))
    figures = {name: found for name, cell in cells.items() if (found := figure(cell)) is not None}
    return Kernel(cells.get("Kernel Name", ""), figures, dict(zip(names, units, strict=False)))


def figure(cell: str) -> float | str | None:
    """Return a cell as a number where it is one, with or without separators of thousands; None where it has nothing."""
    plain = cell.strip()
    if plain in ("", "n/a", "nan", "inf", "-nan") or plain.startswith("(!)"):
        return None
    try:
        return float(plain.replace(",", ""))
    except ValueError:
        return plain


def _metric(kernel: Kernel, wanted: Wanted) -> Metric:
    name = next((name for name in wanted.names if name in kernel.figures), wanted.names[0])
    value = kernel.figures.get(name)
    if isinstance(value, float):
        value /= wanted.base_units
    unit = kernel.units.get(name, "") if wanted.unit is None else wanted.unit
    return Metric(name=name, value=value, unit=unit, meaning=wanted.meaning)


def _stalls(kernel: Kernel) -> tuple[Metric, ...]:
    """Return the reasons that keep most warps waiting, largest first."""
    found = []
    for name, value in kernel.figures.items():
        reason = name.removeprefix(_STALL_PREFIX).removesuffix(_STALL_SUFFIX)
        whole = _STALL_PREFIX + reason + _STALL_SUFFIX == name
        if whole and reason not in _NO_STALL and isinstance(value, float) and value > 0:
            found.append((value, name, reason))
    largest = sorted(found, key=lambda row: (-row[0], row[1]))[:STALL_REASONS]
    return tuple(
        Metric(name=name, value=value, unit="warps", meaning=f"waiting for {reason.replace('_', ' ')}, a warp issued")
        for value, name, reason in largest
    )
