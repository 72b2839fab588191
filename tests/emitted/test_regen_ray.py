"""`kgen regen --engine ray` on a cluster of two local nodes, all on loopback; the test stops what it starts."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from regen_runs import ROOT, command, environment, packages, records, run

pytest.importorskip("ray")
pytestmark = [pytest.mark.emitted, pytest.mark.slow]
HEAD, OTHER = "127.0.0.2", "127.0.0.3"  # Ray would replace 127.0.0.1 by the machine's own address
TARGETS = "h200,h20"
MIDWAY = 6  # packages, of 60
LIMIT_S = 120.0  # of the start of a node
COUNT_NODES = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False); print(len(ray.nodes()))"


@dataclass(frozen=True)
class LocalCluster:
    """Two nodes: the head's address, and the process groups that they are."""

    address: str
    head: int
    other: int


@contextmanager
def node(cache: Path, *arguments: str) -> Iterator[int]:
    """Start a node with one CPU, and stop it with all of its processes; yields its process group."""
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", "--num-cpus=1"]
    here = environment(KGEN_CACHE_DIR=str(cache))
    process = subprocess.Popen(
        [*start, *arguments], env=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def cluster(cache: Path, gpus: int) -> Iterator[LocalCluster]:
    """Yield a cluster of two nodes with a CPU each; the second says that it has an H200, and GPUs that are none."""
    with socket.socket() as free:
        free.bind((HEAD, 0))
        port = free.getsockname()[1]
    address = f"{HEAD}:{port}"
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # Ray's sockets lie below it, and their paths must be short
    first = ("--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false")
    h200 = json.dumps({"accelerator_type:H200": 1})
    second = (f"--address={address}", f"--num-gpus={gpus}", f"--resources={h200}")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        head = stack.enter_context(node(cache, *first, f"--node-ip-address={HEAD}"))
        wait_for_nodes(address, 1)
        other = stack.enter_context(node(cache, *second, f"--node-ip-address={OTHER}"))
        wait_for_nodes(address, 2)
        yield LocalCluster(address, head, other)


def wait_for_nodes(address: str, count: int) -> None:
    started = time.monotonic()
    while True:
        asked = [sys.executable, "-c", COUNT_NODES, address]
        done = subprocess.run(asked, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode == 0 and int(done.stdout) == count:
            return
        assert time.monotonic() - started < LIMIT_S, done.stderr
        time.sleep(1)


def workers_of(group: int) -> list[int]:
    """Return the processes of a node that do a task now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if title.startswith(b"ray::do") and os.getpgid(parent) == group:
                found.append(int(folder.name))
    return found


def hopper_specs() -> list[Path]:
    """Return as many specs as make 60 packages."""
    return sorted((ROOT / "specs").glob("*.yaml"))[:30]


def test_a_worker_is_killed_midway_and_everything_is_done(tmp_path: Path) -> None:
    specs, by_ray, by_pool, cache = hopper_specs(), tmp_path / "ray", tmp_path / "pool", tmp_path / "cache"
    by_ray.mkdir()
    asked = ("--targets", TARGETS, "--check")
    with cluster(cache, gpus=0) as nodes, (by_ray / "answer").open("w+") as answer:
        started = command(specs, by_ray, *asked, "--engine", f"ray://{nodes.address}")
        process = subprocess.Popen(started, env=environment(), stdout=answer)
        killed = kill_one_midway(process, by_ray / "packages", nodes.other)
        process.wait()
        answer.seek(0)
        found = json.load(answer)
    assert killed, "no worker was there to be killed"
    assert found["failures"] == [] and found["done"] == {"emit": 2 * len(specs), "check": 2 * len(specs)}
    other = run(specs, by_pool, *asked, KGEN_CACHE_DIR=str(cache))
    assert other["done"] == found["done"]
    assert packages(by_ray) == packages(by_pool)
    assert records(by_ray) == records(by_pool)


def kill_one_midway(process: subprocess.Popen[bytes], root: Path, group: int) -> bool:
    """Kill a worker of a node once some packages are there."""
    while process.poll() is None:
        if len(list(root.glob("*/*"))) >= MIDWAY and (found := workers_of(group)):
            os.kill(found[0], signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False


def test_what_measures_goes_to_the_accelerator_alone(tmp_path: Path) -> None:
    """The second node says that it has an H200 and has none: the refusal shows that a measurement was sent there."""
    spec = ROOT / "specs" / "softmax_bf16.yaml"
    with cluster(tmp_path / "cache", gpus=1) as nodes:
        found = run([spec], tmp_path, "--targets", TARGETS, "--measure", "--engine", f"ray://{nodes.address}")
    assert found["done"] == {"emit": 2, "bench": 1} and found["not_here"] == ["h20"]
    (failure,) = found["failures"]
    assert failure["step"] == "bench" and "no GPU, and the package is for h200" in failure["reason"]
