"""`kgen regen` with its pool: workers that are killed, a run that is killed or interrupted, and going on from there."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from regen_runs import command, environment, packages, records, run, write_specs

from kgen.api import load_spec
from kgen.records import Status
from kgen.regen.identity import origin_of
from kgen.regen.pool import ATTEMPTS, Pool
from kgen.regen.tasks import EmitTask, Lost
from kgen.target import load_device

BODIES = [f"torch.relu(x) * {number}" for number in range(2, 32)]  # enough for a run to be ended in their midst
LIMIT_S = 120.0
ASKED = ("--targets", "h200", "--processes", "1")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with closing(Pool(1, scratch)) as found:
        yield found


def task(folder: Path) -> EmitTask:
    (file,) = write_specs(folder, ["x + 1"])
    spec, device = load_spec(file), load_device("h200")
    return EmitTask(spec, (device,), (origin_of(spec, device),))


def kill_worker(pool: Pool) -> None:
    """Kill the process of the pool's only seat."""
    (seat,) = pool._seats
    assert seat.process is not None and seat.process.pid is not None
    os.kill(seat.process.pid, signal.SIGKILL)


def test_a_process_that_is_killed_costs_nothing_the_first_time(pool: Pool, tmp_path: Path) -> None:
    pool.start(task(tmp_path))
    assert pool.is_busy and not pool.has_room()
    kill_worker(pool)
    done = pool.wait()
    assert not isinstance(done.outcome, Lost)
    assert [record.status for record in done.outcome[0].records] == [Status.OK]
    assert pool.has_room() and not pool.is_busy


@pytest.mark.parametrize(("processes", "seats"), [(1, 1), (4, 1), (8, 2), (16, 4), (128, 4)])
def test_each_gpu_has_seats_where_there_are_cores(
    processes: int, seats: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices share the GPUs, and so their seats."""
    gpus = ({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"})
    monkeypatch.setattr("kgen.regen.pool.gpus_of", lambda device: gpus)
    with closing(Pool(processes, tmp_path)) as found:
        assert found.gpus(load_device("h200")) == found.gpus(load_device("h100")) == 2
        shown = [seat.environment["CUDA_VISIBLE_DEVICES"] for seat in found._seats if seat.environment]
        assert sorted(shown) == ["0"] * seats + ["1"] * seats


def test_a_task_whose_process_ends_each_time_is_lost(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = pool._send

    def send_and_kill(seat: object) -> None:
        send(seat)  # type: ignore[arg-type]
        kill_worker(pool)

    monkeypatch.setattr(pool, "_send", send_and_kill)
    pool.start(task(tmp_path))
    done = pool.wait()
    assert isinstance(done.outcome, Lost)
    assert f"{ATTEMPTS} times in a row (killed by SIGKILL)" in done.outcome.reason


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Return specs, and where a run that nobody ended left their packages and records."""
    specs = write_specs(tmp_path_factory.mktemp("specs"), BODIES)
    out = tmp_path_factory.mktemp("whole")
    assert run(specs, out, *ASKED)["done"] == {"emit": len(specs)}
    return specs, out


def hear_interrupts() -> None:
    """Undo what a shell does to its background jobs: they, and all that they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_midway(started: list[str], out: Path, kind: signal.Signals) -> tuple[int, str]:
    """Start a run, send it a signal when its first package is there, and return how it ended and what it said."""
    process = subprocess.Popen(
        started,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    begun = time.monotonic()
    while next((out / "packages").glob("*/*/kernel.py"), None) is None:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < LIMIT_S
        time.sleep(0.005)
    process.send_signal(kind)
    said, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, said


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_goes_on_to_the_same_packages_and_records(
    kind: signal.Signals, undisturbed: tuple[list[Path], Path], tmp_path: Path
) -> None:
    (specs, whole), ended = undisturbed, tmp_path
    code, said = interrupt_midway(command(specs, ended, *ASKED), ended, kind)
    if kind is signal.SIGINT:
        answer = json.loads(said)
        assert code == 130 and answer["interrupted"] and answer["done"].get("emit", 0) < len(BODIES)
    else:
        assert code == -signal.SIGKILL
    left = run(specs, ended, *ASKED)
    assert left["ok"] and left["done"]["emit"] + left["finished_before"].get("emit", 0) == len(specs)
    assert packages(ended) == packages(whole)
    assert records(ended) == records(whole)


def test_no_process_outlives_a_killed_driver(tmp_path: Path) -> None:
    specs, out = write_specs(tmp_path, BODIES), tmp_path / "out"
    out.mkdir()
    marked = environment() | {"KGEN_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen(
        command(specs, out, "--targets", "h200", "--processes", "2"),
        env=marked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    begun = time.monotonic()
    while len(with_mark(tmp_path)) < 4 and process.poll() is None and time.monotonic() - begun < LIMIT_S:
        time.sleep(0.05)  # the driver, the fork server and two workers, at least
    assert process.poll() is None, "the run ended before it had its workers"
    process.kill()
    process.wait()
    begun = time.monotonic()
    while (left := with_mark(tmp_path)) and time.monotonic() - begun < LIMIT_S:
        time.sleep(0.05)
    assert not left, f"{sys.executable} runs on as {left}"


def with_mark(mark: Path) -> list[int]:
    """Return the processes whose environment has the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"KGEN_TEST_MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def test_an_engine_that_is_none_is_refused(tmp_path: Path) -> None:
    found = run(write_specs(tmp_path, ["x + 1"]), tmp_path / "out", "--engine", "slurm")
    assert found["error"] == "UnknownEngineError" and found["exit_code"] == 2
