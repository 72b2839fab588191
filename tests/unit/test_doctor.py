"""The diagnosis: complete, serialisable, made without importing what it looks at."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kgen import doctor
from kgen.check.gpu import Gpu
from kgen.check.match import match_gpus
from kgen.check.probe import Probe
from kgen.doctor import Diagnosis, diagnose, doctor_table
from kgen.target import all_devices

ROOT = Path(__file__).resolve().parents[2]
H200 = Gpu("NVIDIA H200", "sm_90", 132, 150_754_820_096, 232448)


def of_gpus(monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> Diagnosis:
    monkeypatch.setattr(doctor, "find_gpus", lambda: gpus)
    return diagnose()


def test_says_what_is_here_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.13.0+cpu", "nvidia-cutlass-dsl": "4.8.1"}
    monkeypatch.setattr(doctor, "installed_version", versions.get)
    monkeypatch.setattr(doctor, "find_tool", lambda name: None)
    diagnosis = of_gpus(monkeypatch)
    here = {component.name: component.version for component in diagnosis.components}
    assert here["torch"] == "2.13.0+cpu" and here["nvidia-cutlass-dsl"] == "4.8.1"
    assert here["nvdisasm"] is None and here["flydsl"] is None
    lacks = {item.what.split(":")[0]: item.remedy for item in diagnosis.missing}
    assert lacks["flydsl"] == "pip install 'kgen[cdna]'"
    assert lacks["nvdisasm"] == "pip install 'kgen[hopper]'"
    assert "a GPU" in lacks and "torch" not in lacks


def test_a_gpu_with_a_cpu_build_of_torch_lacks_the_right_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed_version", {"torch": "2.13.0+cpu"}.get)
    diagnosis = of_gpus(monkeypatch, H200)
    assert any("torch 2.13.0+cpu is built without GPU support" in item.what for item in diagnosis.missing)
    assert not any(item.what.startswith("a GPU") for item in diagnosis.missing)


@pytest.mark.parametrize(
    ("gpu", "device"),
    [
        (H200, "h200"),
        (Gpu("NVIDIA H20", "sm_90", 78, 102_000_000_000, 232448), "h20"),
        (Gpu("NVIDIA H200", "sm_90", 16, 18_000_000_000, 232448), None),
        (Gpu("NVIDIA B200", "sm_100", 148, 190_000_000_000, 232448), None),
    ],
)
def test_a_gpu_is_matched_by_what_the_driver_measures(gpu: Gpu, device: str | None) -> None:
    (match,) = match_gpus([gpu], all_devices())
    assert match.device == device


def test_an_unknown_gpu_is_said_to_lack_a_device_file(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = of_gpus(monkeypatch, Gpu("NVIDIA B200", "sm_100", 148, 190_000_000_000, 232448))
    assert any(item.what == "a device file for NVIDIA B200 (sm_100, 148 units)" for item in diagnosis.missing)


def test_is_json_and_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed_version", {"torch": "2.13.0"}.get)
    diagnosis = of_gpus(monkeypatch, H200)
    assert json.loads(json.dumps(diagnosis.to_json()))["gpus"][0]["gpu"]["name"] == "NVIDIA H200"
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(doctor_table(diagnosis))
    text = console.export_text()
    assert "NVIDIA H200" in text and "pip install 'kgen[cdna]'" in text


def test_what_was_tried_out_and_does_not_work_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = (Probe("flydsl for gfx942", "compiles and is read, 1.0 s"), Probe("flydsl for gfx950", "no", "it aborts"))
    monkeypatch.setattr(doctor, "probe_toolchains", lambda: probes)
    monkeypatch.setattr(doctor, "find_gpus", lambda: (H200,))
    lacks = {item.what: item.remedy for item in diagnose(tries_out=True).missing}
    assert lacks["flydsl for gfx950: it aborts"] == "pip install 'kgen[cdna]'"
    assert not any("gfx942" in what for what in lacks)
    assert not diagnose().probes


def test_another_flydsl_than_the_one_kgen_reads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed_version", {"flydsl": "0.6.0"}.get)
    (line,) = [item.what for item in of_gpus(monkeypatch, H200).missing if item.what.startswith("flydsl 0.5.0")]
    assert line == "flydsl 0.5.0: kgen reads private parts of it, and 0.6.0 is installed"


def test_imports_neither_torch_nor_a_dsl() -> None:
    code = (
        "import sys, kgen.doctor; kgen.doctor.diagnose();"
        "print(sorted({'torch', 'cutlass', 'flydsl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
