"""Plan: for each case of a spec, the guarded variants of its kernel, in the order the host tries them."""

from dataclasses import dataclass

from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning.candidates import Candidates, RankedCandidate
from kgen.target import Device

RUNNERS_UP = 3  # candidates a later measurement may try; the baseline itself takes none of them


@dataclass(frozen=True, slots=True)
class Guard:
    """When a variant may run: the extents are the case's, and the base addresses are this well aligned."""

    base_align: tuple[tuple[str, int], ...]  # (tensor, bytes), only where more than the element type's alignment

    def __str__(self) -> str:
        if not self.base_align:
            return "any base address"
        return ", ".join(f"{tensor} on {count} bytes" for tensor, count in self.base_align)


@dataclass(frozen=True, slots=True)
class Variant:
    """One kernel of the plan: what it serves, the choice made for it, and the choices that came next."""

    name: str
    case: str
    guard: Guard
    form: GemmForm
    facts: GemmFacts
    choice: RankedCandidate
    runners_up: tuple[RankedCandidate, ...]
    candidates: Candidates

    @property
    def load_path(self) -> str:
        """How operands reach shared memory: `tma`, `staged` or `simt`."""
        return str(self.choice.candidate.value("load_path"))

    @property
    def store_path(self) -> str:
        """How D is written: `tma` or `direct`."""
        return str(self.choice.candidate.value("store_path"))


@dataclass(frozen=True, slots=True)
class Plan:
    """All variants of one package on one device."""

    name: str
    family: str
    device: Device
    variants: tuple[Variant, ...]

    def __str__(self) -> str:
        lines = [f"plan {self.name} on {self.device.name} ({self.family})"]
        for v in self.variants:
            lines.append(f"  {v.name}: case {v.case}, {v.guard}")
            lines.append(f"    {v.choice.candidate}  predicted {v.choice.time_us:.1f} us")
        return "\n".join(lines)
