"""LDS of a batch of workgroups: the bytes, and the race checks.

Between two barriers (an epoch) the waves of a workgroup run in no order. Every granule (the smallest LDS access of the
program, 1 to 4 bytes) remembers which wave wrote it last and in which epoch, and which wave read it, or that several
did. An access races with another wave's of the same epoch if one of them writes. A write that its wave has not waited
for when it arrives at a barrier belongs to the next epoch as well, so that the barrier alone does not order it.

Stamps are epoch << 8 | wave, 0 for never. The workgroups of a batch pass their barriers together: there is one epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.simulator.arrays import Array, Bytes, Mask, Rows
from kgen.simulator.findings import Findings
from kgen.simulator.global_memory import gather, scatter
from kgen.simulator.launch import Poison
from kgen.simulator.report import FindingKind
from kgen.simulator.waits import Queue
from kgen.simulator.wave import Wave

SEVERAL = 255  # in place of the wave of a read stamp
MANY = 256  # writes of a wave between two barriers, after which those that are done are forgotten
LATE = 1 << 31  # in a write stamp: the write was still in flight at the barrier before this epoch


@dataclass(frozen=True, slots=True)
class Access:
    """One access of the active lanes of a wave: batch rows and byte addresses, one entry a lane."""

    wave: Wave
    pc: int
    rows: Rows
    addresses: Rows
    size: int


@dataclass(frozen=True, slots=True)
class WriteInFlight:
    """A write that no wait has covered yet: which operation of which queue it was, per lane."""

    queue: Queue
    rows: Rows
    operations: Array
    granules: Array


class Lds:
    """The LDS of the workgroups of a batch."""

    def __init__(self, workgroups: int, size: int, granule: int, poison: Poison, findings: Findings) -> None:
        self.size = size
        self.granule = granule
        self.pitch = -(-size // 16) * 16 + 16  # bytes between the workgroups of the batch
        self.bytes: Bytes = np.full(workgroups * self.pitch // 4, poison.value, np.uint32).view(np.uint8)
        self.poison = np.array([poison.value] * 4, np.uint32).view(np.uint8)
        granules = workgroups * self.pitch // granule
        self.written = np.zeros(granules, np.uint32)
        self.read_by = np.zeros(granules, np.uint32)
        self.copy_due = np.zeros(granules, np.int32)  # the vector operation of an asynchronous copy, 0 for others
        self.defined = np.zeros(granules, np.bool_)
        self.atomic = np.zeros(granules, np.bool_)  # all writes of the last epoch were atomics
        self.epoch = 1
        self.in_flight: dict[int, list[WriteInFlight]] = {}
        self.findings = findings

    # ---- accesses

    def read(self, access: Access) -> tuple[Bytes, Mask]:
        """Return the bytes for each lane, and which lanes read bytes that nobody wrote."""
        inside = self._inside(access)
        result = np.empty((len(access.rows), access.size), np.uint8)
        result[:] = np.resize(self.poison, access.size)
        places = self._granules(access, inside)
        self._check_read(access, places)
        result[inside] = gather(self.bytes, self._offsets(access, inside), access.size)
        undefined = np.zeros(len(inside), np.bool_)
        undefined[inside] = ~self.defined[places].all(axis=1)
        return result, undefined

    def write(self, access: Access, values: Bytes, undefined: Mask | None = None) -> None:
        """Store one row of bytes for each lane; `undefined` marks lanes whose values nobody computed."""
        inside = self._inside(access)
        places = self._granules(access, inside)
        self._check_write(access, places)
        scatter(self.bytes, self._offsets(access, inside), values[inside])
        self.defined[places] = True if undefined is None else ~undefined[inside][:, None]
        self._note_in_flight(Queue.LDS, access, inside, places)
        self.copy_due[places] = 0

    def exchange(self, access: Access, function: Callable[[Bytes], Array]) -> Bytes:
        """Replace 4 bytes a lane, no two of the same place, by a function of them; return what was there.

        An atomic races with plain accesses of other waves, not with other atomics.
        """
        inside = self._inside(access)
        places = self._granules(access, inside)
        written, read_by = self.written[places], self.read_by[places]
        plain = self._this_epoch(written) & ~self.atomic[places]
        others = plain & (written & 0xFF != access.wave.index)
        if others.any():
            self._race(access, "changes what", others, written, places)
        readers = (read_by >> np.uint32(8) == self.epoch) & (read_by & 0xFF != access.wave.index)
        if readers.any():
            self._race(access, "changes what", readers, read_by, places, "reads")
        offsets = self._offsets(access, inside)
        old = np.zeros((len(inside), access.size), np.uint8)
        old[inside] = gather(self.bytes, offsets, access.size)
        new = function(old)
        scatter(self.bytes, offsets, np.ascontiguousarray(new[inside][:, None]).view(np.uint8))
        self.written[places] = np.uint32(self.epoch << 8 | access.wave.index)
        self.atomic[places], self.defined[places] = ~plain, True  # an own plain write still races with other waves
        self._note_in_flight(Queue.LDS, access, inside, places)
        return old

    def copy_in(self, access: Access, values: Bytes) -> None:
        """Store what an asynchronous copy brings; it is due with the wave's vector operation that was just issued."""
        inside = self._inside(access)
        places = self._granules(access, inside)
        self._check_write(access, places)
        scatter(self.bytes, self._offsets(access, inside), values[inside])
        self.defined[places] = True
        operations = self._note_in_flight(Queue.VECTOR, access, inside, places)
        self.copy_due[places] = operations[:, None]

    def _offsets(self, access: Access, inside: Mask) -> Rows:
        return access.rows[inside] * self.pitch + access.addresses[inside]

    def _inside(self, access: Access) -> Mask:
        inside = (access.addresses >= 0) & (access.addresses + access.size <= self.size)
        if not inside.all():
            bad = int(np.argmin(inside))

            def detail() -> str:
                where = f"LDS address {access.addresses[bad]:#x}"
                return f"{access.size} bytes at {where}; the workgroup has {self.size} bytes"

            self._add(FindingKind.OUT_OF_BOUNDS, access, bad, int((~inside).sum()), detail)
        return np.asarray(inside)

    def _granules(self, access: Access, inside: Mask) -> Array:
        """Return the granules [lane, n] of the accesses inside; a misaligned access touches one more."""
        offsets = self._offsets(access, inside)
        count = access.size // self.granule
        if self.granule > 1 and np.any(offsets % self.granule):
            count += 1
        return (offsets // self.granule)[:, None] + np.arange(count)

    # ---- races

    def _check_read(self, access: Access, places: Array) -> None:
        wave, epoch = access.wave.index, self.epoch
        written = self.written[places]
        others = self._this_epoch(written) & (written & 0xFF != wave)
        if others.any():
            self._race(access, "reads what", others, written, places)
        self._check_copy(access, places, written, "reads")
        read_by = self.read_by[places]
        mine = np.uint32(epoch << 8 | wave)
        several = (read_by >> np.uint32(8) == epoch) & (read_by != mine)
        self.read_by[places] = np.where(several, np.uint32(epoch << 8 | SEVERAL), mine)

    def _check_write(self, access: Access, places: Array) -> None:
        wave, epoch = access.wave.index, self.epoch
        written, read_by = self.written[places], self.read_by[places]
        others = self._this_epoch(written) & (written & 0xFF != wave)
        if others.any():
            self._race(access, "overwrites what", others, written, places)
        readers = (read_by >> np.uint32(8) == epoch) & (read_by & 0xFF != wave)
        if readers.any():
            self._race(access, "overwrites what", readers, read_by, places, "reads")
        self._check_copy(access, places, written, "overwrites")
        self.written[places] = np.uint32(epoch << 8 | wave)
        self.atomic[places] = False

    def _this_epoch(self, stamps: Array) -> Mask:
        return np.asarray((stamps & 0x7FFFFFFF) >> np.uint32(8) == self.epoch)

    def _race(
        self, access: Access, verb: str, where: Mask, stamps: Array, places: Array, other: str = "writes"
    ) -> None:
        lane, column = (int(index[0]) for index in np.nonzero(where))
        row, address = divmod(int(places[lane, column]) * self.granule, self.pitch)

        def detail() -> str:
            stamp = int(stamps[lane, column])
            whom = "other waves read" if stamp & 0xFF == SEVERAL else f"wave {stamp & 0xFF} {other}"
            late = "; its wave did not wait for it before the barrier" if stamp & LATE else ""
            return f"wave {access.wave.index} {verb} {whom} at LDS address {address:#x} with no barrier between{late}"

        self.findings.add(FindingKind.LDS_RACE, access.pc, access.wave.index, row, int(where.sum()), detail)

    def _check_copy(self, access: Access, places: Array, written: Array, verb: str) -> None:
        """Find accesses to bytes whose copy the same wave started and has not waited for."""
        due = self.copy_due[places]
        if not due.any():
            return
        flight = access.wave.in_flight
        done = np.zeros(int(access.wave.rows.max()) + 1, np.int32)
        done[access.wave.rows] = flight.vector_done
        late = (written & 0xFF == access.wave.index) & (due > done[places * self.granule // self.pitch])
        if late.any():
            lane, column = (int(index[0]) for index in np.nonzero(late))
            row, address = divmod(int(places[lane, column]) * self.granule, self.pitch)

            def detail() -> str:
                return f"{verb} LDS address {address:#x} while an asynchronous copy to it is in flight (vmcnt)"

            self.findings.add(FindingKind.MISSING_WAIT, access.pc, access.wave.index, row, int(late.sum()), detail)

    def _add(self, kind: FindingKind, access: Access, lane: int, occurrences: int, detail: Callable[[], str]) -> None:
        self.findings.add(kind, access.pc, access.wave.index, int(access.rows[lane]), occurrences, detail)

    # ---- barriers

    def _note_in_flight(self, queue: Queue, access: Access, inside: Mask, places: Array) -> Array:
        """Remember a write until a wait covers it; return its operation number for each lane inside."""
        flight = access.wave.in_flight
        issued = flight.vector_issued if queue is Queue.VECTOR else flight.lds_issued
        by_row = np.zeros(int(access.wave.rows.max()) + 1, np.int32)
        by_row[access.wave.rows] = issued
        rows = access.rows[inside]
        operations = by_row[rows]
        writes = self.in_flight.setdefault(access.wave.index, [])
        if len(writes) >= MANY:
            done = self._done([access.wave], otherwise=-1)
            writes[:] = [write for write in writes if (write.operations > done[write.queue][write.rows]).any()]
        writes.append(WriteInFlight(queue, rows, operations, places))
        return operations

    def _done(self, waves: list[Wave], otherwise: int) -> dict[Queue, Array]:
        """Return up to which operation each batch row has waited; `otherwise` where none of the waves is."""
        done = {queue: np.full(len(self.bytes) // self.pitch, otherwise, np.int64) for queue in Queue}
        for wave in waves:
            done[Queue.VECTOR][wave.rows] = wave.in_flight.vector_done
            done[Queue.LDS][wave.rows] = wave.in_flight.lds_done
        return done

    def pass_barrier(self, waves: list[Wave]) -> None:
        """Begin the next epoch: of the writes of `waves`, those not waited for stay unordered in it."""
        self.epoch += 1
        for index, writes in self.in_flight.items():
            parts = [wave for wave in waves if wave.index == index]
            done = self._done(parts, otherwise=np.iinfo(np.int32).max)  # a wave that has ended has nothing in flight
            self.in_flight[index] = [left for write in writes if (left := self._still(index, write, done)) is not None]

    def _still(self, wave: int, write: WriteInFlight, done: dict[Queue, Array]) -> WriteInFlight | None:
        """Carry the part of a write that is still in flight into the new epoch, and return it."""
        late = write.operations > done[write.queue][write.rows]
        if not late.any():
            return None
        places = write.granules[late]
        self.written[places] = np.uint32(LATE | self.epoch << 8 | wave)
        return WriteInFlight(write.queue, write.rows[late], write.operations[late], places)
