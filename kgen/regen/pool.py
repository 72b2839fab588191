"""The processes of this machine, in which tasks are done; one that is killed costs the task it had, once.

Each has a pipe and at most one task. It ends after some tasks, and a fresh one takes its place: what libraries keep
does not add up. The processes come from a fork server that has imported what is slow to import, and die with kgen.
"""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from kgen.check.command import ending_of
from kgen.check.compile_runner import die_with_parent
from kgen.regen.gpus import gpus_of
from kgen.regen.tasks import Done, Lost, Made, PackageTask, Task
from kgen.regen.worker import RECYCLE_AFTER, Worker
from kgen.target import Device

ATTEMPTS = 2  # a process can be killed for what another one did to the machine
# A GPU has that many packages at once where there are cores for it: one is timed, alone, while others compile.
MOST_SEATS_OF_GPU, CORES_OF_SEAT = 4, 4
_PRELOADED = (
    "kgen.regen.worker",
    "kgen.frontend.trace",
    "kgen.frontend.lower",
    "kgen.planning.plan_program",
    "kgen.backends.registry",
    "kgen.package.files",
)


@dataclass(slots=True)
class _Seat:
    """A place where one process after the other does tasks; the environment shows a GPU, or is empty."""

    environment: Mapping[str, str]
    process: BaseProcess | None = None
    pipe: "Connection[Task, tuple[Made, ...]] | None" = None
    task: Task | None = None
    attempt: int = 0
    tasks_done: int = 0


class Pool:
    """An engine: takes tasks while there is room, and tells of each when it is done."""

    def __init__(self, processes: int, scratch: Path) -> None:
        """`scratch` is a private folder that the caller removes."""
        self._scratch = scratch
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(_PRELOADED))
        self._cpu_seats = [_Seat({}) for _ in range(processes)]
        self._seats_of_gpu = max(1, min(MOST_SEATS_OF_GPU, processes // CORES_OF_SEAT))
        self._gpu_seats: list[_Seat] = []
        self._environments: dict[str, tuple[Mapping[str, str], ...]] = {}  # device -> those that show its GPUs

    def gpus(self, device: Device) -> int:
        """Return how many GPUs a device's packages can be measured on."""
        self._seats_for(device)
        return len(self._environments[device.name])

    def has_room(self, device: Device | None = None) -> bool:
        """Whether a task can be started now: without a GPU, or on one of a device."""
        return any(seat.task is None for seat in self._seats_for(device))

    @property
    def is_busy(self) -> bool:
        """Whether any task is being done."""
        return any(seat.task is not None for seat in self._seats)

    def start(self, task: Task) -> None:
        """Start a task; there is room for it."""
        device = task.device if isinstance(task, PackageTask) and task.step.needs_gpu else None
        seat = next(seat for seat in self._seats_for(device) if seat.task is None)
        seat.task, seat.attempt = task, 1
        self._send(seat)

    def wait(self) -> Done:
        """Wait for the end of a task."""
        while True:
            busy = {seat.pipe: seat for seat in self._seats if seat.task is not None and seat.pipe is not None}
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                if (done := self._received(busy[pipe])) is not None:
                    return done

    def close(self) -> None:
        """End all processes at once, whatever they do."""
        for seat in self._seats:
            if seat.process is not None:
                seat.process.kill()
        for seat in self._seats:
            self._leave(seat)

    @property
    def _seats(self) -> list[_Seat]:
        return self._cpu_seats + self._gpu_seats

    def _seats_for(self, device: Device | None) -> list[_Seat]:
        """Return the seats without a GPU, or at a device's GPUs; devices may share those."""
        if device is None:
            return self._cpu_seats
        if device.name not in self._environments:
            self._environments[device.name] = gpus_of(device)
        environments = self._environments[device.name]
        taken = [seat.environment for seat in self._gpu_seats]
        fresh = [environment for environment in environments if environment not in taken]
        self._gpu_seats += [_Seat(environment) for environment in fresh for _ in range(self._seats_of_gpu)]
        return [seat for seat in self._gpu_seats if seat.environment in environments]

    def _received(self, seat: _Seat) -> Done | None:
        """Return what came of a seat's task, or None where it is tried again."""
        assert seat.pipe is not None and seat.task is not None
        task = seat.task
        try:
            outcome: tuple[Made, ...] | Lost = seat.pipe.recv()
        except (EOFError, OSError):
            outcome = self._lost(seat)
            if seat.attempt < ATTEMPTS:
                seat.attempt += 1
                self._send(seat)
                return None
        seat.task = None
        seat.tasks_done += 1
        if seat.tasks_done >= RECYCLE_AFTER:
            self._leave(seat)
        return Done(task, outcome)

    def _lost(self, seat: _Seat) -> Lost:
        """Return how the process of a seat ended."""
        process = seat.process
        self._leave(seat)
        status = None if process is None else process.exitcode
        ending = "its pipe was closed" if status is None else ending_of(status)
        return Lost(f"the process that did it ended, {ATTEMPTS} times in a row ({ending})")

    def _send(self, seat: _Seat) -> None:
        """Give a seat's task to its process, to a fresh one where that is gone."""
        assert seat.task is not None
        if seat.pipe is not None:
            try:
                seat.pipe.send(seat.task)
                return
            except OSError:
                self._leave(seat)
        self._occupy(seat)
        assert seat.pipe is not None
        with suppress(OSError):  # it ended already: the reader of its answer will see that
            seat.pipe.send(seat.task)

    def _occupy(self, seat: _Seat) -> None:
        here, there = self._context.Pipe()
        process = self._context.Process(target=serve, args=(there, dict(seat.environment), self._scratch), daemon=True)
        process.start()
        there.close()
        seat.process, seat.pipe, seat.tasks_done = process, here, 0

    def _leave(self, seat: _Seat) -> None:
        """Let the process of a seat end, which it does when its pipe is closed."""
        if seat.pipe is not None:
            seat.pipe.close()
        if seat.process is not None:
            seat.process.join()
        seat.process = seat.pipe = None


def serve(pipe: "Connection[tuple[Made, ...], Task]", environment: Mapping[str, str], scratch: Path) -> None:
    """Do what comes through a pipe until it is closed: the main function of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for kgen, which ends this process
    die_with_parent()
    os.environ.update(environment)
    worker = Worker(Path(tempfile.mkdtemp(dir=scratch)))
    try:
        while True:
            pipe.send(worker.do(pipe.recv()))
    except (EOFError, OSError):
        pass
    finally:
        worker.close()
