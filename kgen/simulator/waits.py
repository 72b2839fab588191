"""Operations in flight, and s_waitcnt: which registers and LDS bytes are not there yet.

Vector memory operations (loads, stores, atomics, copies to LDS) complete in the order in which a wave issued them;
`vmcnt(n)` waits until at most n are left. LDS operations complete in order too; scalar loads do not; both count in
lgkmcnt. So `lgkmcnt(n)` with n > 0 proves that at most n LDS operations are left, and nothing about scalar loads.
(CDNA3 ISA reference, section "Data dependency resolution".)
"""

from enum import Enum
from typing import assert_never

import numpy as np

from kgen.simulator.arrays import Array, Mask
from kgen.simulator.program import SGPRS


def scalar_id(register: int) -> int:
    """Return the number of a scalar register in sets that hold vector registers (0, 1, ...) as well."""
    return -1 - register


class Queue(Enum):
    """Who returns a result."""

    VECTOR = "vmcnt"
    LDS = "lgkmcnt"
    SCALAR = "lgkmcnt (scalar load)"


class InFlight:
    """The operations of one wave that have not been waited for. Arrays have one entry a workgroup, [w] or [reg, w]."""

    def __init__(self, registers: int, workgroups: int) -> None:
        self.vector_issued = np.zeros(workgroups, np.int32)
        self.vector_done = np.zeros(workgroups, np.int32)
        self.lds_issued = np.zeros(workgroups, np.int32)
        self.lds_done = np.zeros(workgroups, np.int32)
        self.scalars_out = np.zeros(workgroups, np.int32)
        # The number of the operation after which a register is there; 0 where none is to come.
        self.due_vector = np.zeros((registers, workgroups), np.int32)
        self.due_lds = np.zeros((registers, workgroups), np.int32)
        self.due_scalar = np.zeros((SGPRS, workgroups), np.bool_)
        self.pending: set[int] = set()  # the registers with something to come, by `scalar_id` and vector number

    ARRAYS = ("vector_issued", "vector_done", "lds_issued", "lds_done", "scalars_out")
    TABLES = ("due_vector", "due_lds", "due_scalar")

    def take(self, which: Array) -> "InFlight":
        """Return what is in flight for some of the workgroups."""
        part = object.__new__(InFlight)
        for name in self.ARRAYS:
            setattr(part, name, getattr(self, name)[which])
        for name in self.TABLES:
            setattr(part, name, np.ascontiguousarray(getattr(self, name)[:, which]))
        part.pending = set(self.pending)
        return part

    def join(self, other: "InFlight") -> "InFlight":
        """Return what is in flight for the workgroups of both."""
        both = object.__new__(InFlight)
        for name in self.ARRAYS:
            setattr(both, name, np.concatenate([getattr(self, name), getattr(other, name)]))
        for name in self.TABLES:
            setattr(both, name, np.concatenate([getattr(self, name), getattr(other, name)], axis=1))
        both.pending = self.pending | other.pending
        return both

    def issue_vector(self, registers: range) -> None:
        """Note a vector memory operation that will write `registers` (none for stores and copies to LDS)."""
        self.vector_issued += 1
        if registers:
            self.due_vector[registers.start : registers.stop] = self.vector_issued
            self.pending.update(registers)

    def issue_lds(self, registers: range) -> None:
        """Note an LDS operation that will write `registers`."""
        self.lds_issued += 1
        if registers:
            self.due_lds[registers.start : registers.stop] = self.lds_issued
            self.pending.update(registers)

    def issue_scalar(self, registers: range) -> None:
        """Note a scalar load."""
        self.scalars_out += 1
        self.due_scalar[registers.start : registers.stop] = True
        self.pending.update(scalar_id(register) for register in registers)

    def outstanding(self) -> tuple[int, int]:
        """Return how many operations count in vmcnt and lgkmcnt, at most over the workgroups."""
        vector = self.vector_issued - self.vector_done
        lgkm = self.lds_issued - self.lds_done + self.scalars_out
        return int(vector.max()), int(lgkm.max())

    def wait(self, vmcnt: int | None, lgkmcnt: int | None) -> None:
        """Let the operations complete that an s_waitcnt proves complete."""
        if vmcnt is not None:
            np.maximum(self.vector_done, self.vector_issued - vmcnt, out=self.vector_done)
        if lgkmcnt == 0:
            self.lds_done[:] = self.lds_issued
            self.scalars_out[:] = 0
            self.due_scalar[:] = False
        elif lgkmcnt is not None:
            np.maximum(self.lds_done, self.lds_issued - lgkmcnt, out=self.lds_done)
        if self.pending:
            late = (self.due_vector > self.vector_done) | (self.due_lds > self.lds_done)
            self.pending = set(np.flatnonzero(late.any(axis=1)).tolist())
            self.pending.update(scalar_id(int(r)) for r in np.flatnonzero(self.due_scalar.any(axis=1)))

    def late(self, register: int, queue: Queue) -> Mask:
        """Return for which workgroups a register still waits for an operation of a queue."""
        match queue:
            case Queue.VECTOR:
                return np.asarray(self.due_vector[register] > self.vector_done)
            case Queue.LDS:
                return np.asarray(self.due_lds[register] > self.lds_done)
            case Queue.SCALAR:
                return np.asarray(self.due_scalar[register])
            case _:
                assert_never(queue)

    def forget(self, register: int, queue: Queue) -> None:
        """Take an operation as done, so that a missing wait is found once."""
        match queue:
            case Queue.VECTOR:
                self.due_vector[register] = 0
            case Queue.LDS:
                self.due_lds[register] = 0
            case Queue.SCALAR:
                self.due_scalar[register] = False
            case _:
                assert_never(queue)
