"""Where an instruction is: how its accesses to global memory are executed, checked and counted."""

from dataclasses import dataclass

import numpy as np

from kgen.simulator.arrays import Array, Bytes, Mask, Rows
from kgen.simulator.machine import GLOBAL_READ, GLOBAL_WRITTEN, Machine
from kgen.simulator.program import Instruction
from kgen.simulator.report import FindingKind
from kgen.simulator.wave import Wave

CACHE_POLICY = frozenset({"sc0", "sc1", "nt", "glc", "slc"})  # which caches to pass by: without an effect here


@dataclass(frozen=True, slots=True)
class Site:
    """Where an instruction is, for its findings and counters."""

    machine: Machine
    pc: int

    def count(self, kind: int, number: int) -> None:
        """Count bytes moved."""
        self.machine.counters.bytes[self.pc, kind] += number

    def check(self, wave: Wave, rows: Rows, addresses: Array, held: Mask, size: int, verb: str) -> None:
        """Note accesses outside of every buffer."""
        if held.all():
            return
        bad = int(np.argmin(held))

        def detail() -> str:
            return f"{verb} {size} bytes at address {int(addresses[bad]):#x}, outside of its buffer"

        self.machine.findings.add(
            FindingKind.OUT_OF_BOUNDS, self.pc, wave.index, int(rows[bad]), int((~held).sum()), detail
        )

    def load(
        self, wave: Wave, rows: Rows, addresses: Array, size: int, home: Array | None = None, *, counted: bool = True
    ) -> Bytes:
        """Load and check; scalar loads are not counted, as they are not what a kernel streams."""
        loaded, held = self.machine.memory.load(addresses, size, home)
        self.check(wave, rows, addresses, held, size, "loads")
        if counted:
            self.count(GLOBAL_READ, len(rows) * size)
        return loaded

    def store(self, wave: Wave, rows: Rows, addresses: Array, values: Bytes, home: Array | None = None) -> None:
        """Store and check."""
        workgroups = self.machine.findings.numbers[rows]
        held, overlaps = self.machine.memory.store(addresses, values, workgroups, home)
        size = values.shape[1]
        self.check(wave, rows, addresses, held, size, "stores")
        self.count(GLOBAL_WRITTEN, len(rows) * size)
        if overlaps.any():
            first = int(np.argmax(overlaps))

            def detail() -> str:
                return f"stores to address {int(addresses[first]):#x}, where another workgroup has stored"

            row, number = int(rows[first]), int(overlaps.sum())
            self.machine.findings.add(FindingKind.GLOBAL_OVERLAP, self.pc, wave.index, row, number, detail)


def site_of(instruction: Instruction, machine: Machine) -> Site:
    """Return the site of an instruction of the launch."""
    return Site(machine, machine.pcs[instruction.line])
