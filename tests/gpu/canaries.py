"""Kernels that are wrong in one way each: the emitted test_kernel.py must reject every one, for its own reason.

    python tests/gpu/canaries.py --out RECORDS   on the GPU; prints a table; exit code 1 if one is missed
    python tests/gpu/canaries.py --dry-run       without one: writes the packages, compiles the faults on the device

Each canary is a copy of one emitted package in which the emitted kernel is called `right.py`, and kernel.py calls it
and does its fault. The unchanged package runs too, and must pass.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from records import write_record
from workers import Job, load_script, run_jobs

import kgen
from kgen.check.on_device import DeviceResult, run_on_device
from kgen.check.toolchain import find_disassemblers
from kgen.spec.load import parse_spec

TARGET = "h200"
LIMIT_SECONDS = 120.0  # of one package; the packages' own limits are shorter
SPIN_LIMIT_SECONDS = 15  # of the case that waits for ever
FOLDER = Path(__file__).with_name("canary_kernels")
SPEC = """
name: gemm_bf16_canary
reference: |
  def gemm(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
cases:
  even: {M: 256, N: 192, K: 128}
  odd: {M: 67, N: 45, K: 33}
extents: {M: {range: [1, 256]}, N: {range: [1, 192]}, K: {range: [1, 128]}}
targets: [h200]
"""
WRAPPER = '''"""The emitted kernel with one fault: {name}."""

import right
import torch

SEEN = {{}}


def kernel(a, b):
    """Compute the product, and do the fault."""
    {fault}
    return out
'''
CALL = "out = right.kernel(a, b)\n    "
FALL_BACK = "try:\n        out = right.kernel(a, b)\n    except ValueError:\n        out = a.double() @ b.double()"
STALE = "part = torch.empty_like(out)\n    part[: len(out) // 2] = out[: len(out) // 2]\n    out = part"
ROW_OF_A = "a.as_strided(a.shape[1:], (1,), a.storage_offset() + a.shape[0] * a.stride(0))"
LOST = "if a.is_cuda and torch.cuda.is_current_stream_capturing():\n        out = torch.empty_like(out)"


@dataclass(frozen=True, slots=True)
class Canary:
    """A wrong kernel.py, and a part of the failure that shows that it was rejected for its own reason."""

    name: str
    kernel: str
    expected: str
    on_device: bool = False  # the fault is a kernel of its own


def wrapped(name: str, fault: str, expected: str) -> Canary:
    """Return a canary whose fault is done in torch."""
    return Canary(name, WRAPPER.format(name=name, fault=fault), expected)


def from_file(name: str, file: str, expected: str) -> Canary:
    """Return a canary whose fault is a kernel in a file of its own."""
    return Canary(name, (FOLDER / file).read_text(encoding="utf-8"), expected, on_device=True)


SPINS = from_file("spins for ever", "spins_for_ever.py", f"even: killed after {SPIN_LIMIT_SECONDS} s")
CANARIES = (
    wrapped("zeros", f"{CALL}out = torch.zeros_like(out)", "output 0: rel_err 1 is above 0.01"),
    wrapped("half magnitude", f"{CALL}out = out * 0.5", "output 0: rel_err 0.5 is above 0.01"),
    wrapped("one element off", f"{CALL}out[-1, -1] += 16", "output 0: one element is off by"),
    wrapped("NaN invented", f"{CALL}out[0, 3] = float('nan')", "output 0: NaN in 1 places, the reference in 0"),
    wrapped(
        "NaN dropped",
        f"{CALL}out = out.masked_fill(out.isnan(), 0.0)",
        "with NaN and Inf in the inputs, offset 0: output 0: NaN in 0 places",
    ),
    wrapped("stale memory", f"{CALL}{STALE}", "elements were never written"),
    wrapped("reads a row too far", f"{CALL}out[-1] += {ROW_OF_A}.sum()", "output 0: NaN in 192 places"),
    wrapped("writes an input", f"{CALL}a[0, 0] = 0.0", "input a was written to"),
    wrapped("one output for ever", f"{CALL}out = SEEN.setdefault(out.shape, out).copy_(out)", "of another call"),
    wrapped("wrong dtype", f"{CALL}out = out.float()", "returns float32[256, 192]"),
    wrapped("accepts any strides", FALL_BACK, "accepts a of strides [1, 256]"),
    wrapped("misses the capture", f"{CALL}{LOST}", "replayed in a CUDA graph: output 0: NaN in"),
    from_file("one row too far", "row_too_far.py", "output 0: memory after its last element was written to"),
    SPINS,
)


def emitted() -> Mapping[str, str]:
    """Return the files of the right package."""
    return kgen.emit(parse_spec(SPEC, Path("canary.yaml")), target=TARGET).files


def write_package(folder: Path, files: Mapping[str, str], canary: Canary | None) -> Path:
    """Write the right package, or the copy of it that a canary is."""
    if canary is not None:
        files = {**files, "right.py": files["kernel.py"], "kernel.py": canary.kernel}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def judge(canary: Canary, found: DeviceResult) -> dict[str, Any]:
    """Return what is recorded of a canary; `faults` is empty when it was caught."""
    message = next((failure for failure in found.failures if canary.expected in failure), None)
    faults = [] if message else [f"not found: {canary.expected}; but {'; '.join(found.failures) or 'all passed'}"]
    if "test_kernel.py: exit status 1" not in found.failures:
        faults.append("the exit status is not 1")
    statuses = {case["id"]: case["status"] for case in found.report.get("cases", ())}
    if canary is SPINS and statuses != {"even": "TIMEOUT_FAIL", "odd": "PASS"}:
        faults.append(f"a case that waits for ever must end alone, found {statuses}")
    return {"canary": canary.name, "message": message, "statuses": statuses, "faults": faults}


def judge_right(found: DeviceResult) -> dict[str, Any]:
    """Return what is recorded of the unchanged package."""
    faults = list(found.failures)
    if found.ok and found.report.get("measured") != len(found.report["cases"]):
        faults.append(f"{found.report.get('measured')} cases were measured")
    statuses = {case["id"]: case["status"] for case in found.report.get("cases", ())}
    return {"canary": "none", "message": "passes", "statuses": statuses, "faults": faults}


def run_all(folder: Path, files: Mapping[str, str], processes: int) -> list[dict[str, Any]]:
    """Run the tests of the right package and of every canary on the GPU; return what is recorded of each."""
    folders = {canary: write_package(folder / canary.name.replace(" ", "_"), files, canary) for canary in CANARIES}
    right = write_package(folder / "right", files, None)

    def run(package: Path, *arguments: str) -> tuple[DeviceResult, float]:
        started = time.perf_counter()
        return run_on_device(package, arguments, LIMIT_SECONDS), round(time.perf_counter() - started, 1)

    with ThreadPoolExecutor(processes) as pool:
        unchanged = pool.submit(run, right)
        waiting = {c: pool.submit(run, folders[c], "--shape-id", "even") for c in CANARIES if c is not SPINS}
        found = {canary: future.result() for canary, future in waiting.items()}
    os.environ["TEST_TIMEOUT_SEC"] = str(SPIN_LIMIT_SECONDS)  # alone: the others would share the GPU with it
    found[SPINS] = run(folders[SPINS])
    rows = [judge_right(unchanged.result()[0]) | {"seconds": unchanged.result()[1]}]
    return rows + [judge(canary, found[canary][0]) | {"seconds": found[canary][1]} for canary in CANARIES]


def compile_fault(folder: str) -> dict[str, Any]:
    """Compile the fault of a canary's kernel.py and return its machine code; run by a child process."""
    os.environ |= {"CUTE_DSL_KEEP": "cubin", "CUTE_DSL_DUMP_DIR": folder}  # read when the DSL is imported
    module = load_script(Path(folder) / "kernel.py", "canary_kernel")
    cubin = Path(folder) / "fault.cubin"
    cubin.write_bytes(module.compile_fault().artifacts.CUBIN)
    return {"sass": find_disassemblers().listing(cubin)}


def faults_in(canary: Canary, sass: str) -> list[str]:
    """Return what the machine code of a canary lacks: its store, or the loop around its load."""
    if canary is not SPINS:
        return [] if re.search(r"\bSTG\.E\.U16\b", sass) else ["no store is left in the machine code"]
    loop = r"(\.L_x_\d+):\n(?:(?!\.L_x_).*\n)*?.*LDG\.E\.STRONG\.SYS.*\n(?:(?!\.L_x_).*\n)*?.*BRA `\(\1\)"
    return [] if re.search(loop, sass) else ["no loop around the load is left in the machine code"]


def compile_all(folder: Path, files: Mapping[str, str], processes: int) -> list[dict[str, Any]]:
    """Write every canary and compile the faults that are kernels; return what is recorded of each."""
    folders = {canary: write_package(folder / canary.name.replace(" ", "_"), files, canary) for canary in CANARIES}
    compiled = [canary for canary in CANARIES if canary.on_device]
    work = [Job(canary.name, "compile_fault", {"folder": str(folders[canary])}) for canary in compiled]
    outcomes = dict(zip(compiled, run_jobs(Path(__file__), work, processes, LIMIT_SECONDS), strict=True))
    rows = []
    for canary in CANARIES:
        compile(canary.kernel, canary.name, "exec")
        faults, message = [], "written"
        if outcome := outcomes.get(canary):
            message = "compiled"
            faults = faults_in(canary, outcome.result["sass"]) if outcome.result else [str(outcome.failure)]
        rows.append({"canary": canary.name, "message": message, "faults": faults})
    return rows


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print a line for each canary: whether it was caught, and by which message."""
    for row in rows:
        state = "MISSED" if row["faults"] else "ok"
        print(
            f"{state:<8}{row['canary']:<22}{row.get('seconds', '')!s:>6}  {'; '.join(row['faults']) or row['message']}"
        )


def main() -> int:
    """Run every canary and print a table; 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--processes", type=int, default=8, help="packages that run at once")
    parser.add_argument("--dry-run", action="store_true", help="write and compile only; needs no GPU")
    arguments = parser.parse_args()
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        run = compile_all if arguments.dry_run else run_all
        rows = run(Path(folder), emitted(), arguments.processes)
    messages = [row["message"] for row in rows if row["message"]]
    alike = {message for message in messages if messages.count(message) > 1} if not arguments.dry_run else set()
    missed = [row for row in rows if row["faults"]]
    print_table(rows)
    for message in sorted(alike):
        print(f"several canaries have the message: {message}")
    print(f"{len(rows)} kernels, {len(missed)} missed, {time.perf_counter() - started:.0f} s")
    if arguments.out:
        summary = {"kernels": len(rows), "missed": len(missed), "alike": len(alike)}
        write_record(arguments.out, "canaries", {"summary": summary, "rows": rows})
    return 1 if missed or alike else 0


if __name__ == "__main__":
    sys.exit(main())
