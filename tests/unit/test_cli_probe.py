"""`kgen probe` as a user runs it, with a driver and a measuring process that are made up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, kgen, kgen_json, run_python
from probe_machine import H200, MI300X, events_of

import kgen.probe.measure as measure_module
from kgen.cli import run
from kgen.errors.probe import (
    DriverSaysTooLittleError,
    NoGpuToProbeError,
    NotAProbedFileError,
    ProbedIsaError,
    ProbeFileNameError,
)
from kgen.probe import probe as probe_module
from kgen.probe.driver import Facts
from kgen.probe.probe import Probed, probe
from kgen.target import load_device

MACHINE = """
import json, sys
sys.path.insert(0, {tests!r})
from probe_machine import {facts}, events_of
from kgen.probe import measure, probe
probe.find_facts = lambda: ({facts},)
lines = [json.dumps(e) for e in ({{"event": "ready"}}, *events_of({facts}{fields}), {{"event": "done"}})]
measure.COMMAND = (sys.executable, "-c", "input(); print(chr(10).join(" + repr(lines[1:]) + "))")
measure.COMMAND = (sys.executable, "-c", "print(" + repr(lines[0]) + ", flush=True); " + measure.COMMAND[2])
from kgen.cli import main
main()
"""


def on_machine(folder: Path, *arguments: str, facts: str = "H200", fields: str = "") -> Any:
    """Run kgen in a process whose drivers show a made-up GPU."""
    code = MACHINE.format(tests=str(Path(__file__).parent), facts=facts, fields=fields)
    return run_python(code, folder, *arguments)


def test_a_probed_gpu_is_a_target_at_once(tmp_path: Path) -> None:
    done = on_machine(tmp_path, "probe", "-o", "new_gpu.yaml")
    assert done.returncode == 0, done.stderr
    assert "torch is imported" in done.stderr and "memory" in done.stderr
    assert "against the shipped h200" in done.stdout and "+8.2 %" in done.stdout
    assert "wrote new_gpu.yaml: `kgen emit SPEC --target new_gpu.yaml` plans for it" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["new_gpu.yaml"]
    solved = kgen_json(tmp_path, "solve", "--gemm", "4096,4096,4096", "--target", "new_gpu.yaml", "--top", "1")
    assert solved["ok"] and len(solved["results"]) == 1
    spec = ROOT / "specs" / "gemm_bf16.yaml"
    emitted = kgen(tmp_path, "emit", str(spec), "--target", "new_gpu.yaml")
    assert emitted.returncode == 0, emitted.stderr
    plan = json.loads((tmp_path / "generated/new_gpu/gemm_bf16/plan.json").read_text())
    assert plan["target"]["device"] == "new_gpu"
    test = (tmp_path / "generated/new_gpu/gemm_bf16/test_kernel.py").read_text()
    assert "PEAK_FLOPS = 1.071e15  # bf16 products, dense [probe]" in test
    assert "measured.copy" not in (tmp_path / "generated/new_gpu/gemm_bf16/README.md").read_text()


def test_json_has_everything_and_no_place_in_the_machine(tmp_path: Path) -> None:
    done = on_machine(tmp_path, "probe", "--json", facts="MI300X", fields=", rates={'bf16': 640.0, 'fp32': 120.0}")
    answer = json.loads(done.stdout)
    assert answer["ok"] and answer["exit_code"] == 0 and answer["file"] is None
    assert answer["device"]["probe"]["gpu"] == "AMD Instinct MI300X" and answer["shipped"] == "mi300x"
    assert answer["taken_over_from"] == "mi300x" and answer["driver"]["memory_bus_bits"] == 8192
    assert answer["device"]["quantities"]["measured.bf16"]["spread"]["rounds"] == 24
    assert {"measured.l2_copy_bandwidth", "dense_peak.fp8"} <= {item["name"] for item in answer["missing"]}
    assert any(d["name"] == "quantities.memory_bandwidth" and d["percent"] for d in answer["differences"])
    assert answer["text"].startswith("# Written by `kgen probe`.") and str(tmp_path) not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_the_exit_code_is_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "find_facts", lambda: ())
    with pytest.raises(NoGpuToProbeError, match=r"this machine has none: .*\n  = run it on the machine of the GPU"):
        probe(None, lambda step: None)
    assert run(["probe"]) == 4


@pytest.mark.parametrize("name", ["H100.yaml", "new.yml", "a-b.yaml", ".yaml", "none/new.yaml"])
def test_a_name_that_no_device_can_have_is_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    with pytest.raises(ProbeFileNameError, match="is no name of a device file\n  = lower-case letters, digits and _"):
        probe(tmp_path / name, lambda step: pytest.fail("something ran"))


def test_only_a_probes_file_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up(monkeypatch, H200)
    file = tmp_path / "new_gpu.yaml"
    made(file)
    first = file.read_text()
    made(file)
    assert file.read_text() == first and load_device(file).probe is not None
    mine = tmp_path / "mine.yaml"
    for text in ("title: by hand\n", (ROOT / "targets/sm90a/devices/h200.yaml").read_text(), "\x00"):
        mine.write_text(text)
        with pytest.raises(NotAProbedFileError, match=r"mine\.yaml is there, and no probe wrote it\n  = name another"):
            made(mine)
        assert mine.read_text() == text


def made_up(monkeypatch: pytest.MonkeyPatch, facts: Facts) -> Any:
    monkeypatch.setattr(probe_module, "find_facts", lambda: (facts,))
    events = measure_module.measurement_of(events_of(facts))
    monkeypatch.setattr(probe_module, "measure", lambda facts, request, step: events)

    def run_probe(out: Path | None) -> Probed:
        return probe(out, lambda step: None)

    return run_probe


def test_a_gpu_of_no_known_name_has_nothing_to_differ_from(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up(monkeypatch, replace(MI300X, name="AMD Instinct MI399"))(None)
    assert found.shipped is None and found.differences == () and found.described.nearest == "mi300x"


def test_what_no_file_can_come_of_is_refused_before_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up(monkeypatch, replace(H200, clock_mhz=None))
    monkeypatch.setattr(probe_module, "measure", lambda *arguments: pytest.fail("something was measured"))
    with pytest.raises(DriverSaysTooLittleError, match="does not say its clock"):
        made(None)
    made = made_up(monkeypatch, replace(H200, isa="sm_100"))
    monkeypatch.setattr(probe_module, "measure", lambda *arguments: pytest.fail("something was measured"))
    with pytest.raises(ProbedIsaError):
        made(None)


def test_nothing_is_left_of_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up(monkeypatch, H200)

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        made(tmp_path / "new_gpu.yaml")
    assert list(tmp_path.iterdir()) == []
