"""The profiler's word on one case: Nsight Compute over the package's own test, and the few figures that decide.

A profiled run says where the time goes, never how much there is: ncu repeats every launch, so nothing that
test_kernel.py prints meanwhile is read. What keeps ncu from answering becomes the profile's `failure`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kgen.bench.profile_csv import Kernel, metrics_of, profiled_kernels, requested
from kgen.bench.report import Profile
from kgen.check.command import run_command
from kgen.check.toolchain import Tool, find_tool

LIMIT_SECONDS = 900
_TEST_LIMIT_SECONDS = "600"  # of test_kernel.py for its case, which ncu slows down
# The first launch is the one on aligned operands, which the plan is made for; ncu repeats it for every set of
# counters, with caches flushed in between.
_LAUNCHES = "1"
_HOW_TO_GET = "it comes with the CUDA toolkit, and with Nsight Compute from developer.nvidia.com/nsight-compute"
_PERMISSION = (
    "the driver keeps hardware counters to administrators (ERR_NVGPUCTRPERM): run as root or with CAP_SYS_ADMIN, or "
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0"
)
_NO_KERNEL = "ncu saw no launch of {names}: `kgen check .` says whether the case launches it"


def profile_case(folder: Path, case: str, kernels: tuple[str, ...], log: Path) -> Profile:
    """Return what ncu says of the first launch of these kernels in a case; everything it prints goes to `log`."""
    tool = find_tool("ncu")
    if tool is None:
        return _failed("ncu", case, f"ncu is not on PATH: {_HOW_TO_GET}")
    if not kernels:
        return _failed("ncu", case, "no kernel of the package is known by name, so there is nothing to look for")
    ending = _run(ncu_command(tool.path, case, kernels), folder, log)
    text = log.read_text(encoding="utf-8", errors="replace")
    return profile_of(_name(tool), case, kernels, text, ending)


def ncu_command(ncu: Path, case: str, kernels: tuple[str, ...]) -> list[str]:
    """Return the command that profiles a case; clocks are left alone, as in every other measurement."""
    names = "|".join(sorted({re.escape(_function(name)) for name in kernels}))
    # few timed runs: nobody reads the times, and what ncu does not profile need not run
    test = [sys.executable, "test_kernel.py", "--shape-id", case, "--no-memory", "--warmup", "0", "--timed-runs", "1"]
    return [
        *(str(ncu), "--clock-control", "none", "--target-processes", "all"),
        *("--csv", "--page", "raw", "--print-units", "base", *requested()),
        *("--kernel-name", f"regex:{names}", "--launch-count", _LAUNCHES),
        *test,
    ]


def _function(kernel: str) -> str:
    """Return the name that ncu compares: without namespaces, template arguments and parameters."""
    return re.split(r"[<(]", kernel.replace("(anonymous namespace)::", ""))[0].split("::")[-1].split(" ")[-1]


def profile_of(tool: str, case: str, kernels: tuple[str, ...], text: str, ending: str | None) -> Profile:
    """Return the profile that the text printed by ncu holds; `ending` is how the run broke off, None if it did not."""
    found = profiled_kernels(text)
    if found:
        longest = max(found, key=_duration)
        return Profile(tool=tool, case=case, kernel=longest.name, metrics=metrics_of(longest), failure=None)
    if "ERR_NVGPUCTRPERM" in text:
        return _failed(tool, case, _PERMISSION)
    if ending is not None:
        return _failed(tool, case, f"{ending}; {_said(text)}")
    if errors := [line for line in text.splitlines() if line.startswith("==ERROR==")]:
        return _failed(tool, case, " ".join(errors)[-500:])
    return _failed(tool, case, _NO_KERNEL.format(names=", ".join(kernels)))


def _failed(tool: str, case: str, failure: str) -> Profile:
    return Profile(tool=tool, case=case, kernel=None, metrics=(), failure=failure)


def _duration(kernel: Kernel) -> float:
    value = kernel.figures.get("gpu__time_duration.sum")
    return value if isinstance(value, float) else 0.0


def _said(text: str) -> str:
    """Return the end of what was printed, on one line."""
    return f"the end of its log: {' '.join(text.split())[-300:] or 'nothing'}"


def _name(tool: Tool) -> str:
    """Return ncu with its version, as far as it tells."""
    done = subprocess.run([tool.path, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"Version (\S+)", done.stdout)
    return f"ncu {found[1]}" if found else "ncu"


def _run(command: list[str], folder: Path, log: Path) -> str | None:
    """Run a command with all its output in a file; return how it broke off, or None."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        status = run_command(command, output, LIMIT_SECONDS, cwd=folder, env=_environment(os.environ))
    if status is None:
        return f"ncu was not done after {LIMIT_SECONDS} s, and was killed"
    if status == 0:
        return None
    return f"ncu ended with signal {-status}" if status < 0 else f"ncu ended with exit status {status}"


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a profiled test: figures with a point, and more time for a case."""
    return {**inherited, "LC_ALL": "C", "TEST_TIMEOUT_SEC": _TEST_LIMIT_SECONDS, "PYTHONUNBUFFERED": "1"}
