"""Child processes that run the functions of a script under a real time limit: a hang in the driver costs one job.

A script names its jobs; each is a function of the script itself and its JSON arguments, and returns a JSON object.
`python workers.py SCRIPT` is the child: one request a line on standard input, one answer a line on standard output.
After a failure the child is replaced, since a CUDA error stays with the process that made it.
"""

import importlib.util
import json
import os
import queue
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from kgen.check.compile_runner import die_with_parent
from kgen.check.event_process import EventProcess, ProcessEnded
from kgen.errors.check import RunnerFailedError

ROOT = Path(__file__).resolve().parents[2]


class JobFailedError(Exception):
    """A job raised, ran out of time or took its process down; the text says which."""


@dataclass(frozen=True, slots=True)
class Job:
    """One call of a function of the script."""

    label: str
    function: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: its result, or why there is none."""

    job: Job
    result: dict[str, Any] | None
    failure: str | None
    seconds: float


class Worker:
    """One child process, started at the first request and again after a failure.

    It dies with the thread that asked first, so that none outlives a killed run.
    """

    def __init__(self, script: Path) -> None:
        self._script = script
        self._process: EventProcess | None = None

    def ask(self, job: Job, limit_seconds: float) -> dict[str, Any]:
        """Run a job in the child and return its result; raises `JobFailedError`."""
        try:
            process = self._running()
            process.send({"function": job.function, "arguments": job.arguments})
            answer = process.next_event(limit_seconds)
        except RunnerFailedError as error:
            self._process = None  # it closed itself
            raise JobFailedError(str(error)) from error
        except ProcessEnded as error:
            raise self._ended(error.ending) from error
        if "failure" in answer:
            self.close()
            raise JobFailedError(answer["failure"])
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """Kill the child and whatever it started."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _running(self) -> EventProcess:
        if self._process is None:
            command = [sys.executable, __file__, str(self._script)]
            stderr = tempfile.TemporaryFile()  # noqa: SIM115 (the process closes it)
            self._process = EventProcess(command, child_environment(), stderr)
            self._process.wait_until_up()
        return self._process

    def _ended(self, how: str) -> JobFailedError:
        assert self._process is not None
        tail = self._process.stderr_tail(800)
        self.close()
        return JobFailedError(f"the process ended: {how}\n{tail}".strip())


def child_environment() -> dict[str, str]:
    """Return the environment of a child: this checkout on the path, one CPU thread, code for the GPU under test."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUTE_DSL_ARCH": "sm_90a"}


def run_jobs(
    script: Path,
    jobs: Sequence[Job],
    processes: int,
    limit_seconds: float,
    progress: Callable[[Outcome, int], None] | None = None,
) -> tuple[Outcome, ...]:
    """Share the jobs out over child processes; the outcomes are in the order of the jobs."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(jobs)):
        waiting.put(index)
    done: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()

    def serve() -> None:
        worker = Worker(script)
        try:
            while True:
                index = waiting.get_nowait()
                done.put((index, attempt(worker, jobs[index], limit_seconds)))
        except queue.Empty:
            pass
        finally:
            worker.close()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(processes, len(jobs)))]
    for thread in threads:
        thread.start()
    outcomes: dict[int, Outcome] = {}
    for count in range(1, len(jobs) + 1):
        index, outcome = done.get()
        outcomes[index] = outcome
        if progress is not None:
            progress(outcome, count)
    for thread in threads:
        thread.join()
    return tuple(outcomes[index] for index in range(len(jobs)))


def attempt(worker: Worker, job: Job, limit_seconds: float) -> Outcome:
    """Ask a worker and return the outcome, whatever happens."""
    started = time.perf_counter()
    try:
        result, failure = worker.ask(job, limit_seconds), None
    except Exception as error:
        result, failure = None, str(error) or type(error).__name__
    return Outcome(job, result, failure, time.perf_counter() - started)


def load_script(path: Path, name: str) -> ModuleType:
    """Import a Python file under a name of its own, with its folder on the path."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _answer_to(script: ModuleType, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": getattr(script, request["function"])(**request["arguments"])}
    except BaseException as error:
        words = "".join(traceback.format_exception_only(error)).strip()
        frames = "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()
        return {"failure": f"{words[:1200]}\n{frames[-1200:]}"}


def main() -> None:
    """Answer requests until standard input ends; what a job prints goes to standard error."""
    die_with_parent()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    script = load_script(Path(sys.argv[1]).resolve(), "worked_script")
    for answer in chain([{"result": {}}], (_answer_to(script, json.loads(line)) for line in sys.stdin)):
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
