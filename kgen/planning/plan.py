"""Plan: the guarded variants of every kernel in every case of a spec, in the order the host tries and launches them."""

from dataclasses import dataclass
from typing import Protocol

from kgen.families.classify import Form
from kgen.ir.tensor import ExtentRange
from kgen.planning.choice import Candidates, RankedCandidate
from kgen.rules.model import Value
from kgen.target import Device

RUNNERS_UP = 3  # candidates a later measurement may try; the baseline itself takes none of them


class Facts(Protocol):
    """What the rules of a family read of a problem."""

    def as_mapping(self) -> dict[str, Value | float]:
        """Return the facts by name."""


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
    """One kernel function of the plan: what it serves, the choice made for it, and the choices that came next."""

    name: str
    case: str
    kernel: str  # name of its Problem
    guard: Guard
    form: Form
    facts: Facts
    choice: RankedCandidate
    runners_up: tuple[RankedCandidate, ...]
    candidates: Candidates
    fixed: tuple[tuple[str, Value], ...]  # axes that were decided before it was solved, by the spec or another variant

    @property
    def family(self) -> str:
        """The family of its kernel."""
        return self.form.family


@dataclass(frozen=True, slots=True)
class Interval:
    """Values of an extent of run time, `first..last`, and the variants that serve them, in the order they are tried.

    `time_us` is predicted of the first of them at `last`, `best_us` of the best candidate there.
    """

    first: int
    last: int
    variants: tuple[str, ...]
    time_us: float
    best_us: float
    because: str


@dataclass(frozen=True, slots=True)
class Dynamic:
    """How a plan serves an extent of run time.

    `source` is an input, and the axis of it that has the extent. The extent `axis` of the kernel ("m" or "n", of the
    product as it was written) is `scale` times its value plus `offset`. `served` has the variants of each test case as
    they are at its value.
    """

    extent: ExtentRange
    source: tuple[str, int]
    axis: str
    scale: int
    offset: int
    intervals: tuple[Interval, ...]
    served: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All variants of one package on one device.

    They stand by case, in a case by kernel in launch order, of a kernel in the order the host tries them. `cut` says
    why the program has the kernels that it has, a reason a line; nothing where it has one. Where an extent is left to
    run time, variants belong to its intervals, and cases are values that tests run at.
    """

    name: str
    device: Device
    variants: tuple[Variant, ...]
    cut: tuple[str, ...] = ()
    dynamic: Dynamic | None = None

    @property
    def by_case(self) -> tuple[Variant, ...]:
        """The variants of every case, as they are in it."""
        return self.variants if self.dynamic is None else self.dynamic.served

    @property
    def family(self) -> str:
        """The families of the kernels in launch order, each once, joined by "+"."""
        return "+".join(dict.fromkeys(v.family for v in self.variants))

    def kernels_of(self, case: str) -> tuple[str, ...]:
        """Return the names of a case's kernels in launch order."""
        return tuple(dict.fromkeys(v.kernel for v in self.by_case if v.case == case))

    def variants_of(self, case: str, kernel: str) -> tuple[Variant, ...]:
        """Return the variants of one kernel in one case, in the order the host tries them."""
        return tuple(v for v in self.by_case if (v.case, v.kernel) == (case, kernel))

    def __str__(self) -> str:
        lines = [f"plan {self.name} on {self.device.name} ({self.family})", *(f"  {reason}" for reason in self.cut)]
        for v in self.variants:
            lines.append(f"  {v.name}: case {v.case}, {v.guard}")
            lines.append(f"    {v.choice.candidate}  predicted {v.choice.time_us:.1f} us")
        for i in self.dynamic.intervals if self.dynamic else ():
            lines.append(f"  {i.first}..{i.last}: {', '.join(i.variants)}; {i.because}")
        return "\n".join(lines)
