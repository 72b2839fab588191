"""Three hundred random pointwise and reduction programs through `kgen.build`.

    python tests/gpu/random_programs.py --out RECORDS           on the GPU
    python tests/gpu/random_programs.py --dry-run [--compile]   without one: emits every kernel, or compiles it too
    python tests/gpu/random_programs.py --show --only 17        prints programs

Each result is compared with the reference in float64: rel_err, dtype, shape, places of NaN and infinities, integers
bit for bit; two runs bit for bit on poisoned results; inputs and the gaps between them unchanged, but for those that
the program updates.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import programs
import torch
from compare import bits, check_runs, compare_all, expected_of, tensors_of, widened
from program_model import Program
from program_runs import refused, run_programs
from sharding import add_arguments, is_of_the_device, print_failures, sharded

import kgen

TARGET = "h200"
LIMIT_SECONDS = 90.0


def run_program(index: int) -> dict[str, Any]:
    """Build program `index` on the GPU and compare it; run by a child process."""
    p = programs.program(index)
    made = p.make("cuda")
    tensors, bases = [tensor for tensor, _ in made], [base for _, base in made]
    kept = [base.clone() for base in bases]
    started = time.perf_counter()
    try:
        kernel = kgen.build(p.reference(), tensors, target=TARGET)
    except Exception as error:
        if is_of_the_device(error):
            raise
        return refused(error)
    seconds = time.perf_counter() - started

    def fresh(*arguments: torch.Tensor) -> Any:
        for tensor, base, old in zip(p.tensors, bases, kept, strict=True):
            if tensor.updated:
                base.copy_(old)
        return kernel(*arguments)

    out, faults = check_runs(fresh, tensors)
    rel_err, wrong = judged(p, out, tensors, "cuda")
    for tensor, base, old in zip(p.tensors, bases, kept, strict=True):
        if not tensor.updated and not torch.equal(bits(base), bits(old)):
            wrong.append(f"the kernel wrote into {tensor.name} or between its rows")
    return {"rel_err": rel_err, "faults": faults + wrong, "build_s": round(seconds, 2)}


def judged(p: Program, out: Any, tensors: list[torch.Tensor], device: str) -> tuple[float, list[str]]:
    """Compare the results, and the tensors that the program updates, with the reference in float64."""
    fresh = [tensor for tensor, _ in p.make(device)]
    wide = widened(fresh)
    want = expected_of(p.reference(), wide)
    like = p.reference()(*fresh)
    changed = [place for place, tensor in enumerate(p.tensors) if tensor.updated]
    found = compare_all(
        (*tensors_of(out), *(tensors[place] for place in changed)),
        (*tensors_of(want), *(wide[place] for place in changed)),
        (*tensors_of(like), *(fresh[place] for place in changed)),
        p.limit,
    )
    return found.rel_err, list(found.faults)


def emit_program(index: int) -> dict[str, Any]:
    """Emit the kernels of program `index` on the CPU; the comparison is tried on what PyTorch computes there."""
    p = programs.program(index)
    try:
        folders = kgen.build(p.reference(), [tensor for tensor, _ in p.make("cpu")], target=TARGET).folders
    except Exception as error:
        return refused(error)
    return {"rel_err": 0.0, "faults": sound(p), "folders": [str(folder) for folder in folders]}


def sound(p: Program) -> list[str]:
    """Return what the comparison has against eager PyTorch on the CPU: nothing, where a program is well conditioned."""
    tensors = [tensor for tensor, _ in p.make("cpu")]
    out = p.reference()(*tensors)
    return [f"eager PyTorch: {fault}" for fault in judged(p, out, tensors, "cpu")[1]]


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print failures, then counts and the largest error by kind."""
    print_failures(rows)
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["label"][4:].partition(":")[0], []).append(row)
    words = []
    for kind, found in sorted(kinds.items()):
        right = [row for row in found if not row["faults"]]
        worst = max((row["rel_err"] for row in right), default=0.0)
        words.append(f"{kind} {len(right)}/{len(found)} {worst:.0e}")
    for start in range(0, len(words), 4):
        print("   ".join(f"{word:<34}" for word in words[start : start + 4]))


def main() -> int:
    """Run the programs and print a table; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--only", type=int, nargs="+", help="indices of programs")
    parser.add_argument("--of-commit", action="store_true", help="the 30 programs that the commit's hash picks")
    parser.add_argument("--show", action="store_true", help="print the programs and do nothing")
    add_arguments(parser, processes=15)
    arguments = parser.parse_args()
    chosen = programs.of_commit(programs.commit()) if arguments.of_commit else range(programs.COUNT)
    chosen = sharded(arguments.only or chosen, arguments.shard)
    if arguments.show:
        print(*(programs.program(index) for index in chosen), sep="\n")
        return 0
    labels = {index: str(programs.program(index)) for index in chosen}
    return run_programs(Path(__file__), labels, arguments, LIMIT_SECONDS, print_table)


if __name__ == "__main__":
    sys.exit(main())
