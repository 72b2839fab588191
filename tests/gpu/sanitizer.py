"""Emitted packages under NVIDIA's compute-sanitizer: memcheck and racecheck, each with a control.

    python tests/gpu/sanitizer.py --out RECORDS     on the GPU; prints a table; exit code 1 if a package is not clean
    python tests/gpu/sanitizer.py --dry-run         without one: emits the packages and plants the faults

The control of memcheck is a call whose first operand has lost half of its storage, that of racecheck a kernel whose
consumers do not wait for a stage. Where the tool passes a control, it cannot see such faults in such a kernel, and its
verdict on the kernel says nothing: the table shows "blind". Memory of torch is not cached, so that an access past the
end of a tensor meets no other tensor.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from records import write_record

import kgen
from kgen.spec.load import parse_spec

TARGET = "h200"
LIMIT_SECONDS = 170.0  # of one run under a tool
TOOLS = ("memcheck", "racecheck")
FLAGGED = 9  # exit status of the tool where it finds something
WAIT = re.compile(r"^ +pipe(?:_k|_v)?\.consumer_wait\(.*\)\n", re.MULTILINE)
GEMM = """
name: {name}
reference: |
  def gemm(a, b):
      return a @ b
inputs:
  a: {{shape: [{m}, {k}], dtype: bf16}}
  b: {{shape: [{k}, {n}], dtype: bf16}}
fixed: {fixed}
targets: [h200]
"""
ATTENTION = """
name: {name}
reference: |
  import torch.nn.functional as F
  def attention(q, k, v):
      return F.scaled_dot_product_attention(q, k, v, is_causal={causal}, enable_gqa=True)
inputs:
  q: {{shape: [2, 8, {queries}, 64], dtype: bf16}}
  k: {{shape: [2, 2, 333, 64], dtype: bf16}}
  v: {{shape: [2, 2, 333, 64], dtype: bf16}}
targets: [h200]
"""
GROUPED = """
name: gemm_grouped
reference: |
  import torch
  def grouped(x, weight, offs):
      return torch._grouped_mm(x, weight.mT, offs=offs)
inputs:
  x: {shape: [333, 264], dtype: bf16}
  weight: {shape: [5, 328, 264], dtype: bf16}
  offs: {shape: [5], dtype: int32}
targets: [h200]
"""
BOUNDED = """
name: {name}
reference: |
  import torch
  import torch.nn.functional as F
  def attention(q, k, v, numbers):
      mask = {mask}
      return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
inputs:
  q: {{shape: [2, 2, 333, 64], dtype: bf16}}
  k: {{shape: [2, 2, 333, 64], dtype: bf16}}
  v: {{shape: [2, 2, 333, 64], dtype: bf16}}
  numbers: {{shape: [{count}], dtype: int32, values: [0, {count}]}}
targets: [h200]
"""
LENGTHS = "(torch.arange(333, device=q.device) < numbers[:, None])[:, None, None]"
SPLIT = "{cluster_k: {value: 4, because: its schedule is under test}}"
SPECS = (
    GEMM.format(name="gemm_aligned", m=256, n=384, k=512, fixed="{}"),
    GEMM.format(name="gemm_ragged", m=200, n=328, k=264, fixed="{}"),
    GEMM.format(name="gemm_unaligned", m=197, n=201, k=131, fixed="{}"),
    GEMM.format(name="gemm_split_k", m=64, n=128, k=8192, fixed=SPLIT),
    GROUPED,
    ATTENTION.format(name="attention_causal", causal=True, queries=333),
    ATTENTION.format(name="attention_decode", causal=False, queries=1),
    BOUNDED.format(name="attention_sequences", mask="numbers[:, None] == numbers", count=333),
    BOUNDED.format(name="attention_lengths", mask=LENGTHS, count=2),
)
RUN = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
import kernel
from input import _make_inputs
(case,) = json.load(open(sys.argv[1] + "/shapes.json")).values()
tensors = list(_make_inputs(**case["input_kwargs"], seed=0, device="cuda").values())
if sys.argv[2] == "short":
    tensors[0].untyped_storage().resize_(tensors[0].untyped_storage().nbytes() // 2)
for _ in range(2):
    kernel.kernel(*tensors)
torch.cuda.synchronize()
print("ran")
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A package under a tool, as it is or with the tool's control."""

    name: str
    tool: str
    folder: Path
    is_control: bool

    @property
    def title(self) -> str:
        return f"{self.name} {self.tool}{' control' if self.is_control else ''}"


def emitted(text: str, folder: Path) -> Path:
    """Emit a package and return its folder."""
    spec = parse_spec(text, folder / "spec.yaml")
    return kgen.emit(spec, target=TARGET, folder=folder / spec.name).folder


def without_waits(package: Path) -> Path:
    """Return a copy of a package whose consumers wait for no stage."""
    copy = package.with_name(f"{package.name}_without_waits")
    copy.mkdir()
    for file in package.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    text, count = WAIT.subn("", (package / "kernel.py").read_text())
    if not count:
        return package
    (copy / "kernel.py").write_text(text)
    return copy


def jobs_of(package: Path) -> list[Job]:
    """Return the runs of one package; a kernel without a pipeline has no control of racecheck."""
    wrong = without_waits(package)
    jobs = [Job(package.name, tool, package, False) for tool in TOOLS]
    jobs.append(Job(package.name, "memcheck", package, True))
    return jobs if wrong == package else [*jobs, Job(package.name, "racecheck", wrong, True)]


def run(job: Job, script: Path) -> dict[str, Any]:
    """Run one job; return its verdict and the tool's last lines."""
    how = "short" if job.is_control and job.tool == "memcheck" else "whole"
    # libraries ask the driver for functions that it has not: errors of its interface are none of a kernel
    tool = ["compute-sanitizer", "--tool", job.tool, "--error-exitcode", str(FLAGGED), "--report-api-errors", "no"]
    command = [*tool, "--target-processes", "all", sys.executable, str(script), str(job.folder), how]
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "KGEN_CACHE": str(script.parent / "compiled")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return {"job": job.title, "verdict": f"not done after {LIMIT_SECONDS:.0f} s", "said": ""}
    said = done.stdout + done.stderr
    if "Device not supported" in said:
        verdict = "the tool does not work here"
    elif done.returncode == FLAGGED or re.search(r"ERROR SUMMARY: [1-9]|[1-9]\d* hazards?", said):
        verdict = "flagged"
    else:
        verdict = "clean" if "ran\n" in said and done.returncode == 0 else f"failed ({done.returncode})"
    print(f"  {job.title}: {verdict}", flush=True)
    lines = [line for line in said.splitlines() if line.startswith("=========")] or said.splitlines()[-6:]
    return {"job": job.title, "verdict": verdict, "said": "\n".join(lines[:12])}


def main() -> int:
    """Run all packages under both tools."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--tool", choices=TOOLS, help="that tool alone; both by default")
    parser.add_argument("--only", nargs="+", help="names of packages; all by default")
    parser.add_argument("--no-controls", action="store_true", help="the packages as they are alone")
    parser.add_argument("--dry-run", action="store_true", help="emit the packages and plant the faults")
    arguments = parser.parse_args()
    with TemporaryDirectory() as text:
        folder = Path(text)
        jobs = [job for spec in SPECS for job in jobs_of(emitted(spec, folder))]
        jobs = [job for job in jobs if arguments.tool in (None, job.tool)]
        jobs = [job for job in jobs if not arguments.only or job.name in arguments.only]
        jobs = [job for job in jobs if not (arguments.no_controls and job.is_control)]
        if arguments.dry_run:
            print(*(job.title for job in jobs), sep="\n")
            return 0
        script = folder / "run.py"
        script.write_text(RUN)
        with ThreadPoolExecutor(arguments.processes) as pool:
            found = list(pool.map(lambda job: run(job, script), jobs))
    wrong = 0
    for job, result in zip(jobs, found, strict=True):
        verdict = result["verdict"]
        if job.is_control:
            verdict = {"flagged": "flagged, as it has to be", "clean": "blind to it"}.get(verdict, verdict)
        wrong += not job.is_control and verdict != "clean"
        print(f"{job.title:<36} {verdict}")
        if verdict.startswith("failed") or (verdict == "flagged" and not job.is_control):
            print(result["said"])
    if arguments.out:
        write_record(arguments.out, "sanitizer", {"runs": found})
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
