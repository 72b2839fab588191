"""What all waves of a launch share: the program, memory, findings and counters."""

from dataclasses import dataclass, field

import numpy as np

from kgen.simulator.arrays import Array, Rows
from kgen.simulator.findings import Findings
from kgen.simulator.global_memory import GlobalMemory
from kgen.simulator.launch import Poison
from kgen.simulator.lds import Lds
from kgen.simulator.program import Program


@dataclass(slots=True)
class Counters:
    """What the instructions did, one entry an instruction."""

    executed: list[int]
    bytes: Array  # [instruction, (global read, global written, LDS read, LDS written)]
    bank_conflict_cycles: Array
    in_flight: Array  # [instruction, (vector before, after, lgkm before, after)]: the most at any execution of a wait

    @staticmethod
    def of(program: Program) -> "Counters":
        """Return counters at zero."""
        count = len(program.instructions)
        tables = (np.zeros((count, 4), np.int64), np.zeros(count, np.int64), np.zeros((count, 4), np.int64))
        return Counters([0] * count, *tables)


GLOBAL_READ, GLOBAL_WRITTEN, LDS_READ, LDS_WRITTEN = range(4)


@dataclass(slots=True)
class Machine:
    """The launch in progress. `lds` and `scratch` are those of the batch of workgroups that is simulated."""

    program: Program
    poison: Poison
    memory: GlobalMemory
    findings: Findings
    counters: Counters
    lds_bytes: int
    lds_granule: int
    lds: Lds = field(init=False)
    scratch: dict[int, Array] = field(init=False)  # wave -> bytes [workgroup of the batch, lane, byte]
    batch: int = field(init=False)
    pcs: dict[int, int] = field(init=False)  # line of the ISA text -> instruction

    def __post_init__(self) -> None:
        self.pcs = {instruction.line: pc for pc, instruction in enumerate(self.program.instructions)}

    def start_batch(self, numbers: Rows) -> None:
        """Give a batch of workgroups its memory."""
        self.findings.numbers = numbers
        self.batch = len(numbers)
        self.lds = Lds(self.batch, self.lds_bytes, self.lds_granule, self.poison, self.findings)
        self.scratch = {}

    def scratch_of(self, wave: int) -> Array:
        """Return the scratch memory of one wave of every workgroup of the batch."""
        if wave not in self.scratch:
            words = -(-self.program.scratch_bytes // 16) * 4 + 4
            memory = np.full((self.batch, 64, words), self.poison.value, np.uint32)
            self.scratch[wave] = memory.view(np.uint8)
        return self.scratch[wave]
