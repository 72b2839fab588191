"""The proof of a package with no GPU to run it: its own test, with its kernels in a simulator.

What is right here is right in two orders of waves and with two patterns in never-written registers and LDS, to the
bit. Nothing is timed.
"""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from kgen.check.compile import usable_cores
from kgen.check.dynamic import SimulatedKernel
from kgen.check.package import PackageFolder, read_package
from kgen.check.simulate_worker import SimulateWorker
from kgen.errors.check import NotAPackageError

Progress = Callable[["SimulatedResult", int, int], None]


@dataclass(frozen=True, slots=True)
class SimulatedCase:
    """One case of shapes.json. `compared_elements` of all calls' `elements` were compared with the reference.

    They are fewer where only a part of the workgroups ran. `skipped` are calls whose results were not compared, each
    with the reason; `not_simulated` says why none was. Such a case has `kernels` where a part of a first launch ran.
    """

    case: str
    calls: tuple[str, ...]
    skipped: tuple[str, ...]
    failures: tuple[str, ...]
    kernels: tuple[SimulatedKernel, ...]
    compared_elements: int
    elements: int
    rel_err: float | None
    not_simulated: str | None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "SimulatedCase":
        """Return the case that an event of the simulating process describes."""
        typed = {
            "calls": tuple(stored["calls"]),
            "skipped": tuple(stored["skipped"]),
            "failures": tuple(stored["failures"]),
            "kernels": tuple(SimulatedKernel.from_json(row) for row in stored["kernels"]),
        }
        return cls(**stored | typed)

    @property
    def status(self) -> str:
        """In a word or two."""
        if self.failures:
            return "FAIL"
        if self.not_simulated is None:
            return "PASS"
        return "not compared" if self.kernels else "not simulated"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; JSON has no infinities."""
        error = self.rel_err if self.rel_err is not None and isfinite(self.rel_err) else None
        kernels = [kernel.to_json() for kernel in self.kernels]
        return asdict(self) | {"status": self.status, "rel_err": error, "kernels": kernels}


@dataclass(frozen=True, slots=True)
class SimulatedResult:
    """What the simulated test of one package showed. `notes` are what it does not show.

    `estimates_us` are the times that the plan expects of the variants: an estimate, no measurement.
    """

    folder: Path
    device: str
    cases: tuple[SimulatedCase, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    estimates_us: tuple[tuple[str, float], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong; it proves no result unless `is_compared`."""
        return not self.failures

    @property
    def is_compared(self) -> bool:
        """Whether results of a case were compared with the reference."""
        return any(case.not_simulated is None for case in self.cases)

    def to_json(self) -> dict[str, Any]:
        """Return the result as one JSON object."""
        return {
            "folder": str(self.folder),
            "device": self.device,
            "ok": self.ok,
            "compared": self.is_compared,
            "timed": False,
            "plan_estimates_us": dict(self.estimates_us),
            "cases": [case.to_json() for case in self.cases],
            "failures": list(self.failures),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def simulate_package(folder: Path, worker: SimulateWorker | None = None) -> SimulatedResult:
    """Run a package's test in the simulator of its tool chain, in a subprocess: that of `worker`, or one of its own."""
    if worker is None:
        with closing(SimulateWorker()) as own:
            return simulate_package(folder, own)
    package = read_package(folder)
    for name in ("test_kernel.py", "input.py", "shapes.json"):
        if not (folder / name).is_file():
            raise NotAPackageError(folder=folder, missing=name)
    started = time.perf_counter()
    simulated = worker.simulate(package)
    cases = tuple(map(SimulatedCase.from_json, simulated.cases))
    failures = [line for case in cases for line in case.failures]
    if simulated.failure is not None:
        failures.append(simulated.failure)
    seconds = time.perf_counter() - started
    notes = tuple(_notes(package, cases))
    return SimulatedResult(folder, package.device, cases, tuple(failures), notes, seconds, package.estimates_us)


def simulate_packages(
    folders: Sequence[Path], *, jobs: int | None = None, progress: Progress | None = None
) -> tuple[SimulatedResult, ...]:
    """Run the tests of many packages, `jobs` at once (default: the cores there are), in the order of `folders`."""
    count = min(jobs or usable_cores(), len(folders))
    idle: queue.SimpleQueue[SimulateWorker] = queue.SimpleQueue()

    def simulate(folder: Path) -> SimulatedResult:
        worker = idle.get()
        try:
            return simulate_package(folder, worker)
        finally:
            idle.put(worker)

    with ExitStack() as stack:
        workers = [stack.enter_context(closing(SimulateWorker())) for _ in range(count)]
        pool = stack.enter_context(ThreadPoolExecutor(max(1, count)))
        for worker in workers:
            stack.callback(worker.interrupt)  # whatever ends this: nothing goes on behind it
            idle.put(worker)
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        running = [pool.submit(simulate, folder) for folder in folders]
        for done, future in enumerate(as_completed(running), 1):
            if progress is not None:
                progress(future.result(), done, len(folders))
        return tuple(future.result() for future in running)


def _notes(package: PackageFolder, cases: tuple[SimulatedCase, ...]) -> Iterator[str]:
    for case in cases:
        if case.not_simulated is not None:
            fate = "not compared: of its first launch a part ran, for races, waits and bounds alone"
            yield f"{case.case} was {fate if case.kernels else 'not simulated'}: {case.not_simulated}"
            continue
        yield from (f"{case.case} was not simulated in {call}" for call in case.skipped)
        if case.compared_elements < case.elements:
            part = sorted({f"{k.executed_workgroups} of {k.workgroups}" for k in case.kernels})
            compared = f"{case.compared_elements} of {case.elements} elements compared"
            yield f"{case.case}: {' and '.join(part)} workgroups ran, {compared}"
    ran = {kernel.variant for case in cases for kernel in case.kernels}
    if cases and all(case.not_simulated is not None for case in cases):
        yield "no case is small enough to be simulated: the same spec is at smaller extents, a GPU runs all"
    if never := [e.variant for e in package.expectations if e.variant not in ran]:
        yield f"no simulated call ran {', '.join(never)}"
