"""The proof without a GPU: compile every variant of emitted packages for their architecture, and read the result.

The order of a check: read the folder (package), ask the cache, compile in subprocesses (compile_worker), read the
machine code (the back-end's tool chain), compare with the plan (expect). Packages are shared out over `jobs`
subprocesses, each of which imports the DSL once; a package that crashes or hangs its subprocess costs only itself.
"""

import hashlib
import os
import platform
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgen.check.cache import Cache, default_cache_dir, digest_of
from kgen.check.compile_worker import Compiled, CompileWorker
from kgen.check.expect import compare
from kgen.check.hardware import Hardware, arch_of_package, hardware_of, toolchain_of
from kgen.check.package import PackageFolder, read_package
from kgen.check.result import CheckResult, Finding, VariantEvidence
from kgen.check.sass import machine_code_of
from kgen.check.toolchain import installed_version
from kgen.check.toolchains import Toolchain
from kgen.errors.check import CompilerMissingError

LIMIT_SECONDS = 300.0  # for the import of a kernel.py and for each of its variants: they take about a second

# What turns a kernel.py into evidence, with the tool chain's own; a change of any makes every cache entry stale.
_READERS = (
    "compile_process.py",
    "event_process.py",
    "kept_process.py",
    "compile_worker.py",
    "evidence.py",
    "result.py",
)

Progress = Callable[[CheckResult, int, int], None]


@dataclass(frozen=True, slots=True)
class _Job:
    """One package on its way through the workers."""

    index: int
    package: PackageFolder
    hardware: Hardware
    toolchain: Toolchain
    key: str


def check_package(folder: Path, *, cache: Cache | None = None, limit_seconds: float = LIMIT_SECONDS) -> CheckResult:
    """Compile every variant of one package with no GPU and compare what came out with its plan."""
    return check_packages([folder], jobs=1, cache=cache, limit_seconds=limit_seconds)[0]


def check_packages(
    folders: Sequence[Path],
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    cache: Cache | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> tuple[CheckResult, ...]:
    """Check many packages, `jobs` at once (default: the cores there are); results are in the order of `folders`.

    `progress` is called in this thread with each result, how many are done, and how many there are.
    """
    cache = cache or Cache(default_cache_dir() / "check")
    work = _jobs([read_package(folder) for folder in folders], _Tools())
    results: dict[int, CheckResult] = {}

    def finish(job: _Job, compiled: Compiled, from_cache: bool, seconds: float) -> None:
        results[job.index] = _result(job, compiled, from_cache, seconds)
        if progress is not None:
            progress(results[job.index], len(results), len(work))

    missing = []
    for job in work:
        started = time.perf_counter()
        if (stored := cache.read(job.key)) is None:
            _require_compiler(job)
            missing.append(job)
        else:
            finish(job, _from_json(stored), True, time.perf_counter() - started)
    with tempfile.TemporaryDirectory(prefix="kgen-check-", ignore_cleanup_errors=True) as scratch:
        workers = [
            CompileWorker(Path(tempfile.mkdtemp(dir=scratch)), limit_seconds)
            for _ in range(min(jobs or usable_cores(), len(missing)))
        ]
        with closing(_share_out(missing, workers)) as outcomes:
            for job, compiled, seconds in outcomes:
                if compiled.is_complete:
                    cache.write(job.key, asdict(compiled))
                finish(job, compiled, False, seconds)
    return tuple(results[index] for index in range(len(work)))


class PackageChecker:
    """Checks one package after the other in one compile subprocess, which imports the DSL once per ISA."""

    def __init__(self, scratch: Path, *, cache: Cache | None = None, limit_seconds: float = LIMIT_SECONDS) -> None:
        """`scratch` is a private folder that the caller removes."""
        self._cache = cache or Cache(default_cache_dir() / "check")
        self._tools = _Tools()
        self._worker = CompileWorker(scratch, limit_seconds)

    def check(self, folder: Path) -> CheckResult:
        """Compile every variant of one package with no GPU and compare what came out with its plan."""
        (job,) = _jobs([read_package(folder)], self._tools)
        started = time.perf_counter()
        if (stored := self._cache.read(job.key)) is not None:
            return _result(job, _from_json(stored), True, time.perf_counter() - started)
        _require_compiler(job)
        compiled = self._worker.compile(job.package, job.toolchain, job.hardware.isa)
        if compiled.is_complete:
            self._cache.write(job.key, asdict(compiled))
        return _result(job, compiled, False, time.perf_counter() - started)

    def close(self) -> None:
        """End the subprocess."""
        self._worker.close()


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _share_out(jobs: list[_Job], workers: list[CompileWorker]) -> Generator[tuple[_Job, Compiled, float], None, None]:
    """Yield (job, compiled, seconds) as the workers finish; stop them all when the caller or one of them fails."""
    waiting: queue.SimpleQueue[_Job] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[_Job, Compiled, float] | BaseException] = queue.SimpleQueue()
    stopped = threading.Event()
    for job in jobs:
        waiting.put(job)

    def run(worker: CompileWorker) -> None:
        try:
            while not stopped.is_set():
                job = waiting.get_nowait()
                started = time.perf_counter()
                compiled = worker.compile(job.package, job.toolchain, job.hardware.isa)
                done.put((job, compiled, time.perf_counter() - started))
        except queue.Empty:
            pass
        except BaseException as error:
            done.put(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        stopped.set()
        for worker in workers:
            worker.interrupt()
        for thread in threads:
            thread.join()


def _require_compiler(job: _Job) -> None:
    tool = job.toolchain
    if installed_version(name := tool.distribution) is None:
        raise CompilerMissingError(
            folder=job.package.folder, distribution=name, python=sys.executable, extra=tool.extra
        )


class _Tools:
    """The tool chains in use, each found once, and what its evidence is made with."""

    def __init__(self) -> None:
        self._found: dict[type[Toolchain], tuple[Toolchain, dict[str, Any]]] = {}

    def of(self, kind: type[Toolchain]) -> tuple[Toolchain, dict[str, Any]]:
        """Return a tool chain; raises where it misses a tool."""
        if kind not in self._found:
            toolchain = kind()
            self._found[kind] = toolchain, _made_with(toolchain)
        return self._found[kind]


def _jobs(packages: Sequence[PackageFolder], tools: _Tools) -> list[_Job]:
    """Return the jobs of packages; raises where a tool chain of theirs misses a tool."""
    jobs = []
    for index, package in enumerate(packages):
        hardware = hardware_of(package)
        toolchain, made_with = tools.of(toolchain_of(package))
        limits = {name: float(quantity.value) for name, quantity in arch_of_package(package).limits}
        target = {"isa": hardware.isa, "limits": limits, "machine_code": asdict(machine_code_of(hardware.isa))}
        key = digest_of(made_with | target | {"kernel": package.kernel_digest})
        jobs.append(_Job(index, package, hardware, toolchain, key))
    return jobs


def _made_with(toolchain: Toolchain) -> dict[str, Any]:
    here = Path(__file__).parent
    files = (*_READERS, *toolchain.readers)
    return {
        "readers": {name: hashlib.sha256((here / name).read_bytes()).hexdigest() for name in files},
        "python": [sys.version, platform.machine()],
        **toolchain.made_with(),
    }


def _from_json(stored: dict[str, Any]) -> Compiled:
    return Compiled(tuple(VariantEvidence.from_json(row) for row in stored["variants"]))


def _result(job: _Job, compiled: Compiled, from_cache: bool, seconds: float) -> CheckResult:
    package = job.package
    findings = compare(package, job.hardware, compiled.variants)
    if compiled.failure is not None:
        findings = (Finding(None, "import of kernel.py", "VARIANTS and compile_variant", compiled.failure),)
    edited = ("kernel.py was edited since it was emitted; plan.json states what it was",)
    warned = tuple(f"{variant.variant}: {line}" for variant in compiled.variants for line in variant.warnings)
    return CheckResult(
        folder=package.folder,
        name=package.name,
        device=package.device,
        arch=package.arch,
        variants=compiled.variants,
        findings=findings,
        notes=(*(edited if package.is_edited else ()), *warned),
        from_cache=from_cache,
        seconds=seconds,
    )
