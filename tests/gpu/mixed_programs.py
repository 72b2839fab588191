"""Programs of several kernels, matrix products among loops, through `kgen.build`.

    python tests/gpu/mixed_programs.py --out RECORDS           on the GPU
    python tests/gpu/mixed_programs.py --dry-run [--compile]   without one: emits every kernel, or compiles it too
    python tests/gpu/mixed_programs.py --show --only 3         prints programs

Each result is compared with the reference in float64: rel_err, dtype, shape, places of NaN and infinities; two runs
bit for bit on poisoned results; inputs unchanged, but for those that the program updates. So are the buffers of
modules in train mode.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import mixed_cases
import torch
from compare import bits, check_runs, compare_all, expected_of, tensors_of, widened
from mixed_cases import Mixed
from program_runs import refused, run_programs
from sharding import add_arguments, is_of_the_device, print_failures, sharded

import kgen

TARGET = "h200"
LIMIT_SECONDS = 60.0


def run_program(index: int) -> dict[str, Any]:
    """Build program `index` on the GPU and compare it; run by a child process."""
    case = mixed_cases.CASES[index]
    made = case.program.make("cuda")
    tensors, bases = [tensor for tensor, _ in made], [base for _, base in made]
    reference = case.reference("cuda")
    started = time.perf_counter()
    try:
        kernel = kgen.build(reference, tensors, target=TARGET)
    except Exception as error:
        if is_of_the_device(error):
            raise
        return refused(error)
    seconds = time.perf_counter() - started
    state = mixed_cases.state_of(reference)
    written = [*state, *(base for t, base in zip(case.tensors, bases, strict=True) if t.updated)]
    kept, old = [base.clone() for base in bases], [tensor.clone() for tensor in written]

    def fresh(*arguments: torch.Tensor) -> Any:
        for tensor, before in zip(written, old, strict=True):
            tensor.copy_(before)
        return kernel(*arguments)

    with torch.no_grad():
        out, faults = check_runs(fresh, tensors)
        rel_err, wrong = judged(case, out, tensors, state, "cuda")
    for tensor, base, before in zip(case.tensors, bases, kept, strict=True):
        if not tensor.updated and not torch.equal(bits(base), bits(before)):
            wrong.append(f"the kernel wrote into {tensor.name} or between its rows")
    return {"rel_err": rel_err, "faults": faults + wrong, "build_s": round(seconds, 2)}


def judged(
    case: Mixed, out: Any, tensors: list[torch.Tensor], state: list[torch.Tensor], device: str
) -> tuple[float, list[str]]:
    """Compare the results, and the tensors and buffers that the program updates, with the reference in float64."""
    fresh = [tensor for tensor, _ in case.program.make(device)]
    wide, eager = widened(fresh), case.reference(device)
    exact = mixed_cases.in_float64(eager)
    want = expected_of(exact, wide)
    like = eager(*fresh)
    changed = [place for place, tensor in enumerate(case.tensors) if tensor.updated]
    found = compare_all(
        (*tensors_of(out), *(tensors[place] for place in changed), *state),
        (*tensors_of(want), *(wide[place] for place in changed), *mixed_cases.state_of(exact)),
        (*tensors_of(like), *(fresh[place] for place in changed), *mixed_cases.state_of(eager)),
        case.limit,
    )
    return found.rel_err, list(found.faults)


def emit_program(index: int) -> dict[str, Any]:
    """Emit the kernels of program `index` on the CPU; the comparison is tried on what PyTorch computes there."""
    case = mixed_cases.CASES[index]
    tensors, reference = [tensor for tensor, _ in case.program.make("cpu")], case.reference("cpu")
    try:
        folders = kgen.build(reference, tensors, target=TARGET).folders
    except Exception as error:
        return refused(error)
    with torch.no_grad():
        out = reference(*tensors)
        faults = judged(case, out, tensors, mixed_cases.state_of(reference), "cpu")[1]
    return {"rel_err": 0.0, "faults": faults, "folders": [str(folder) for folder in folders]}


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print failures, then the error of each program."""
    print_failures(rows)
    words = [f"{row['label'].partition(':')[0]} {row.get('rel_err', 0.0):.0e}" for row in rows if not row["faults"]]
    for start in range(0, len(words), 3):
        print("   ".join(f"{word:<42}" for word in words[start : start + 3]))


def main() -> int:
    """Run the programs and print a table; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--only", type=int, nargs="+", help="indices of programs")
    parser.add_argument("--show", action="store_true", help="print the programs and do nothing")
    add_arguments(parser, processes=14)
    arguments = parser.parse_args()
    chosen = sharded(arguments.only or range(len(mixed_cases.CASES)), arguments.shard)
    if arguments.show:
        print(*(mixed_cases.CASES[index] for index in chosen), sep="\n")
        return 0
    labels = {index: str(mixed_cases.CASES[index]) for index in chosen}
    return run_programs(Path(__file__), labels, arguments, LIMIT_SECONDS, print_table)


if __name__ == "__main__":
    sys.exit(main())
