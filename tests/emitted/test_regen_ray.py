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
LIMIT_S = 120.0  # of the start of a node
COUNT_NODES = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False); print(len(ray.nodes()))"


@dataclass(frozen=True)
class LocalCluster:
    """Two nodes: the head's address, and the process groups that they are."""

    address: str
    head: int
    other: int


@contextmanager
def node(*arguments: str) -> Iterator[int]:
    """Start a node, and stop it with all of its processes; yields its process group."""
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *arguments]
    process = subprocess.Popen(
        start, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Yield a cluster of two nodes with a CPU each; the second says that it has an H200."""
    with socket.socket() as free:
        free.bind((HEAD, 0))
        port = free.getsockname()[1]
    address = f"{HEAD}:{port}"
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # Ray's sockets lie below it, and their paths must be short
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        head = stack.enter_context(
            node("--head", f"--node-ip-address={HEAD}", f"--port={port}", "--num-cpus=1", f"--temp-dir={folder}",
                 "--include-dashboard=false")
        )  # fmt: skip
        wait_for_nodes(address, 1)
        h200 = json.dumps({"accelerator_type:H200": 1})
        other = stack.enter_context(
            node(f"--address={address}", f"--node-ip-address={OTHER}", "--num-cpus=1", "--num-gpus=1",
                 f"--resources={h200}")
        )  # fmt: skip
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
            if title.startswith(b"ray::do") and os.getpgid(int(folder.name)) == group:
                found.append(int(folder.name))
    return found


def hopper_specs() -> list[Path]:
    return sorted((ROOT / "specs").glob("*.yaml"))[:30]


def test_a_worker_is_killed_midway_and_everything_is_done(cluster: LocalCluster, tmp_path: Path) -> None:
    specs, by_ray, by_pool = hopper_specs(), tmp_path / "ray", tmp_path / "pool"
    by_ray.mkdir()
    cache = {"KGEN_CACHE_DIR": str(tmp_path / "cache")}
    asked = ("--targets", TARGETS, "--check")
    started = command(specs, by_ray, *asked, "--engine", f"ray://{cluster.address}")
    with (by_ray / "answer").open("w+") as answer:
        process = subprocess.Popen(started, env=environment(**cache), stdout=answer)
        killed = kill_one_midway(process, by_ray / "packages", cluster.other)
        process.wait()
        answer.seek(0)
        found = json.load(answer)
    assert killed, "no worker was there to be killed"
    assert found["failures"] == [] and found["done"] == {"emit": 60, "check": 60}
    other = run(specs, by_pool, *asked, **cache)
    assert other["done"] == found["done"]
    assert packages(by_ray) == packages(by_pool)
    assert records(by_ray) == records(by_pool)


def kill_one_midway(process: subprocess.Popen[bytes], root: Path, group: int) -> bool:
    """Kill a worker of a node once a third of the packages is there."""
    while process.poll() is None:
        if len(list(root.glob("*/*"))) >= 20 and (found := workers_of(group)):
            os.kill(found[0], signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False


def test_what_measures_goes_to_the_accelerator_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    """The second node says that it has an H200 and has none: the refusal shows that a measurement was sent there."""
    (spec,) = [file for file in hopper_specs() if file.stem == "softmax_bf16"] or hopper_specs()[:1]
    found = run([spec], tmp_path, "--targets", TARGETS, "--measure", "--engine", f"ray://{cluster.address}")
    assert found["done"] == {"emit": 2, "bench": 1} and found["not_here"] == ["h20"]
    (failure,) = found["failures"]
    assert failure["step"] == "bench" and "no GPU, and the package is for h200" in failure["reason"]
