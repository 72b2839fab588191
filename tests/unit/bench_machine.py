"""A made-up machine for the harness: answers in place of the compiler, test_kernel.py and the measuring process."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import bench_reports as made_up
import pytest

import kgen
from kgen.bench import harness, reporting, subject
from kgen.bench.measure import Measured, Request
from kgen.bench.report import Agreement, Gpu, Machine
from kgen.check.evidence import KernelEvidence, MmaSites
from kgen.check.gpu import Gpu as FoundGpu
from kgen.check.on_device import DeviceResult
from kgen.check.package import read_package
from kgen.check.result import CheckResult, VariantEvidence
from kgen.check.toolchain import compiler_versions
from kgen.errors.bench import MeasurementFailedError

H200 = FoundGpu("NVIDIA H200", "sm_90", 132, 150_000_000_000, 232448)
SPEC = """
name: made_up
reference: |
  def product(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
extents: {M: 512, N: 1024, K: 512}
cases:
  small: {}
  large: {M: 4096}
  empty: {M: 256}
targets: [h200]
"""


def emitted(folder: Path, text: str = SPEC) -> Path:
    """Emit a package of three cases; the plan of one says that it has no work, as that of an empty output does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made_up.yaml").write_text(text)
    package = folder / "package"
    kgen.emit(folder / "made_up.yaml", folder=package)
    plan = json.loads((package / "plan.json").read_text())
    plan["work"]["empty"] = {"flops": 0, "bytes_read": 0, "bytes_written": 0}
    (package / "plan.json").write_text(json.dumps(plan))
    return package


def kernel(**fields: Any) -> KernelEvidence:
    """Return the evidence of one kernel function as planned."""
    defaults: dict[str, Any] = {
        "kernel": "gemm",
        "mma": (MmaSites("HGMMA", "64x256x16.F32.BF16", 4),),
        "mma_waits": 2,
        "tma_loads": 2,
        "tma_multicasts": 2,
        "tma_stores": 1,
        "matrix_stores": 8,
        "ffma": 0,
        "spill_loads": 0,
        "spill_stores": 0,
        "instructions": 1000,
        "instructions_digest": "made up",
        "registers": 168,
        "threads": 384,
    }
    return KernelEvidence(**defaults | fields)


class MadeUpMachine:
    """What the steps of a run answer; a test changes the fields before it runs."""

    def __init__(self) -> None:
        self.tested: dict[str, dict[str, Any]] = {}  # by case, over what a right case says
        self.ratios: dict[str, float] = {}
        self.us = 200.0
        self.fails: set[str] = set()  # cases whose measuring process ends
        self.findings: tuple[Any, ...] = ()
        self.code = "made up"
        self.agreement: dict[str, Any] = {}
        self.steps: list[str] = []
        self.requests: list[Request] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "MadeUpMachine":
        """Put it in the place of the real one."""
        for name in ("check_package", "run_on_device"):
            monkeypatch.setattr(harness, name, getattr(self, name))
        monkeypatch.setattr(harness, "Measurer", lambda scratch: nullcontext(self))
        monkeypatch.setattr(subject, "require_gpu", lambda package: H200)
        monkeypatch.setattr(module("kgen.tune"), "require_isa", lambda isa, folder: H200)
        for place in (harness, reporting):
            monkeypatch.setattr(place, "driver_version", lambda: "999.1")
        monkeypatch.setattr(harness, "build_notes", lambda measured, isa: ())
        monkeypatch.setattr(harness, "second_arm", lambda measured, isa: ((), (), ()))
        return self

    def check_package(self, folder: Path) -> CheckResult:
        """Compile nothing."""
        self.steps.append("build")
        package = read_package(folder)
        found = kernel(instructions_digest=self.code)
        variants = tuple(VariantEvidence(e.variant, 1.0, "sm_90a", (found,)) for e in package.expectations)
        return CheckResult(folder, package.name, package.device, package.arch, variants, self.findings, (), False, 1.0)

    def run_on_device(self, folder: Path, arguments: Any, lock: Path) -> DeviceResult:
        """Test nothing."""
        self.steps.append("check")
        words = list(arguments)
        ids = [words[place + 1] for place, word in enumerate(words) if word == "--shape-id"]
        cases = [self._case(case, folder) for case in ids]
        failures = tuple(failure for case in cases for failure in case["failures"])
        report = {"all_pass": not failures, "failures": list(failures), "cases": cases}
        return DeviceResult(folder, H200.name, not failures, failures, report, f"in {folder.resolve()}\nsaid\n")

    def _case(self, case: str, folder: Path) -> dict[str, Any]:
        work: Mapping[str, int] = json.loads((folder / "plan.json").read_text())["work"][case]
        latency = self.us if work["bytes_written"] else None
        defaults = {"id": case, "status": "PASS", "failures": [], "rel_err": 2e-3, "max_abs_err": 0.1}
        return {**defaults, "max_rel_err": 0.01, "latency_us": latency, **self.tested.get(case, {})}

    def measure(self, request: Request, log: Path) -> Measured:
        """Time nothing."""
        self.steps.append(f"bench {request.case}")
        self.requests.append(request)
        if request.case in self.fails:
            raise MeasurementFailedError(case=request.case, reason="killed by SIGSEGV\nand more")
        log.write_text("{}\n")
        found = {"rel_err": 1e-3, "limit": request.limit, "operand_scale": 1.0, "decides": request.decides}
        agreement = Agreement(**{**found, **self.agreement})
        comparison = made_up.comparison(self.ratios.get(request.case, 0.98), kgen_us=self.us)
        gpu = Gpu(name=H200.name, isa="sm_90", compute_units=132, l2_bytes=62_914_560, driver="999.1")
        return Measured(
            machine=Machine(gpu=gpu, python="3.11", versions=compiler_versions()),
            agreement=agreement,
            comparison=None if agreement.decides and agreement.failures else comparison,
            cubins={},
            libraries=(),
        )


def module(name: str) -> ModuleType:
    """Return a module of kgen whose name `kgen` gives to a function."""
    import importlib

    return importlib.import_module(name)
