"""What a simulated launch leaves: what is wrong with the kernel, and what it executed.

A finding stands for all its occurrences at one line of the ISA text; the first is described. Counts are of waves: an
instruction that 4 waves run 10 times counts 40. Bytes are those of active lanes.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeVar

Key = TypeVar("Key")


class FindingKind(Enum):
    """What the checks look for."""

    LDS_RACE = "LDS race"  # two waves touch a byte between the same barriers, one of them writes
    MISSING_WAIT = "missing wait"  # a result is used, or its place overwritten, before s_waitcnt has covered it
    OUT_OF_BOUNDS = "out of bounds"  # outside of every Buffer, or of the workgroup's LDS or scratch memory
    POISON_READ = "poison read"  # storage that was never written decides an address or what is stored
    GLOBAL_OVERLAP = "global overlap"  # two workgroups store to the same byte without atomics


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of error at one instruction. `line` is 1-based in the ISA text; workgroup and wave are the first's."""

    kind: FindingKind
    line: int
    instruction: str
    detail: str
    workgroup: tuple[int, int, int]
    wave: int
    occurrences: int

    def __str__(self) -> str:
        times = "" if self.occurrences == 1 else f" ({self.occurrences} times)"
        at = f"workgroup {','.join(map(str, self.workgroup))} wave {self.wave}"
        return f"line {self.line}: {self.kind.value}: {self.detail}; {at}{times}: {self.instruction}"


class InstructionClass(Enum):
    """The unit that executes an instruction."""

    MFMA = "mfma"
    VALU = "valu"
    SALU = "salu"
    BRANCH = "branch"
    SMEM = "smem"  # scalar loads
    GLOBAL = "global"  # buffer and global loads and stores into registers, and atomics
    LDS_COPY = "lds copy"  # asynchronous loads from global memory into LDS
    LDS = "lds"
    SCRATCH = "scratch"  # spills
    WAIT = "wait"
    BARRIER = "barrier"
    OTHER = "other"  # s_nop, priorities, cache control


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """What one instruction of the program did in the whole launch, summed over waves."""

    line: int
    mnemonic: str
    unit: InstructionClass
    executed: int
    global_read_bytes: int = 0
    global_written_bytes: int = 0
    lds_read_bytes: int = 0
    lds_written_bytes: int = 0
    bank_conflict_cycles: int = 0  # LDS cycles above the least that the same access needs
    flops: int = 0  # MFMA only: 2 m n k a time


@dataclass(frozen=True, slots=True)
class WaitCount:
    """One s_waitcnt: how many vector-memory and LDS/scalar operations were in flight, at most, before and after it."""

    line: int
    executed: int
    vector_before: int
    vector_after: int
    lgkm_before: int
    lgkm_after: int


def _sums(pairs: Iterable[tuple[Key, int]]) -> Counter[Key]:
    total: Counter[Key] = Counter()
    for key, number in pairs:
        total[key] += number
    return total


@dataclass(frozen=True)
class Counts:
    """Dynamic counts of a program, or of a range of it, in program order."""

    instructions: tuple[InstructionCount, ...]
    waits: tuple[WaitCount, ...]

    @cached_property
    def by_class(self) -> Counter[InstructionClass]:
        """Executed wave-instructions per class."""
        return _sums((c.unit, c.executed) for c in self.instructions)

    @cached_property
    def by_mnemonic(self) -> Counter[str]:
        """Executed wave-instructions per mnemonic."""
        return _sums((c.mnemonic, c.executed) for c in self.instructions)

    @property
    def executed(self) -> int:
        """All executed wave-instructions."""
        return sum(c.executed for c in self.instructions)

    @property
    def flops(self) -> int:
        """Floating-point (or integer) operations of all MFMAs."""
        return sum(c.flops for c in self.instructions)

    @property
    def global_bytes(self) -> int:
        """Bytes that vector instructions read from and wrote to global memory."""
        return sum(c.global_read_bytes + c.global_written_bytes for c in self.instructions)

    @property
    def lds_bytes(self) -> int:
        """Bytes read from and written to LDS."""
        return sum(c.lds_read_bytes + c.lds_written_bytes for c in self.instructions)

    @property
    def bank_conflict_cycles(self) -> int:
        """LDS cycles lost to bank conflicts."""
        return sum(c.bank_conflict_cycles for c in self.instructions)


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a simulated launch; the stores are in the buffers it was given."""

    kernel: str
    arch: str
    findings: tuple[Finding, ...]
    counts: Counts
    steady_loop: Counts | None  # the innermost loop with most MFMAs; None where no loop has one

    def of_kind(self, kind: FindingKind) -> tuple[Finding, ...]:
        """Return the findings of one kind, in program order."""
        return tuple(f for f in self.findings if f.kind is kind)

    @property
    def races(self) -> tuple[Finding, ...]:
        return self.of_kind(FindingKind.LDS_RACE)

    @property
    def missing_waits(self) -> tuple[Finding, ...]:
        return self.of_kind(FindingKind.MISSING_WAIT)

    @property
    def out_of_bounds(self) -> tuple[Finding, ...]:
        return self.of_kind(FindingKind.OUT_OF_BOUNDS)

    @property
    def poison_reads(self) -> tuple[Finding, ...]:
        return self.of_kind(FindingKind.POISON_READ)

    @property
    def global_overlaps(self) -> tuple[Finding, ...]:
        return self.of_kind(FindingKind.GLOBAL_OVERLAP)
