"""Random pointwise and reduction programs as CDNA kernels, in kgen's simulator: no GPU is needed.

    python tests/gpu/cdna_programs.py --target mi300x --count 15 --of-commit    15 that the commit's hash picks
    python tests/gpu/cdna_programs.py --target mi355x --only 17 203             those

`cdna_simulation.py` says what is compared. Programs with fp8 are compared in the encoding of the target.
"""

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import programs
import torch
from cdna_simulation import Made, Script, add_arguments, answer
from program_model import Program
from random_programs import judged

from kgen import pipeline
from kgen.frontend.importers import spec_from_callable
from kgen.target import Device

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
    files = dict(pipeline.run(spec, device).made)["render"]
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

    def make(self, device: str = "cpu") -> Made:
        """Return the inputs, and the memory that each lies in."""
        return [(self._encoded(tensor), base) for tensor, base in self.program.make(device)]

    def _encoded(self, tensor: torch.Tensor) -> torch.Tensor:
        name = self.arch.encoded(str(tensor.dtype))
        return tensor if name == str(tensor.dtype) else tensor.to(getattr(torch, name.removeprefix("torch.")))


class SimulatedProgram:
    """Such a program as the simulator runs it."""

    def __init__(self, index: int, device: Device, _: Path) -> None:
        self.program = EncodedProgram(programs.program(index), device)

    def make(self) -> tuple[Made, list[torch.Tensor]]:
        """Return fresh inputs; a function has nothing hidden."""
        return self.program.make(), []

    def updated(self, tensors: list[torch.Tensor], _: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs that the program writes."""
        return [t for t, of_program in zip(tensors, self.program.tensors, strict=True) if of_program.updated]

    def wrong(self, out: Any, tensors: list[torch.Tensor], _: list[torch.Tensor]) -> list[str]:
        """Return what is wrong with a result."""
        return judged(self.program, out, tensors, "cpu")[1]


def main() -> int:
    """Emit the chosen programs, simulate them, and print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_arguments(parser)
    parser.add_argument("--count", type=int, default=100, help="how many, from the first on")
    parser.add_argument("--of-commit", action="store_true", help="those that the commit's hash picks")
    arguments = parser.parse_args()
    chosen = arguments.only or small()
    if not arguments.only:
        digest = f"{programs.commit()} {arguments.target}"
        chosen = of_commit(digest, arguments.count, chosen) if arguments.of_commit else chosen[: arguments.count]
    labels = {index: str(programs.program(index)) for index in chosen}
    script = Script(Path(__file__), labels, emit, SimulatedProgram)
    return answer(script, arguments, chosen)


if __name__ == "__main__":
    sys.exit(main())
