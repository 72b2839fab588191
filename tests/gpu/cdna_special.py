"""NaNs, infinities and rows of nothing else, through CDNA kernels in kgen's simulator: no GPU is needed.

    python tests/gpu/cdna_special.py --target mi300x             all programs
    python tests/gpu/cdna_special.py --target mi355x --only 3    those

NaNs come with all bits set, with the sign, and signalling: rounding them to bf16 in integers can carry into the sign or
lose them. `cdna_simulation.py` says what else is compared.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cdna_simulation import Made, Script, add_arguments, answer
from torch.nn import functional as F

from kgen import pipeline
from kgen.frontend.importers import spec_from_callable
from kgen.target import Device

# of each type: NaNs with all bits, all bits and the sign, the last bit alone (signalling), then the infinities
BITS = {
    torch.bfloat16: (torch.int16, 0x7FFF, -1, 0x7F81, 0x7F80, -0x80),
    torch.float16: (torch.int16, 0x7FFF, -1, 0x7C01, 0x7C00, -0x400),
    torch.float32: (torch.int32, 0x7FFFFFFF, -1, 0x7F800001, 0x7F800000, -0x800000),
}
LIMITS = {torch.bfloat16: 0.01, torch.float32: 1e-4}


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), eps=1e-6)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],))


def softmax(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x, -1)


def to_bf16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16)


def twice(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 2.0).to(torch.bfloat16)


def largest(x: torch.Tensor) -> torch.Tensor:
    return x.amax(-1)


@dataclass(frozen=True, slots=True)
class Case:
    """One program, on one row of each kind."""

    reference: Callable[[torch.Tensor], torch.Tensor]
    dtype: torch.dtype
    columns: int

    def __str__(self) -> str:
        return f"{self.reference.__name__} of {self.dtype}, {self.columns} columns"


def special_rows(dtype: torch.dtype, columns: int) -> torch.Tensor:
    """Return rows of numbers, and rows that hold a few, or nothing but, the special values of a type."""
    kind, *found = BITS[dtype]
    torch.manual_seed(columns)
    rows = torch.randn(2 * len(found) + 1, columns).to(dtype).view(kind)
    for i, value in enumerate(found):
        rows[i, i :: columns // 2 + 1] = value
        rows[len(found) + i] = value
    return rows.view(dtype)


CASES = (
    *(Case(f, torch.bfloat16, n) for f in (softmax, rms_norm, layer_norm, largest) for n in (40, 1000, 4096)),
    *(Case(f, torch.bfloat16, 520) for f in (to_bf16, twice)),
    *(Case(f, d, 520) for f in (to_bf16, twice) for d in (torch.float16, torch.float32)),
    *(Case(f, torch.float32, 4100) for f in (softmax, layer_norm, largest)),
)


class SimulatedCase:
    """A case as the simulator runs it."""

    def __init__(self, index: int, *_: Any) -> None:
        self.case = CASES[index]

    def make(self) -> tuple[Made, list[torch.Tensor]]:
        """Return fresh inputs."""
        rows = special_rows(self.case.dtype, self.case.columns)
        return [(rows, rows)], []

    def updated(self, *_: Any) -> list[torch.Tensor]:
        """Return that nothing is written but the result."""
        return []

    def wrong(self, out: Any, tensors: list[torch.Tensor], _: list[torch.Tensor]) -> list[str]:
        """Return in how many rows the result differs from PyTorch's in fp64."""
        right = self.case.reference(tensors[0].double()).to(out.dtype).float()
        limit = LIMITS.get(out.dtype, 0.01)
        found, right = out.float().reshape(len(out), -1), right.reshape(len(out), -1)
        wrong = ~torch.isclose(found, right, rtol=limit, atol=limit, equal_nan=True)
        places = wrong.nonzero().tolist()
        return [f"[{row}, {at}] is {found[row, at]}, in PyTorch {right[row, at]}" for row, at in places]


def emit(index: int, device: Device, folder: Path) -> None:
    """Write the kernel.py of a case."""
    case = CASES[index]
    spec = spec_from_callable(case.reference, [special_rows(case.dtype, case.columns)], name=f"p{index}")
    made = dict(pipeline.run(spec, device).made)
    (folder / f"p{index}.py").write_text(made["render"]["kernel.py"], encoding="utf-8")


def main() -> int:
    """Emit the chosen cases, simulate them, and print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_arguments(parser)
    arguments = parser.parse_args()
    chosen = arguments.only or list(range(len(CASES)))
    script = Script(Path(__file__), {index: str(CASES[index]) for index in chosen}, emit, SimulatedCase)
    return answer(script, arguments, chosen)


if __name__ == "__main__":
    sys.exit(main())
