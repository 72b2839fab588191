"""Random pointwise and reduction programs as CDNA kernels, in kgen's simulator: no GPU is needed.

    python tests/gpu/cdna_programs.py --target mi300x --count 15 --of-commit    15 that the commit's hash picks
    python tests/gpu/cdna_programs.py --target mi355x --only 17 203             those

Each kernel is compiled for the target and its machine code executed, in two orders of waves and with two patterns in
what nothing has written: the results have to be the same bytes, and right, and the simulator may find nothing (races,
missing waits, accesses out of bounds). Programs with fp8 are compared in the encoding of the target.
"""

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import programs
import torch
from compare import bits, tensors_of
from program_model import Program
from random_programs import judged

from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.target import Device, load_device

# Programs that a simulator of a few million instructions a second runs in reasonable time.
MOST_ELEMENTS = 400_000


def of_commit(digest: str, count: int, chosen: list[int]) -> list[int]:
    """Return `count` of the programs, those that a commit's hash picks."""
    return sorted(random.Random(digest).sample(chosen, count))


def small() -> list[int]:
    """Return the programs whose tensors are small enough to be simulated."""
    sizes = {i: sum(torch.Size(t.shape).numel() for t in programs.program(i).tensors) for i in range(programs.COUNT)}
    return [i for i, size in sizes.items() if size <= MOST_ELEMENTS]


def emit(index: int, device: Device, folder: Path) -> None:
    """Write the kernel.py of a program."""
    p = programs.program(index)
    spec = spec_from_callable(p.reference(), [t for t, _ in p.make("cpu")], name=f"p{index}")
    files = dict(run(spec, device).made)["render"]
    (folder / f"p{index}.py").write_text(files["kernel.py"], encoding="utf-8")


class EncodedProgram:
    """A program whose fp8 types are the target's own."""

    def __init__(self, program: Program, device: Device) -> None:
        self.program, self.arch = program, device.arch
        self.tensors, self.limit = program.tensors, program.limit

    def reference(self) -> Callable[..., Any]:
        """Return the reference, of source that names the target's types."""
        names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(self.arch.encoded(self.program.source), names)
        found: Callable[..., Any] = names["reference"]
        return found

    def make(self, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the inputs, and the memory that each lies in."""
        return [(self._encoded(tensor), base) for tensor, base in self.program.make(device)]

    def _encoded(self, tensor: torch.Tensor) -> torch.Tensor:
        name = self.arch.encoded(str(tensor.dtype))
        return tensor if name == str(tensor.dtype) else tensor.to(getattr(torch, name.removeprefix("torch.")))


class Simulation:
    """This process as the host of kernels in the simulator."""

    def __init__(self, device: Device) -> None:
        from kgen.check.flydsl.capture import captured
        from kgen.check.flydsl.device import SimulatedDevice
        from kgen.check.flydsl.executor import Executor
        from kgen.check.flydsl.hip import HipStub
        from kgen.check.flydsl.stand_ins import hip_stub

        self.device, self.memory = device, SimulatedDevice(device)
        self.stack = ExitStack()  # what is captured stays so until the process ends
        compiles = self.stack.enter_context(captured())
        self.executor = Executor(lambda on_launch: HipStub(hip_stub(), on_launch), compiles)

    def faults(self, p: EncodedProgram, kernel: ModuleType) -> list[str]:
        """Run a program under each of the free choices; return what is wrong."""
        from kgen.check.flydsl.executor import CHOICES

        found, results = list[str](), list[list[torch.Tensor]]()
        for choice in CHOICES:
            made = p.make("cpu")
            tensors = [tensor for tensor, _ in made]
            self.memory.clear()
            self.memory.put(*(base for _, base in made), *tensors)
            with self.executor.on(self.memory, choice):
                out = kernel.kernel(*tensors)
            for execution in self.executor.take_executions():
                found += [str(finding) for finding in execution.report.findings] if execution.report else []
            results.append([bits(x).clone() for x in tensors_of(out)])
        if any(not torch.equal(one, other) for one, other in zip(*results, strict=True)):
            found.append("the results depend on the order of waves, or on what nothing has written")
        return found + judged(p, out, tensors, "cpu")[1]


def simulate(folder: Path, target: str, indices: list[int]) -> None:
    """Simulate programs that were emitted, one JSON line each: the program of the subprocess."""
    torch.set_grad_enabled(False)
    simulation = Simulation(load_device(target))
    for index in indices:
        p = EncodedProgram(programs.program(index), simulation.device)
        try:
            faults = simulation.faults(p, _loaded(folder / f"p{index}.py"))
        except Exception as error:
            faults = [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        print(json.dumps({"index": index, "faults": faults}), flush=True)


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def simulated(folder: Path, device: Device, indices: list[int]) -> list[dict[str, Any]]:
    """Simulate programs in a process of their own, as FlyDSL is for one arch a process."""
    from kgen.check.flydsl.stand_ins import rocm_path
    from kgen.check.flydsl.toolchain import cross_environment

    command = [
        sys.executable,
        __file__,
        "--target",
        device.name,
        "--simulate",
        str(folder),
        "--only",
        *map(str, indices),
    ]
    environment = {**os.environ, **cross_environment(device.arch.isa, rocm_path())}
    with (folder / "stderr").open("w+", encoding="utf-8") as stderr:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
        stderr.seek(0)
        errors = [line for line in stderr if "error:" in line]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"index"')]
    missing = [i for i in indices if i not in {row["index"] for row in rows}]
    rows += [{"index": i, "faults": [f"not reached, exit status {done.returncode}"]} for i in missing]
    return rows + ([{"index": -1, "faults": errors}] if errors else [])


def main() -> int:
    """Emit the chosen programs, simulate them, and print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", default="mi300x")
    parser.add_argument("--only", type=int, nargs="+", help="indices of programs")
    parser.add_argument("--count", type=int, default=100, help="how many, from the first on")
    parser.add_argument("--of-commit", action="store_true", help="those that the commit's hash picks")
    parser.add_argument("--simulate", type=Path, help="a folder of emitted kernels: the subprocess")
    arguments = parser.parse_args()
    if arguments.simulate:
        simulate(arguments.simulate, arguments.target, arguments.only)
        return 0
    device, chosen = load_device(arguments.target), arguments.only or small()
    if not arguments.only:
        digest = f"{programs.commit()} {arguments.target}"
        chosen = of_commit(digest, arguments.count, chosen) if arguments.of_commit else chosen[: arguments.count]
    with tempfile.TemporaryDirectory() as folder:
        for index in chosen:
            emit(index, device, Path(folder))
        rows = simulated(Path(folder), device, chosen)
    for row in rows:
        if row["faults"]:
            print(
                programs.program(row["index"]) if row["index"] >= 0 else "the compiler", *row["faults"][:3], sep="\n  "
            )
    wrong = sum(bool(row["faults"]) for row in rows)
    print(f"{len(chosen)} programs on {arguments.target}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
