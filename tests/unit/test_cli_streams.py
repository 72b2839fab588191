"""What the command line promises of its streams and exit codes: one JSON object on stdout, whatever happens."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from command_line import ROOT, kgen, kgen_json, run_python
from ruamel.yaml import YAML

from kgen import cli
from kgen.support import support_matrix


def test_usage_errors_are_json_too(tmp_path: Path) -> None:
    for arguments in (("solve", "--bogus"), ("nosuch",), (), ("check",), ("solve", "--top", "x")):
        answer = kgen_json(tmp_path, *arguments)
        assert answer["exit_code"] == 2 and answer["error"] == "UsageError" and answer["message"]


def test_a_usage_error_for_people(tmp_path: Path) -> None:
    done = kgen(tmp_path, "nosuch")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: No such command 'nosuch'.\n")


def test_a_fault_is_json_with_the_traceback_nowhere_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        print("noise")
        os.write(1, b"noise below Python\n")
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("kgen.doctor.diagnose", broken)
    assert cli.run(("doctor", "--json")) == 70
    shown = capfd.readouterr()
    assert json.loads(shown.out)["message"] == "a fault in kgen: ZeroDivisionError: oh"
    assert "noise\n" in shown.err and "noise below Python" in shown.err
    assert cli.run(("doctor",)) == 70
    assert "Traceback" in capfd.readouterr().err


def test_an_answer_that_is_no_json_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kgen.spec.schema.spec_schema", lambda: {"x": float("nan")})
    assert cli.run(("schema", "--json")) == 70
    assert json.loads(capfd.readouterr().out)["error"] == "FaultError"


def test_a_reference_that_exits_does_not_end_kgen(tmp_path: Path) -> None:
    text = "name: quits\nreference: |\n  import sys\n  sys.exit(0)\n  def f(a):\n      return a @ a\n"
    (tmp_path / "quits.yaml").write_text(f"{text}inputs:\n  a: {{shape: [64, 64], dtype: bf16}}\n")
    answer = kgen_json(tmp_path, "emit", "quits.yaml", "--target", "h200")
    assert answer["exit_code"] == 2 and "exit(0)" in answer["message"]


def test_ctrl_c_is_json(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(
        "name: slow\nreference: |\n  import pathlib, time\n  pathlib.Path('started').touch()\n  time.sleep(60)\n"
        "  def f(a):\n      return a @ a\ninputs:\n  a: {shape: [64, 64], dtype: bf16}\n"
    )
    code = "from kgen.cli import main; main()"
    command = [sys.executable, "-c", code, "emit", "slow.yaml", "--target", "h200", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # a shell that runs the tests in the background has made them ignore SIGINT, and children inherit that
    heeded = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes, **heeded) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    answer = json.loads(out)
    assert (process.returncode, answer["error"], answer["exit_code"]) == (130, "Interrupted", 130)


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -c 'from kgen.cli import main; main()' schema | head -n 1; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "{\n0\n" and done.stderr == ""


def test_help_and_version(tmp_path: Path) -> None:
    done = kgen(tmp_path, "--version")
    assert done.returncode == 0 and done.stdout.startswith("kgen ")
    shown = kgen(tmp_path, "--help").stdout
    assert all(command in shown for command in ("emit", "solve", "check", "targets", "schema", "doctor"))
    assert kgen_json(tmp_path, "solve", "--help") == {"ok": True, "exit_code": 0}


def test_targets_show_every_device_and_the_computed_matrix(tmp_path: Path) -> None:
    code = "import sys, kgen.cli; kgen.cli.run(['targets']); print('torch' in sys.modules)"
    done = run_python(code, tmp_path)
    assert "NVIDIA H20 " in done.stdout and "78 ?" in done.stdout and done.stdout.endswith("False\n")
    answer = kgen_json(tmp_path, "targets")
    h200 = next(d for d in answer["devices"] if d["name"] == "h200")
    assert h200["quantities"]["quantities.compute_units"]["source"]
    assert {(s["isa"], s["family"]): s["level"] for s in answer["support"]}[("sm_90a", "gemm")] == "kernels"


def test_the_matrix_follows_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kgen.support.templates_dir", lambda: tmp_path)
    assert {s.level for s in support_matrix()} == {"rules"}
    rules = tmp_path / "targets" / "cdna3" / "convolution.rules"
    rules.parent.mkdir(parents=True)
    rules.touch()
    monkeypatch.setattr("kgen.support.targets_dir", lambda: rules.parents[1])
    assert {(s.arch, s.family): s.level for s in support_matrix()} == {
        ("cdna3", "convolution"): "rules",
        ("cdna4", "convolution"): "none",
        ("sm90a", "convolution"): "none",
    }


def test_the_schema_accepts_the_specs_of_this_project(tmp_path: Path) -> None:
    schema = json.loads(kgen(tmp_path, "schema").stdout)
    assert kgen_json(tmp_path, "schema")["schema"] == schema
    for file in sorted((ROOT / "specs").glob("*.yaml")):
        jsonschema.validate(YAML(typ="safe").load(file), schema)


def test_doctor(tmp_path: Path) -> None:
    answer = kgen_json(tmp_path, "doctor")
    assert {c["name"] for c in answer["components"]} >= {"torch", "flydsl"}
    assert "python" in kgen(tmp_path, "doctor").stdout


def test_check_refuses_what_is_no_package(tmp_path: Path) -> None:
    answer = kgen_json(tmp_path, "check", str(tmp_path), "--compile-only")
    assert answer["exit_code"] == 2 and answer["error"] == "NotAPackageError"


@pytest.mark.parametrize("command", ["--help", "emit --help", "targets"])
def test_a_reader_that_leaves_is_no_error(tmp_path: Path, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = f"from kgen.cli import main; import sys; sys.argv[1:] = {command.split()}; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, env=environment, cwd=tmp_path, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("flag", ["", "--json"])
def test_stdout_that_is_closed_or_full(tmp_path: Path, flag: str) -> None:
    code = f"from kgen.cli import main; import sys; sys.argv[1:] = {['targets', *flag.split()]}; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for place, status, message in ((">&-", 0, ""), (">/dev/full", 2, "error: cannot write the answer: No space left")):
        shell = ["sh", "-c", f'exec "$0" -c "$1" {place}', sys.executable, code]
        done = subprocess.run(shell, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert done.returncode == status and done.stderr.startswith(message) and "Traceback" not in done.stderr
