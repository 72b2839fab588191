"""Programs of several kernels, matrix products among loops, as CDNA kernels in kgen's simulator: no GPU is needed.

    python tests/gpu/cdna_mixed.py --target mi300x              all of mixed_cases.py
    python tests/gpu/cdna_mixed.py --target mi355x --only 3 9   those

`cdna_simulation.py` says what is compared, `mixed_programs.py` with what.
"""

import argparse
import json
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import mixed_cases
import torch
from cdna_simulation import Made, Script, add_arguments, answer
from mixed_programs import judged

from kgen import pipeline
from kgen.frontend.importers import spec_from_callable
from kgen.ir.graph import InputKind
from kgen.target import Device


def emit(index: int, device: Device, folder: Path) -> None:
    """Write the kernel.py of a program, and the paths of the parameters and buffers that it takes after its inputs."""
    case = mixed_cases.CASES[index]
    spec = spec_from_callable(case.reference("cpu"), [t for t, _ in case.program.make("cpu")], name=f"p{index}")
    made = dict(pipeline.run(spec, device).made)
    (program,) = made["lower"].values()
    paths = [a.path for a in program.arguments if a.kind is not InputKind.USER]
    (folder / f"p{index}.py").write_text(made["render"]["kernel.py"], encoding="utf-8")
    (folder / f"p{index}.json").write_text(json.dumps(paths), encoding="utf-8")


class SimulatedMixed:
    """Such a program as the simulator runs it: a module's parameters and buffers are hidden arguments."""

    def __init__(self, index: int, _: Device, folder: Path) -> None:
        self.case = mixed_cases.CASES[index]
        self.paths: list[str] = json.loads((folder / f"p{index}.json").read_text(encoding="utf-8"))
        self.buffers = {name for name, _ in self._module_buffers()}

    def _module_buffers(self) -> list[tuple[str, torch.Tensor]]:
        reference = self.case.reference("cpu")
        return [*reference.named_buffers()] if isinstance(reference, torch.nn.Module) else []

    def make(self) -> tuple[Made, list[torch.Tensor]]:
        """Return fresh inputs, and fresh parameters and buffers."""
        reference = self.case.reference("cpu")
        return self.case.program.make("cpu"), [attrgetter(path)(reference).detach() for path in self.paths]

    def updated(self, tensors: list[torch.Tensor], hidden: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs and the buffers that the program writes."""
        inputs = [t for t, of_case in zip(tensors, self.case.tensors, strict=True) if of_case.updated]
        return [*inputs, *(t for t, path in zip(hidden, self.paths, strict=True) if path in self.buffers)]

    def wrong(self, out: Any, tensors: list[torch.Tensor], hidden: list[torch.Tensor]) -> list[str]:
        """Return what is wrong with a result, and with the buffers in the module's order."""
        taken = dict(zip(self.paths, hidden, strict=True))
        state = [taken.get(name, unused) for name, unused in self._module_buffers()]
        return judged(self.case, out, tensors, state, "cpu")[1]


def main() -> int:
    """Emit the chosen programs, simulate them, and print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = arguments.only or list(range(len(mixed_cases.CASES)))
    labels = {index: str(mixed_cases.CASES[index]) for index in chosen}
    script = Script(Path(__file__), labels, emit, SimulatedMixed)
    return answer(script, arguments, chosen)


if __name__ == "__main__":
    sys.exit(main())
