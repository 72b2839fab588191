"""The findings of a run, collected: one for each kind and instruction, the first occurrence described."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kgen.simulator.arrays import Rows
from kgen.simulator.launch import Extent3
from kgen.simulator.program import Program
from kgen.simulator.report import Finding, FindingKind


class Findings:
    """Collects what the checks find."""

    def __init__(self, program: Program, grid: Extent3) -> None:
        self.program = program
        self.grid = grid
        self.numbers: Rows = np.zeros(0, np.int64)  # of the batch's workgroups, in the grid
        self._found: dict[tuple[FindingKind, int], Finding] = {}

    def add(self, kind: FindingKind, pc: int, wave: int, row: int, occurrences: int, detail: Callable[[], str]) -> None:
        """Note a fault of the instruction at `pc`, first seen in a wave of the batch's workgroup `row`."""
        known = self._found.get((kind, pc))
        if known is None:
            instruction = self.program.instructions[pc]
            known = Finding(kind, instruction.line, instruction.text, detail(), self.workgroup(row), wave, 0)
        self._found[kind, pc] = replace(known, occurrences=known.occurrences + occurrences)

    def workgroup(self, row: int) -> Extent3:
        """Return the coordinates of a workgroup of the batch."""
        number = int(self.numbers[row])
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def ordered(self) -> tuple[Finding, ...]:
        """Return the findings in program order."""
        return tuple(sorted(self._found.values(), key=lambda f: (f.line, f.kind.value)))
