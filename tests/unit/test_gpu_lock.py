"""The lock by which those who time on one GPU take turns, and the emitted test's part in it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_test_package import arguments_of, load_test, package, run

from kgen.bench.gpu_lock import GpuLock, lock_of
from kgen.check.gpu import Gpu

HOLDER = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT)
fcntl.flock(descriptor, int(sys.argv[2]))
print("holds", flush=True)
time.sleep(60)
"""


def can_lock(path: Path, how: int) -> bool:
    """Whether the lock could be had right now."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_many_work_beside_each_other_and_one_times_alone(tmp_path: Path) -> None:
    lock = GpuLock(tmp_path / "gpu.lock")
    with lock.shared(), lock.shared():
        assert can_lock(lock.path, fcntl.LOCK_SH) and not can_lock(lock.path, fcntl.LOCK_EX)
    with lock.alone():
        assert not can_lock(lock.path, fcntl.LOCK_SH)
    assert can_lock(lock.path, fcntl.LOCK_EX)


def test_whoever_dies_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    command = [sys.executable, "-c", HOLDER, str(path), str(int(fcntl.LOCK_EX))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"holds\n"
        assert not can_lock(path, fcntl.LOCK_SH)
        holder.kill()
        holder.wait()
        with GpuLock(path).alone():
            pass


def test_a_file_that_may_only_be_read_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch(0o444)
    with GpuLock(path).alone():
        assert not can_lock(path, fcntl.LOCK_SH)


def test_each_gpu_has_a_lock_of_its_own() -> None:
    first, second = (Gpu("NVIDIA H200", "sm_90", 132, 1, 232448, address=f"0000:{bus}:00.0") for bus in ("1B", "43"))
    assert lock_of(first).path != lock_of(second).path
    assert lock_of(first).path.name == "kgen-gpu-0000-1B-00.0.lock"


def test_the_emitted_test_shares_the_gpu_and_times_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_test(package(tmp_path), monkeypatch)
    path = tmp_path / "gpu.lock"
    arguments = arguments_of(module, "--gpu-lock", str(path))
    arguments.gpu_lock = os.open(path, os.O_RDONLY | os.O_CREAT)
    try:
        module.take_turn(arguments, fcntl.LOCK_SH)
        assert can_lock(path, fcntl.LOCK_SH) and not can_lock(path, fcntl.LOCK_EX)
        module.take_turn(arguments, fcntl.LOCK_EX)
        assert not can_lock(path, fcntl.LOCK_SH)
    finally:
        os.close(arguments.gpu_lock)


def test_the_wait_of_an_emitted_test_is_not_part_of_its_time(tmp_path: Path) -> None:
    """A case that may take 6 s waits 8 s for others, and passes."""
    path = package(tmp_path) / "gpu.lock"
    command = [sys.executable, "-c", HOLDER.replace("60", "8"), str(path), str(int(fcntl.LOCK_EX))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"holds\n"
        done = run(tmp_path, "--shape-id", "base", "--gpu-lock", str(path), limit_s=6)
        assert holder.poll() == 0, "the test did not wait"
    assert done.result["all_pass"] is True, done.output
