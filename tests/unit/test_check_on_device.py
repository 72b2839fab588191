"""Running a package's tests: the verdict of a stand-in test_kernel.py, and refusals where there is no GPU."""

import json
import re
from pathlib import Path

import pytest

from kgen.check import check, on_device
from kgen.check.gpu import Gpu, find_gpus
from kgen.check.on_device import run_on_device
from kgen.errors.check import NoGpuError, NotAPackageError, PlanFileError

H200 = Gpu("NVIDIA H200", "sm_90", 132, 150_000_000_000, 232448)
A100 = Gpu("NVIDIA A100", "sm_80", 108, 80_000_000_000, 166912)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kernel.py").write_text("VARIANTS = ()\n")
    plan = {"name": "p", "target": {"device": "h200", "arch": "sm_90a"}, "evidence": []}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    monkeypatch.setattr(on_device, "find_gpus", lambda: (A100, H200))
    return tmp_path


def script(folder: Path, text: str) -> Path:
    (folder / "test_kernel.py").write_text(text)
    return folder


def test_a_pass_is_read_from_the_last_line(package: Path) -> None:
    line = '[test_kernel] RESULT_JSON={"all_pass": true, "failures": [], "max_abs_err": 0.0}'
    result = run_on_device(script(package, f"import sys\nprint('noise', sys.argv[1:])\nprint('''{line}''')\n"))
    assert result.ok
    assert result.gpu == "NVIDIA H200"
    assert result.report["max_abs_err"] == 0.0
    assert result.to_json()["failures"] == []


def test_failures_and_the_exit_status_are_kept(package: Path) -> None:
    line = '[test_kernel] RESULT_JSON={"all_pass": false, "failures": ["case0: rel_err 0.5"]}'
    result = run_on_device(script(package, f"import sys\nprint('''{line}''')\nsys.exit(1)\n"))
    assert result.failures == ("case0: rel_err 0.5", "test_kernel.py: exit status 1")


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("raise SystemExit('boom')", r"exit status 1\) did not end with a .*\nboom"),
        ("import os; os.abort()", "exit status -6"),
        ("print('[test_kernel] RESULT_JSON={')", "did not end with"),
        ("import time; print('stuck', flush=True); time.sleep(60)", "ran out of time.*\nstuck"),
    ],
)
def test_no_verdict_is_a_failure(package: Path, text: str, failure: str) -> None:
    result = run_on_device(script(package, text), limit_seconds=2.0)
    assert not result.ok
    assert re.search(failure, result.failures[0])


def test_a_script_that_says_pass_and_exits_badly_fails(package: Path) -> None:
    line = '[test_kernel] RESULT_JSON={"all_pass": true, "failures": []}'
    result = run_on_device(script(package, f"import sys\nprint('''{line}''')\nsys.exit(3)\n"))
    assert result.failures == ("test_kernel.py: exit status 3",)


@pytest.mark.parametrize(("gpus", "found"), [((), "no GPU"), ((A100,), r"NVIDIA A100 \(sm_80\)")])
def test_without_a_gpu_that_runs_it_the_refusal_names_compile_only(
    package: Path, monkeypatch: pytest.MonkeyPatch, gpus: tuple[Gpu, ...], found: str
) -> None:
    monkeypatch.setattr(on_device, "find_gpus", lambda: gpus)
    with pytest.raises(NoGpuError, match=f"a GPU with sm_90a; this machine has {found}") as refusal:
        run_on_device(package)
    assert refusal.value.exit_code == 4
    assert f"`kgen check {package} --compile-only`" in str(refusal.value)
    with pytest.raises(NoGpuError):
        check(package)


def test_a_plan_that_contradicts_the_device_file_is_refused(package: Path) -> None:
    plan = {"name": "p", "target": {"device": "h200", "arch": "gfx942"}, "evidence": []}
    (package / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(PlanFileError, match=r"target\.arch is 'gfx942', but the device 'h200' is 'sm_90a'"):
        run_on_device(package)


def test_a_package_without_its_test_is_refused(package: Path) -> None:
    with pytest.raises(NotAPackageError, match=r"test_kernel\.py is missing"):
        run_on_device(package)


def test_code_for_an_arch_runs_on_its_isa_only() -> None:
    assert H200.runs("sm_90a") and H200.runs("sm_90")
    assert not A100.runs("sm_90a") and not H200.runs("sm_100a")
    mi300 = Gpu("AMD", "gfx942", 304, 1, 65536)
    assert mi300.runs("gfx942") and not mi300.runs("gfx950")


def test_amd_gpus_are_read_from_the_kernel_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    nodes = tmp_path / "class/kfd/kfd/topology/nodes"
    cpu, gpu = nodes / "0", nodes / "1"
    (gpu / "mem_banks/0").mkdir(parents=True)
    cpu.mkdir(parents=True)
    (cpu / "properties").write_text("cpu_cores_count 64\ngfx_target_version 0\n")
    text = "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nlds_size_in_kb 64\n"
    text += "device_id 29857\nlocation_id 49408\n"
    (gpu / "properties").write_text(text)
    (gpu / "mem_banks/0/properties").write_text("heap_type 1\nsize_in_bytes 206141652992\n")
    name = "AMD GPU gfx942 (device id 0x74a1)"
    assert find_gpus(tmp_path)[-1] == Gpu(name, "gfx942", 304, 206141652992, 65536, "0000:C1:00.0")
    assert not any(found.isa.startswith("gfx") for found in find_gpus(tmp_path / "none"))
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")  # torch would see none
    assert not any(found.isa.startswith("gfx") for found in find_gpus(tmp_path))
