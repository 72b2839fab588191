"""How fast kgen compiles: random GEMM specs, each for several devices, loaded, planned, rendered and written.

    python benchmarks/compile_speed.py                          1,000 specs for h200, h20 and mi300x in two processes
    python benchmarks/compile_speed.py --count 50 --processes 1 fewer
    python benchmarks/compile_speed.py --json FILE              and all the numbers
    python benchmarks/compile_speed.py --profile 60             where the time of 60 packages goes, by function

Needs no GPU. Seconds are CPU seconds of the process and all its threads (`time.process_time`), which other work on the
machine does not change; the wall time of the whole is printed beside them. `start` is what a process needs once: the
imports, the rules, the first package of each device. Memory is the resident set after the first specs, and at the
middle and the end of a process's share.
"""

import argparse
import cProfile
import gc
import json
import multiprocessing
import os
import pstats
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gemm_specs import problem

TARGETS = ("h200", "h20", "mi300x")
WARM = 8  # specs of a process before its memory is first looked at
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Package:
    """One package: CPU seconds by stage, or the error that refused it; `load` is charged to a spec's first device."""

    name: str
    device: str
    seconds: dict[str, float]
    error: str | None

    @property
    def total(self) -> float:
        """CPU seconds of all stages."""
        return sum(self.seconds.values())


@dataclass
class Share:
    """What one process did."""

    start_s: float = 0.0  # CPU seconds before the first package
    packages: list[Package] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)  # after the first specs, at the middle, at the end
    peak_mib: float = 0.0
    cpu_s: float = 0.0


def compile_share(indices: range, seed: int, targets: tuple[str, ...], folder: Path) -> Share:
    """Compile the specs of some indices for every target; run by a process of its own."""
    from kgen.pipeline import stage_names

    share = Share()
    _compile(-1, seed, targets, folder)  # the imports, the rules, the templates: once per process
    gc.collect()
    gc.freeze()  # a full collection walks what torch's import made in 0.2 s
    share.start_s = time.process_time()
    looks = {min(WARM, len(indices)) - 1, len(indices) // 2, len(indices) - 1}
    for done, index in enumerate(indices):
        share.packages += _compile(index, seed, targets, folder)
        if done in looks:
            share.rss_mib.append(_resident_mib())
    share.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    share.cpu_s = time.process_time()
    assert all(set(p.seconds) <= {"load", *stage_names(), "write"} for p in share.packages)
    return share


def _compile(index: int, seed: int, targets: tuple[str, ...], folder: Path) -> list[Package]:
    """Write spec `index` to disk, load it and compile it for every target."""
    from kgen.spec.load import load_spec

    drawn = problem(abs(index), seed)
    file = folder / f"{drawn.name}.yaml"
    file.write_text(drawn.text, encoding="utf-8")
    start = time.process_time()
    spec = load_spec(file)
    load = time.process_time() - start
    made = []
    for number, target in enumerate(targets):
        before = {"load": load} if number == 0 else {}
        made.append(_package(spec, target, folder, before))
    return made


def _package(spec: Any, target: str, folder: Path, before: dict[str, float]) -> Package:
    from kgen.errors.base import KgenError
    from kgen.package.write import write_package
    from kgen.pipeline import run
    from kgen.target import load_device

    try:
        done = run(spec, load_device(target), clock=time.process_time)
        start = time.process_time()
        write_package(done.made["render"], folder / target / spec.name)
        seconds = {**before, **done.seconds, "write": time.process_time() - start}
    except KgenError as error:
        return Package(spec.name, target, before, f"{type(error).__name__}: {error}")
    return Package(spec.name, target, seconds, None)


def _resident_mib() -> float:
    """Return the resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


def measure(count: int, seed: int, targets: tuple[str, ...], processes: int, folder: Path) -> dict[str, Any]:
    """Compile all specs and return what the table shows."""
    started = time.perf_counter()
    work = [(range(first, count, processes), seed, targets, folder) for first in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        shares = pool.starmap(compile_share, work, chunksize=1)
    wall = time.perf_counter() - started
    packages = [package for share in shares for package in share.packages]
    made = [package for package in packages if package.error is None]
    return {
        "specs": count,
        "targets": targets,
        "processes": processes,
        "seed": seed,
        "packages": len(made),
        "refused": [f"{p.name} for {p.device}: {p.error}" for p in packages if p.error],
        "wall_s": wall,
        "cpu_s": sum(share.cpu_s for share in shares),
        "start_s": [share.start_s for share in shares],
        "stages": _by_stage(made),
        "package_s": _quantiles([p.total for p in made]),
        "rss_mib": [share.rss_mib for share in shares],
        "peak_mib": [share.peak_mib for share in shares],
        "slowest": [asdict(p) for p in sorted(made, key=lambda p: -p.total)[:5]],
    }


def _by_stage(packages: list[Package]) -> dict[str, dict[str, float]]:
    """Return the sum and the quantiles of the CPU seconds of each stage."""
    stages = list(dict.fromkeys(stage for package in packages for stage in package.seconds))
    return {
        stage: _quantiles([p.seconds[stage] for p in packages if stage in p.seconds])
        for stage in sorted(stages, key=lambda s: -sum(p.seconds.get(s, 0) for p in packages))
    }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    cut = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"sum": sum(seconds), "mean": statistics.fmean(seconds), "p50": cut[49], "p99": cut[98]}


def table(found: dict[str, Any]) -> str:
    """Return the numbers as Markdown."""
    whole = found["package_s"]["sum"]
    lines = ["| stage | CPU s | share | p50 ms | p99 ms |", "|---|---|---|---|---|"]
    for stage, s in (*found["stages"].items(), ("all", found["package_s"])):
        share = f"{s['sum'] / whole:.0%}"
        lines.append(f"| {stage} | {s['sum']:.1f} | {share} | {1e3 * s['p50']:.1f} | {1e3 * s['p99']:.1f} |")
    start = ", ".join(f"{s:.1f}" for s in found["start_s"])
    memory = "; ".join(" -> ".join(f"{m:.0f}" for m in looks) for looks in found["rss_mib"])
    lines += [
        "",
        f"{found['packages']} packages, {len(found['refused'])} refused: {found['wall_s']:.1f} s on the clock in"
        f" {found['processes']} processes, {found['cpu_s']:.1f} s of CPU, of which to start {start}",
        f"memory after {WARM} specs, at the middle, at the end: {memory} MiB",
    ]
    return "\n".join(lines)


def profile(count: int, seed: int, targets: tuple[str, ...], folder: Path) -> None:
    """Print the functions that `count` packages spend their time in, in a process that has started."""
    compile_share(range(2), seed, targets, folder)
    profiler = cProfile.Profile()
    indices = range(2, 2 + -(-count // len(targets)))
    profiler.runcall(compile_share, indices, seed, targets, folder)
    statistics_of = pstats.Stats(profiler)
    for order in ("cumulative", "tottime"):
        statistics_of.sort_stats(order).print_stats(60)


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="specs (default 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", help=f"device; may be repeated (default {' '.join(TARGETS)})")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="a file for all the numbers")
    parser.add_argument("--profile", type=int, metavar="PACKAGES", help="print the functions that take the time")
    parser.add_argument("--out", type=Path, help="a folder for the packages (default: a temporary one)")
    arguments = parser.parse_args()
    targets = tuple(arguments.target or TARGETS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.out or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.profile:
            profile(arguments.profile, arguments.seed, targets, folder)
            return 0
        found = measure(arguments.count, arguments.seed, targets, arguments.processes, folder)
    print(table(found))
    for refusal in found["refused"]:
        print(refusal)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if found["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
