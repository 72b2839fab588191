"""What the simulator counted of a kernel: the static performance evidence where nothing can be timed.

Counts are of executed instructions, summed over the waves that ran; what is stated here per flop or per MFMA does not
depend on how many workgroups ran.
"""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """Counts of a range of a kernel. `flops` are those of MFMAs, and include integer ones.

    `loads_in_flight` are the vector-memory operations in flight, at most, when each wait for them is reached, and how
    many that wait leaves, in program order.
    """

    executed: int
    mfma: int
    flops: int
    global_bytes: int
    lds_bytes: int
    bank_conflict_cycles: int
    loads_in_flight: tuple[tuple[int, int], ...] = ()

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "RangeCounts":
        """Return the counts that `dataclasses.asdict` and JSON made `stored` of."""
        return cls(**stored | {"loads_in_flight": tuple((before, left) for before, left in stored["loads_in_flight"])})

    @property
    def mfma_share(self) -> float:
        """The MFMAs among the executed instructions."""
        return self.mfma / self.executed if self.executed else 0.0

    @property
    def others_per_mfma(self) -> float | None:
        """Executed instructions that are no MFMA, for each that is one."""
        return (self.executed - self.mfma) / self.mfma if self.mfma else None

    def per_flop(self, count: int) -> float | None:
        """Return a count for each flop of an MFMA, None where there are none."""
        return count / self.flops if self.flops else None

    def to_json(self) -> dict[str, Any]:
        """Return the counts and what follows from them."""
        return asdict(self) | {
            "mfma_share": self.mfma_share,
            "others_per_mfma": self.others_per_mfma,
            "global_bytes_per_flop": self.per_flop(self.global_bytes),
            "lds_bytes_per_flop": self.per_flop(self.lds_bytes),
        }


@dataclass(frozen=True, slots=True)
class SimulatedKernel:
    """One launch of a case. `steady` is the innermost loop with most MFMAs, None where no loop has one."""

    case: str
    variant: str | None
    kernel: str
    workgroups: int
    executed_workgroups: int
    whole: RangeCounts
    steady: RangeCounts | None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "SimulatedKernel":
        """Return the launch that `dataclasses.asdict` and JSON made `stored` of."""
        steady = stored["steady"] and RangeCounts.from_json(stored["steady"])
        return cls(**stored | {"whole": RangeCounts.from_json(stored["whole"]), "steady": steady})

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        steady = None if self.steady is None else self.steady.to_json()
        return asdict(self) | {"whole": self.whole.to_json(), "steady": steady}
