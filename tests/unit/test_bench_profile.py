"""The profile: what is asked of ncu, what is read from its table, and what is said where there is none."""

import os
import sys
import time
from pathlib import Path

import pytest

from kgen.bench import profile as profile_module
from kgen.bench.profile import ncu_command, profile_case, profile_of
from kgen.bench.profile_csv import WANTED, figure, metrics_of, profiled_kernels, requested

STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COLUMNS = {  # name: (unit, value), as ncu prints them with --print-units base
    "ID": ("", "0"),
    "Process ID": ("", "4242"),
    "Kernel Name": ("", "kernel_cutlass_gemm_tma, with a comma"),
    "Grid Size": ("", "(132, 1, 1)"),
    "dram__bytes.sum.per_second": ("byte/s", "1,234,567,890,123.45"),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "25.72"),
    "gpu__time_duration.sum": ("ns", "590,387"),
    "launch__registers_per_thread": ("register/thread", "168"),
    "launch__waves_per_multiprocessor": ("", "1"),
    "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active": ("%", "88.5"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "n/a"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "18.75"),
    STALL.format("barrier"): ("inst", "0.5"),
    STALL.format("gmma"): ("inst", "7.25"),
    STALL.format("long_scoreboard"): ("inst", "3"),
    STALL.format("selected"): ("inst", "99"),
    STALL.format("sleeping"): ("inst", "0.25"),
    "smsp__average_warps_issue_stalled_wait_not_issued_per_issue_active.pct": ("%", "80"),
}


def line(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def printed(*durations):
    """Return what ncu prints around and in its table."""
    launches = [
        line(
            {**dict.fromkeys(COLUMNS), **{n: v for n, (_, v) in COLUMNS.items()}, "gpu__time_duration.sum": d}.values()
        )
        for d in durations
    ]
    table = [line(COLUMNS), line(unit for unit, _ in COLUMNS.values()), *launches]
    before = ["==PROF== Connected to process 4242 (/usr/bin/python3)", "PASS default  590.39 us"]
    return "\n".join([*before, *table, "==PROF== Disconnected", ""])


def figures(text):
    return {metric.name: (metric.value, metric.unit) for metric in metrics_of(profiled_kernels(text)[0])}


def stand_in(tmp_path, monkeypatch, body):
    """Put a program called ncu on PATH."""
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport os, sys, time\nif '--version' in sys.argv:\n")
    with program.open("a") as file:
        file.write(f"    print('NVIDIA Nsight Compute\\nVersion 2031.4.0.0 (build 1)')\n    sys.exit()\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_the_table():
    found = figures(printed("590,387"))
    assert found["gpu__time_duration.sum"] == (590.387, "us")
    value, unit = found["dram__bytes.sum.per_second"]
    assert value == pytest.approx(1234.56789012345) and unit == "GB/s"
    assert found["launch__registers_per_thread"] == (168.0, "register/thread")


def test_a_counter_that_the_gpu_lacks_gives_way_to_the_next():
    found = figures(printed("1"))
    assert found["sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active"] == (88.5, "%")
    assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed" not in found


def test_a_missing_counter_is_none():
    assert figures(printed("1"))["sm__maximum_warps_per_active_cycle_pct"] == (None, "")


def test_the_three_largest_reasons_to_wait():
    found = [m for m in metrics_of(profiled_kernels(printed("1"))[0]) if "stalled" in m.name]
    assert [m.name for m in found] == [STALL.format(reason) for reason in ("gmma", "long_scoreboard", "barrier")]
    assert (found[0].value, found[1].meaning) == (7.25, "waiting for long scoreboard, a warp issued")


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1,234.5", 1234.5), ("7", 7.0), ("", None), ("n/a", None), ("(!) n/a", None), ("nan", None), ("FULL", "FULL")],
)
def test_cells(cell, value):
    assert figure(cell) == value


@pytest.mark.parametrize("text", ["", "==PROF== nothing", '"ID","Kernel Name"', '"ID","Kernel Name"\n"",""'])
def test_no_table_has_no_kernel(text):
    assert profiled_kernels(text) == ()


def test_the_longest_launch_is_reported():
    found = profile_of("ncu 1", "default", ("gemm",), printed("10", "3,000", "20"), None)
    assert found.metrics[0].value == 3.0 and found.failure is None
    assert found.kernel == "kernel_cutlass_gemm_tma, with a comma"


def test_a_test_that_fails_under_the_profiler_still_has_a_profile():
    assert profile_of("ncu 1", "default", ("gemm",), printed("10"), "ncu ended with exit status 1").failure is None


@pytest.mark.parametrize(
    ("text", "ending", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - no permission", "ncu ended with exit status 1", "NVreg_RestrictProfiling"),
        ("some\nlast words", "ncu ended with signal 9", "ncu ended with signal 9; the end of its log: some last words"),
        ("==ERROR== Failed to find metric x", None, "Failed to find metric x"),
        ("==WARNING== No kernels were profiled.", None, "ncu saw no launch of gemm"),
    ],
)
def test_what_went_wrong(text, ending, words):
    found = profile_of("ncu 1", "default", ("gemm",), text, ending)
    assert words in found.failure and found.metrics == () and found.kernel is None


def test_the_command():
    command = ncu_command(Path("/opt/ncu"), "default", ("gemm+1", "other", "void ns::gemm_k<bf16, 3>(float*)", "other"))
    assert command[:3] == ["/opt/ncu", "--clock-control", "none"]
    assert command[command.index("--kernel-name") + 1] == r"regex:gemm\+1|gemm_k|other"
    test = command[command.index(sys.executable) :]
    assert test[1:5] == ["test_kernel.py", "--shape-id", "default", "--no-memory"]
    assert all(name in requested()[-1].split(",") for wanted in WANTED for name in wanted.names)


def test_a_run(tmp_path, monkeypatch):
    answer = tmp_path / "answer.csv"
    answer.write_text(printed("590,387"))
    body = f"assert os.environ['LC_ALL'] == 'C'\nprint(os.getcwd())\nprint(open({str(answer)!r}).read())"
    stand_in(tmp_path, monkeypatch, body)
    found = profile_case(tmp_path, "default", ("gemm",), tmp_path / "measured" / "ncu.log")
    assert (found.tool, found.case, found.failure) == ("ncu 2031.4.0.0", "default", None)
    assert (tmp_path / "measured" / "ncu.log").read_text().startswith(f"{tmp_path}\n==PROF==")


def test_a_run_without_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(profile_module, "LIMIT_SECONDS", 0.5)
    stand_in(tmp_path, monkeypatch, "time.sleep(60)")
    started = time.monotonic()
    found = profile_case(tmp_path, "default", ("gemm",), tmp_path / "ncu.log")
    assert "not done after 0.5 s" in found.failure and time.monotonic() - started < 30


def test_no_profiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = profile_case(tmp_path, "default", ("gemm",), tmp_path / "ncu.log")
    assert found.failure.startswith("ncu is not on PATH: it comes with the CUDA toolkit")
    assert not (tmp_path / "ncu.log").exists()


def test_no_kernel_names(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "")
    assert "no kernel" in profile_case(tmp_path, "default", (), tmp_path / "ncu.log").failure
