"""The run: which packages there are to be, which steps they lack, and what is written of what comes back.

One process writes, and it writes a package or a measurement whole, then its record: whenever it is killed, each
finished step is in both, in neither, or is a package without its record, which is emitted once more.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kgen.check.toolchains import has_simulator
from kgen.errors.base import CheckFailedError, KgenError, UnsupportedError
from kgen.errors.regen import NoTargetsError, SameDeviceNameError
from kgen.golden import Job, jobs_of
from kgen.layout import MEASURED
from kgen.package.folder import file_names
from kgen.package.write import write_package
from kgen.records import Record, Status, Store
from kgen.regen.engine import Engine
from kgen.regen.failures import failed, unread
from kgen.regen.finished import Finished
from kgen.regen.identity import is_self_contained, origin_of
from kgen.regen.measured import write_measured_files
from kgen.regen.summary import Failure, Summary, Tally
from kgen.regen.tasks import Done, EmitTask, Lost, Made, Origin, PackageTask, Step, Task
from kgen.target import Device, load_device

Progress = Callable[[str, float, float], None]  # title; seconds of work that are done, and all, by a first estimate
# What a step takes, for the time that is left: only the proportions matter.
EXPECTED_SECONDS = {Step.EMIT: 0.15, Step.CHECK: 3.0, Step.TEST: 20.0, Step.BENCH: 60.0}
SIMULATION_SECONDS = 60.0  # of a check where something simulates the device
WRITERS = 4  # packages that are written at once: they wait for the disk to have each file


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one run."""

    specs: tuple[Path, ...]
    targets: tuple[str, ...]
    out: Path
    check: bool = False
    measure: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """One package that is to be."""

    job: Job
    device: Device
    origin: Origin
    folder: Path

    @property
    def title(self) -> str:
        """The package in one line."""
        return f"{self.origin.spec} for {self.origin.device}"


def regenerate(asked: Asked, engine: Engine, store: Store, progress: Progress) -> Summary:
    """Bring all packages up to date; whatever fails, the others are made. Ctrl-C ends it with what is finished."""
    return _Run(asked, engine, store, progress).go()


class _Run:
    """One run: its packages by their origins, the tasks that wait, and what was counted."""

    def __init__(self, asked: Asked, engine: Engine, store: Store, progress: Progress) -> None:
        self._asked, self._engine, self._store, self._progress = asked, engine, store, progress
        self._finished = Finished(store)
        self._packages: dict[Origin, Planned] = {}
        self._emits: deque[EmitTask] = deque()
        self._steps: deque[tuple[Step, Planned]] = deque()  # without a GPU; bytes are read when there is room
        self._on_gpu: deque[tuple[Step, Planned]] = deque()
        self._steps_by_device: dict[str, tuple[Step, ...]] = {}
        self._absent: set[str] = set()
        self._tally = Tally()
        self._expected = self._spent = 0.0
        self._writers = ThreadPoolExecutor(WRITERS)
        self._in_flight = 0  # tasks without a GPU that are being done

    def go(self) -> Summary:
        """Do everything."""
        started = time.perf_counter()
        is_interrupted = False
        try:
            self._plan()
            self._work()
        except KeyboardInterrupt:
            is_interrupted = True
        finally:
            self._writers.shutdown()
        tally = self._tally
        return Summary(
            packages=len(self._packages),
            done=tally.done,
            kept=tally.kept,
            failures=tuple(tally.failures),
            absent=tuple(sorted(self._absent)),
            seconds=tally.seconds,
            wall_seconds=time.perf_counter() - started,
            records=tally.records,
            is_interrupted=is_interrupted,
        )

    def _plan(self) -> None:
        """Find the packages, and the first step that each lacks."""
        started = time.perf_counter()
        by_spec: dict[Path, list[Planned]] = {}
        for job in jobs_of(self._asked.specs, self._asked.targets, self._asked.out):
            if (planned := self._planned(job)) is not None:
                by_spec.setdefault(job.spec_file, []).append(planned)
        for group in by_spec.values():
            lacking = [planned for planned in group if not self._is_emitted(planned)]
            if lacking:
                spec = lacking[0].job.spec
                assert spec is not None
                self._emits.append(EmitTask(spec, tuple(p.device for p in lacking), tuple(p.origin for p in lacking)))
        self._tally.spend({"look": time.perf_counter() - started})

    def _planned(self, job: Job) -> Planned | None:
        """Return the package of a job, or note why there is none."""
        if job.error is not None:
            self._tally.failures.append(Failure(job.title, Step.EMIT, job.error.text(), job.error.exit_code))
            return None
        assert job.spec is not None and job.folder is not None
        device = load_device(job.device)
        planned = Planned(job, device, origin_of(job.spec, device), job.folder)
        self._packages[planned.origin] = planned
        self._expected += sum(_expected_seconds(step, device) for step in self._steps_of(device))
        return planned

    def _steps_of(self, device: Device) -> tuple[Step, ...]:
        """Return the steps that are asked for and can be done for a device, as it was when it was first asked."""
        if device.name not in self._steps_by_device:
            asked, steps = self._asked, [Step.EMIT]
            steps += [Step.CHECK] if asked.check else []
            if (asked.check or asked.measure) and self._engine.gpus(device):
                steps += [Step.BENCH if asked.measure else Step.TEST]
            elif asked.measure:
                self._absent.add(device.name)
            self._steps_by_device[device.name] = tuple(steps)
        return self._steps_by_device[device.name]

    def _is_emitted(self, planned: Planned) -> bool:
        """Whether a package stands finished, or was refused; then its next step is asked for."""
        assert planned.job.spec is not None
        found = self._finished.emit(planned.origin, planned.folder)
        if found is None or not is_self_contained(planned.job.spec):
            return False
        self._tally.kept[Step.EMIT] += 1
        self._after(planned, Step.EMIT, (found,))
        return True

    def _work(self) -> None:
        """Keep the engine busy until nothing is left."""
        self._start_tasks()
        while self._engine.is_busy:
            done = self._engine.wait()
            self._start_tasks()  # before the result is written, so that nobody waits for the disk
            self._take(done)
            self._start_tasks()
        self._absent |= {planned.device.name for _, planned in self._on_gpu}  # a cluster lost their GPUs meanwhile

    def _start_tasks(self) -> None:
        """Start what there is room for: packages first, GPUs once nothing else could disturb what they measure."""
        while self._emits and self._engine.has_room():
            self._start(self._emits.popleft())
        while self._steps and self._engine.has_room():
            if (task := self._task_of(*self._steps.popleft())) is not None:
                self._start(task)
        if self._emits or self._steps or self._in_flight:
            return
        for _ in range(len(self._on_gpu)):
            step, planned = self._on_gpu.popleft()
            if not self._engine.has_room(planned.device):
                self._on_gpu.append((step, planned))
            elif (task := self._task_of(step, planned)) is not None:
                self._engine.start(task)

    def _task_of(self, step: Step, planned: Planned) -> PackageTask | None:
        """Return the task of a later step, with the bytes of its package as it stands now; without them note that."""
        try:
            return PackageTask(step, planned.device, planned.origin, _files_of(step, planned.folder))
        except (OSError, KgenError) as error:
            lost = unread(planned.origin, step, f"{planned.folder} cannot be read: {error}")
        self._tally.records += self._store.add([lost])
        self._tally.done[step] += 1
        self._after(planned, step, [lost])
        return None

    def _start(self, task: Task) -> None:
        self._in_flight += 1
        self._engine.start(task)

    def _take(self, done: Done) -> None:
        """Write what came of a task, then its records, and ask for what comes next."""
        task, outcome = done.task, done.outcome
        self._in_flight -= not task.step.needs_gpu
        if isinstance(outcome, Lost):
            if isinstance(task, EmitTask) and len(task.devices) > 1:  # one of them may be what ends the process
                self._emits.extendleft(
                    EmitTask(task.spec, (d,), (o,)) for d, o in zip(task.devices, task.origins, strict=True)
                )
                return
            outcome = failed(task, outcome.reason)
        started = time.perf_counter()
        written = self._writers.map(lambda made: self._written(task, made), outcome)
        kept = [(made.origin, records) for made, records in zip(outcome, written, strict=True)]
        self._tally.records += self._store.add(record for _, records in kept for record in records)
        for made in outcome:
            self._tally.spend(made.seconds)
        self._tally.spend({"write": time.perf_counter() - started})
        for origin, records in kept:
            self._tally.done[task.step] += 1
            self._after(self._packages[origin], task.step, records)

    def _written(self, task: Task, made: Made) -> tuple[Record, ...]:
        """Write the files of a package or a measurement; return what is to be recorded."""
        folder = self._packages[made.origin].folder
        try:
            if made.files and task.step is Step.EMIT:
                write_package({name: content.decode() for name, content in made.files.items()}, folder)
            elif made.files:
                write_measured_files(made.files, folder)
        except KgenError as error:
            (lost,) = (one for one in failed(task, error.text()) if one.origin == made.origin)
            return lost.records
        return made.records

    def _after(self, planned: Planned, step: Step, records: Sequence[Record]) -> None:
        """Note how a step of a package ended, and ask for the next one if it ended well."""
        steps = self._steps_of(planned.device)
        self._spent += _expected_seconds(step, planned.device)
        wrong = [record for record in records if record.status is not Status.OK]
        if wrong:
            reason = "\n".join(f"{r.case}: {r.error}" if r.case else f"{r.error}" for r in wrong)
            error = UnsupportedError if wrong[0].status is Status.REFUSED else CheckFailedError
            self._tally.failures.append(Failure(planned.title, step, reason, error.exit_code))
        following = steps[steps.index(step) + 1 :]
        if following and not wrong:
            kernel = records[0].kernel_digest
            assert kernel is not None
            self._next(planned, following[0], kernel)
        elif following:
            self._expected -= sum(_expected_seconds(missed, planned.device) for missed in following)
        self._progress(f"{step} {planned.title}", self._spent, self._expected)

    def _next(self, planned: Planned, step: Step, kernel: str) -> None:
        """Ask for a step of a package, unless it is finished."""
        known = self._known(planned, step, kernel)
        if known:
            self._tally.kept[step] += 1
            self._after(planned, step, known)
        else:
            (self._on_gpu if step.needs_gpu else self._steps).append((step, planned))

    def _known(self, planned: Planned, step: Step, kernel: str) -> tuple[Record, ...]:
        """Return the records of a step that is finished."""
        if step is Step.BENCH:
            return self._finished.bench(planned.origin, kernel, planned.folder)
        found = self._finished.check(planned.origin, kernel, planned.device, on_gpu=step is Step.TEST)
        return () if found is None else (found,)


def _expected_seconds(step: Step, device: Device) -> float:
    simulates = step is Step.CHECK and has_simulator(device.arch)
    return SIMULATION_SECONDS if simulates else EXPECTED_SECONDS[step]


def _files_of(step: Step, folder: Path) -> dict[str, bytes]:
    """Return the files of a package by name: for a measurement what was measured before, too."""
    names = set(file_names(folder))
    if step is Step.BENCH:
        measured = (path for path in (folder / MEASURED).rglob("*") if path.is_file())
        names |= {path.relative_to(folder).as_posix() for path in measured}
    return {name: (folder / name).read_bytes() for name in sorted(names)}


def devices_of(text: str) -> tuple[str, ...]:
    """Return the devices of --targets, names or files; raises where there is none, or two have one name."""
    targets = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not targets:
        raise NoTargetsError(text=text)
    named: dict[str, str] = {}
    for target in targets:
        name = load_device(target).name
        if name in named:
            raise SameDeviceNameError(first=named[name], second=target, name=name)
        named[name] = target
    return targets
