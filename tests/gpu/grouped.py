"""Groups of rows in every distribution, against a product in fp32 for each group.

    python tests/gpu/grouped.py --out RECORDS     on the GPU; exit code 1 if a result is wrong
    python tests/gpu/grouped.py --dry-run         without one: emits the packages, which have to be in one kernel

Each package has cases from 1 to 700 groups. Rows take a group by chance, all lie in one, or fill whole boxes of 64;
most groups are empty, or all; or the last group ends before the last row, and what lies behind has to stay as it was.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from records import write_record
from workers import load_script

import kgen
from kgen.spec.load import parse_spec

LIMIT = 6e-3  # of the relative error: a result is rounded to bf16 once
KEPT = 777.0  # what memory holds before a call
SPEC = """
name: {name}
reference: |
  import torch
  import torch.nn.functional as F
  def grouped({arguments}):
      {lines}
inputs:
  x: {{shape: [T, K], dtype: bf16}}
  w: {{shape: {weight}, dtype: bf16}}
  offs: {{shape: [E], dtype: int32}}
  {more}
extents: {{T: {{range: [1, 4096]}}, E: {{range: [1, 1024]}}, N: {{range: [16, 4096]}}, K: {{range: [8, 4096]}}}}
cases:
  e1: {{T: 200, E: 1, N: 272, K: 136}}
  e3: {{T: 777, E: 3, N: 528, K: 328}}
  e8: {{T: 2000, E: 8, N: 1040, K: 520}}
  e64: {{T: 1000, E: 64, N: 272, K: 392}}
  e256: {{T: 3000, E: 256, N: 384, K: 256}}
  e700: {{T: 500, E: 700, N: 144, K: 72}}
  one_row: {{T: 1, E: 3, N: 144, K: 64}}
targets: [h200]
"""
Tensors = tuple[torch.Tensor, ...]
Kernel = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Form:
    """What is computed of the sums of a row and the tensors `more`, and how the weights lie."""

    lines: str
    expected: Callable[..., torch.Tensor]
    columns: bool = False  # weights [E, K, N]
    more: str = ""
    drawn: Callable[[int, int], Tensors] = lambda rows, n: ()
    result: torch.dtype = torch.bfloat16

    def spec(self, name: str) -> str:
        """Return the spec's text."""
        further = [part.partition(":")[0].strip() for part in self.more.splitlines()]
        weight = "[E, K, N]" if self.columns else "[E, N, K]"
        arguments = ", ".join(("x", "w", "offs", *further))
        return SPEC.format(name=name, arguments=arguments, lines=self.lines, weight=weight, more=self.more)


def halves(sums: torch.Tensor) -> torch.Tensor:
    gate, up = sums.chunk(2, -1)
    return F.silu(gate) * up


def residual(rows: int, n: int) -> Tensors:
    return torch.randn(rows, n, device="cuda").bfloat16(), torch.randn(n, device="cuda").bfloat16()


PRODUCT = "torch._grouped_mm(x, w.mT, offs=offs)"
FORMS = {
    "rows": Form(f"return {PRODUCT}", lambda sums: sums),
    "columns": Form("return torch._grouped_mm(x, w, offs=offs)", lambda sums: sums, columns=True),
    "epilogue": Form(
        f"return F.silu({PRODUCT} + b) + r",
        lambda sums, r, b: F.silu(sums + b) + r,
        more="r: {shape: [T, N], dtype: bf16}\n  b: {shape: [N], dtype: bf16}",
        drawn=residual,
    ),
    "scaled": Form(
        f"return {PRODUCT}.float() * s[:, None]",
        lambda sums, s: sums * s[:, None],
        more="s: {shape: [T], dtype: fp32}",
        drawn=lambda rows, n: (torch.rand(rows, device="cuda"),),
        result=torch.float32,
    ),
    "gate": Form(f"gate, up = {PRODUCT}.chunk(2, -1)\n      return F.silu(gate) * up", halves),
}


def distributions(rows: int, groups: int, draw: torch.Generator) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield how many rows each group has, by name."""
    yield "by chance", torch.bincount(torch.randint(groups, (rows,), generator=draw), minlength=groups)
    for at in sorted({0, groups // 2, groups - 1}):
        yield f"all in group {at}", torch.eye(groups, dtype=torch.int64)[at] * rows
    cuts = torch.randint(rows + 1, (groups - 1,), generator=draw).sort().values
    kept = torch.rand(groups - 1, generator=draw) < 0.3
    ends = torch.cat([torch.tensor([0]), cuts * kept]).cummax(0).values
    yield "most empty", torch.diff(ends, append=torch.tensor([rows]))
    whole = torch.zeros(groups, dtype=torch.int64)
    for group in range(groups):
        whole[group] = min(rows - int(whole.sum()), 64 * (1 + group % 3))
    yield "whole boxes", whole
    yield "ends early", torch.bincount(torch.randint(groups, (rows - rows // 5 - 1,), generator=draw), minlength=groups)
    yield "none", torch.zeros(groups, dtype=torch.int64)


def faults_of(kernel: Kernel, form: Form, counts: torch.Tensor, shape: dict[str, int]) -> list[str]:
    """Return what is wrong with a call."""
    rows, n, k = shape["T"], shape["N"], shape["K"]
    x = torch.randn(rows, k, device="cuda").bfloat16()
    w = torch.randn(len(counts), *((k, n) if form.columns else (n, k)), device="cuda").bfloat16()
    ends, more = counts.cumsum(0), form.drawn(rows, n)
    sums, start = torch.zeros(rows, n, device="cuda"), 0
    for group, end in enumerate(ends.tolist()):
        matrix = w[group].float() if form.columns else w[group].float().T
        sums[start:end] = x[start:end].float() @ matrix
        start = end
    want = form.expected(sums, *(t.float() for t in more))
    before = torch.full(want.shape, KEPT, dtype=form.result, device="cuda")
    address = before.data_ptr()
    del before  # the result takes its place
    out = kernel(x, w, ends.int().cuda(), *more)
    torch.cuda.synchronize()
    error = float((out[:start].float() - want[:start]).norm() / want[:start].norm()) if start else 0.0
    found = [] if error <= LIMIT else [f"rel_err {error:.1e}"]
    if out.data_ptr() == address and not bool((out[start:] == KEPT).all()):
        found.append("rows of no group were written")
    return found


def check(name: str, form: Form, folder: Path) -> dict[str, Any]:
    """Emit a package and call it with every distribution in every case."""
    kernel = load_script(folder / name / "kernel.py", f"kernel_{name}").kernel
    cases = json.loads((folder / name / "shapes.json").read_text())
    draw, calls, faults = torch.Generator().manual_seed(0), 0, list[str]()
    torch.manual_seed(0)
    for case, of in cases.items():
        shape = of["input_kwargs"]
        for words, counts in distributions(shape["T"], shape["E"], draw):
            calls += 1
            faults += [f"{name} {case}, {words}: {fault}" for fault in faults_of(kernel, form, counts, shape)]
    print(f"{name:<10} {calls} calls, {len(faults)} wrong", *faults, sep="\n  ", flush=True)
    return {"form": name, "calls": calls, "faults": faults}


def main() -> int:
    """Check all forms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--form", choices=FORMS, action="append", help="that form alone; all by default")
    parser.add_argument("--dry-run", action="store_true", help="emit the packages")
    arguments = parser.parse_args()
    forms = {name: FORMS[name] for name in arguments.form or FORMS}
    with TemporaryDirectory() as text:
        folder = Path(text)
        for name, form in forms.items():
            made = kgen.emit(parse_spec(form.spec(name), folder / "spec.yaml"), target="h200", folder=folder / name)
            assert len({v.kernel for v in made.plan.variants}) == 1, f"{name} is several kernels"
        if arguments.dry_run:
            print(f"{len(forms)} packages")
            return 0
        runs = [check(name, form, folder) for name, form in forms.items()]
    if arguments.out:
        write_record(arguments.out, "grouped", {"runs": runs})
    return int(any(run["faults"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
