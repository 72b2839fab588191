"""The state of one wave of several workgroups at once: registers, masks, what is in flight.

A `Wave` is wave number `index` of the workgroups `rows` (rows of the batch that is simulated together), all at the same
instruction. Vector registers are [register, w, lane], scalar registers [w, register], with w counting the workgroups.
Where a branch goes both ways, the wave is split into two; where they meet again, they are joined.
"""

import numpy as np

from kgen.simulator.arrays import Array, Bits, Mask, Rows, lanes_of, words_of
from kgen.simulator.program import EXEC, LANES, SGPRS
from kgen.simulator.waits import InFlight


class Wave:
    """One wave of the workgroups of a batch that are at the same instruction."""

    def __init__(self, index: int, rows: Rows, vgprs: Bits, sgprs: Bits, undefined: Mask, in_flight: InFlight) -> None:
        self.index = index
        self.rows = rows
        self.v = vgprs
        self.s = sgprs
        self.s64 = sgprs.view(np.uint64)
        self.scc = np.zeros(len(rows), np.bool_)
        self.undefined = undefined  # [register, w, lane]: what was never written, or computed from it
        self.undefined_scalars: Mask = np.ones((len(rows), SGPRS), np.bool_)
        self.suspect: set[int] = set()  # the registers that may be undefined, by `scalar_id` and vector number
        self.in_flight = in_flight
        self.pc = 0
        self.refresh_exec()

    def refresh_exec(self) -> None:
        """Derive the lane masks from EXEC after it was written."""
        self.exec: Mask = lanes_of(self.s64[:, EXEC // 2])
        self.full = bool(self.exec.all())
        self._lane_rows: Rows | None = None

    @property
    def lane_rows(self) -> Rows:
        """The batch row of every active lane, in the order of `active`."""
        if self._lane_rows is None:
            rows = np.repeat(self.rows, LANES).reshape(-1, LANES)
            self._lane_rows = rows[self.exec]
        return self._lane_rows

    def active(self, values: Array) -> Array:
        """Return the values of the active lanes, flat."""
        if self.full:
            return np.broadcast_to(values, self.exec.shape).reshape(-1)
        return np.asarray(np.broadcast_to(values, self.exec.shape)[self.exec])

    def write_active(self, register: int, values: Bits) -> None:
        """Write the active lanes of a vector register from flat values."""
        if self.full:
            self.v[register] = values.reshape(self.exec.shape)
        else:
            self.v[register][self.exec] = values

    def write(self, register: int, values: Bits) -> None:
        """Write the active lanes of a vector register."""
        if self.full:
            self.v[register] = values
        else:
            np.copyto(self.v[register], values, where=self.exec)

    def write_scalar(self, register: int, values: Array) -> None:
        """Write a 32-bit scalar register."""
        self.s[:, register] = values
        if register in (EXEC, EXEC + 1):
            self.refresh_exec()

    def write_pair(self, register: int, values: Array) -> None:
        """Write an aligned 64-bit scalar register pair."""
        self.s64[:, register // 2] = values
        if register == EXEC:
            self.refresh_exec()

    def write_mask(self, register: int, lanes: Mask) -> None:
        """Write a lane mask into a scalar register pair; inactive lanes give zeros."""
        self.write_pair(register, words_of(np.broadcast_to(lanes, self.exec.shape) & self.exec))

    def mask(self, register: int) -> Mask:
        """Return a scalar register pair as a lane mask [w, lane]."""
        return lanes_of(self.s64[:, register // 2])

    def take(self, which: Array) -> "Wave":
        """Return the wave of some of the workgroups: `which` is a boolean or an index array."""
        part = object.__new__(Wave)
        part.index, part.pc = self.index, self.pc
        part.rows = self.rows[which]
        part.v = np.ascontiguousarray(self.v[:, which])
        part.s = np.ascontiguousarray(self.s[which])
        part.s64 = part.s.view(np.uint64)
        part.scc = self.scc[which]
        part.undefined = np.ascontiguousarray(self.undefined[:, which])
        part.undefined_scalars = self.undefined_scalars[which]
        part.suspect = set(self.suspect)
        part.in_flight = self.in_flight.take(which)
        part.refresh_exec()
        return part

    def join(self, other: "Wave") -> "Wave":
        """Return one wave of the workgroups of both, which are at the same instruction."""
        both = object.__new__(Wave)
        both.index, both.pc = self.index, self.pc
        both.rows = np.concatenate([self.rows, other.rows])
        both.v = np.concatenate([self.v, other.v], axis=1)
        both.s = np.concatenate([self.s, other.s])
        both.s64 = both.s.view(np.uint64)
        both.scc = np.concatenate([self.scc, other.scc])
        both.undefined = np.concatenate([self.undefined, other.undefined], axis=1)
        both.undefined_scalars = np.concatenate([self.undefined_scalars, other.undefined_scalars])
        both.suspect = self.suspect | other.suspect
        both.in_flight = self.in_flight.join(other.in_flight)
        both.refresh_exec()
        return both
