"""What a process does with a task: emit, check, test or measure, and say what came of it.

Nothing is written but to a private folder. Whatever goes wrong with one package is a record of it, never an exception.
"""

import json
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kgen.check.compile import PackageChecker
from kgen.check.gpu import find_gpus
from kgen.check.hardware import isa_of, toolchain_of
from kgen.check.on_device import gpu_that_runs
from kgen.check.package import read_package
from kgen.check.result import CheckResult
from kgen.check.simulate_worker import SimulateWorker
from kgen.check.simulated import SimulatedResult, simulate_package
from kgen.errors.regen import OtherKgenError, WrongGpuError
from kgen.golden import as_kgen_error
from kgen.layout import MEASURED
from kgen.package.folder import PLAN_FILE
from kgen.pipeline import run
from kgen.records import Kind, Record, Status, emit_record, measured_records, now
from kgen.regen.failures import failed, refused, short
from kgen.regen.gpus import is_device
from kgen.regen.identity import check_toolchain, emit_toolchain, generator
from kgen.regen.tasks import EmitTask, Made, Origin, PackageTask, Step, Task

RECYCLE_AFTER = 250  # tasks of one process: what libraries keep does not add up
COMPILED, SIMULATED, TESTED = "compiled", "compiled; simulated, not timed", "compiled; test_kernel.py on the GPU"


class Worker:
    """Does one task after the other; the subprocesses that compile and simulate live as long as it does."""

    def __init__(self, scratch: Path) -> None:
        """`scratch` is a private folder that the caller removes."""
        self._scratch = scratch
        self._checker = PackageChecker(scratch)
        self._simulator = SimulateWorker()

    def do(self, task: Task) -> tuple[Made, ...]:
        """Return what was made of each package of a task."""
        if isinstance(task, EmitTask):
            return tuple(_emitted(task))
        started = time.perf_counter()
        try:
            _require_same_kgen(task.origin)
            with self._folder_of(task) as folder:
                records, files = self._later_step(task, folder)
                if not records:
                    return failed(task, "the run left no measurement")
        except Exception as error:
            return failed(task, as_kgen_error(error).text())
        return (Made(task.origin, records, files, {str(task.step): time.perf_counter() - started}),)

    def close(self) -> None:
        """End the subprocesses."""
        self._checker.close()
        self._simulator.close()

    @contextmanager
    def _folder_of(self, task: PackageTask) -> Iterator[Path]:
        """Yield a folder with the files of a task's package, called as the spec."""
        place = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            folder = place / task.origin.spec
            for name, content in task.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            yield folder
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _later_step(self, task: PackageTask, folder: Path) -> tuple[tuple[Record, ...], Mapping[str, bytes]]:
        if task.step is Step.CHECK:
            return (self._checked(task, folder),), {}
        return _on_gpu(task, folder)

    def _checked(self, task: PackageTask, folder: Path) -> Record:
        """Compile and read a package, then simulate it where no GPU of this machine runs it and something else does."""
        compiled = self._checker.check(folder)
        package = read_package(folder)
        simulates = toolchain_of(package).simulates and gpu_that_runs(isa_of(package)) is None
        if not (compiled.ok and simulates):
            return _check_record(task, compiled, COMPILED)
        simulated = simulate_package(folder, self._simulator)
        return _check_record(task, compiled, SIMULATED, simulated.failures, _simulated_figures(simulated))


def _emitted(task: EmitTask) -> Iterator[Made]:
    """Yield the package of each device, or why there is none; one after the other, the trace is made once."""
    for device, origin in zip(task.devices, task.origins, strict=True):
        try:
            _require_same_kgen(origin)
            done = run(task.spec, device, clock=time.process_time)
            files = {name: text.encode() for name, text in done.made["render"].items()}
            plan = json.loads(files[PLAN_FILE])
            others = {"kernel_digest": plan["kernel_digest"], "toolchain": emit_toolchain(), "host": platform.node()}
            yield Made(origin, (emit_record(plan, now(), **origin.fields(), **others),), files, done.seconds)
        except Exception as error:
            yield Made(origin, (refused(origin, as_kgen_error(error)),), {}, {})


def _require_same_kgen(origin: Origin) -> None:
    if origin.kgen != generator():
        raise OtherKgenError(host=platform.node(), there=generator(), asked=origin.kgen)


def _check_record(
    task: PackageTask,
    compiled: CheckResult,
    how: str,
    failures: tuple[str, ...] = (),
    figures: Mapping[str, float] | None = None,
    gpu: str | None = None,
) -> Record:
    found = [str(finding) for finding in compiled.findings] + list(failures)
    return Record(
        **task.origin.fields(),
        kind=Kind.CHECK,
        kernel_digest=json.loads(task.files[PLAN_FILE])["kernel_digest"],
        toolchain=check_toolchain(task.device.arch.backend),
        host=platform.node(),
        gpu=gpu,
        status=Status.FAILED if found else Status.OK,
        error=short("; ".join(found).replace(str(compiled.folder), ".")) or None,
        case=None,
        how=how,
        figures=_code_figures(compiled) | dict(figures or {}),
        plan=None,
        at=now(),
    )


def _code_figures(compiled: CheckResult) -> dict[str, float]:
    """Return what all variants were compiled to: the most registers and smem, sums of sites."""
    kernels = [kernel for variant in compiled.variants for kernel in variant.kernels]
    if not kernels:
        return {"variants": len(compiled.variants)}
    return {
        "variants": len(compiled.variants),
        "registers": max(k.registers for k in kernels),
        "spills": sum(k.spills for k in kernels),
        "smem_bytes": max(k.static_smem_bytes + (k.dynamic_smem_bytes or 0) for k in kernels),
        "mma_sites": sum(site.sites for k in kernels for site in k.mma),
        "instructions": sum(k.instructions for k in kernels),
    }


def _simulated_figures(simulated: SimulatedResult) -> dict[str, float]:
    ran = [case for case in simulated.cases if case.not_simulated is None]
    return {"simulated_cases": len(ran), "compared_elements": sum(case.compared_elements for case in ran)}


def _on_gpu(task: PackageTask, folder: Path) -> tuple[tuple[Record, ...], Mapping[str, bytes]]:
    """Test or measure a package on the GPU that this process sees."""
    from kgen.bench.harness import Asked, Mode, bench

    gpus = [gpu for gpu in find_gpus() if is_device(gpu, task.device)]
    if not gpus:
        found = ", ".join(gpu.name for gpu in find_gpus()) or "no GPU"
        raise WrongGpuError(host=platform.node(), found=found, device=task.device.name)
    mode = Mode.BENCH if task.step is Step.BENCH else Mode.CHECK
    result = bench(folder, Asked(mode=mode, command="kgen regen --measure"))
    if result.report is None:
        failures = () if result.tested is None else result.tested.failures
        return (_check_record(task, result.compiled, TESTED, failures, gpu=gpus[0].name),), {}
    measured = folder / MEASURED
    files = {p.relative_to(measured).as_posix(): p.read_bytes() for p in measured.rglob("*") if p.is_file()}
    return tuple(_located(record, task.origin) for record in measured_records(folder)), files


def _located(record: Record, origin: Origin) -> Record:
    """Return what was read from a report with what the report does not say."""
    return Record.from_json(record.to_json() | origin.fields() | {"host": platform.node()})
