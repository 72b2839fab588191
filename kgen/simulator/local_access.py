"""Instructions on LDS and scratch memory."""

from collections.abc import Callable
from functools import partial

import numpy as np

from kgen.simulator.arrays import Array, Bytes, Mask
from kgen.simulator.atomics import rounds
from kgen.simulator.banks import conflict_cycles
from kgen.simulator.lds import Access
from kgen.simulator.machine import LDS_READ, LDS_WRITTEN, Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers, refuse
from kgen.simulator.program import Instruction, OperandKind
from kgen.simulator.report import FindingKind, InstructionClass
from kgen.simulator.site import CACHE_POLICY, Site, site_of
from kgen.simulator.transfers import (
    GLOBAL_LOADS,
    GLOBAL_STORES,
    LDS_LOADS,
    LDS_STORES,
    Transfer,
    read_data,
    undefined_lanes,
    write_data,
)
from kgen.simulator.vector_alu import maximum, minimum
from kgen.simulator.waits import Queue
from kgen.simulator.wave import Wave

SIXTEEN_LANES = 16


def access_of(site: Site, wave: Wave, register: int, offset: int, size: int) -> Access:
    """Return the access of the active lanes to LDS, counted."""
    addresses = wave.active(wave.v[register]).astype(np.int64) + offset
    return Access(wave, site.pc, wave.lane_rows, addresses, size)


def count_access(site: Site, wave: Wave, register: int, offset: int, size: int, write: bool) -> None:
    """Count the bytes and the bank conflicts of one access."""
    site.count(LDS_WRITTEN if write else LDS_READ, len(wave.lane_rows) * size)
    lost = conflict_cycles(
        site.machine.program.arch, size, write, wave.v[register].astype(np.int64) + offset, wave.exec
    )
    site.machine.counters.bank_conflict_cycles[site.pc] += lost


def note_undefined(wave: Wave, registers: range, undefined: Mask) -> None:
    """Mark the active lanes of registers that received bytes which nobody wrote."""
    if undefined.any():
        for register in registers:
            lanes = wave.undefined[register]
            lanes[wave.exec] = undefined
        wave.suspect.update(registers)


def lds_load(transfer: Transfer, pieces: int = 1, unit: int = 1) -> Opcode:
    """Return ds_read_*: one piece at `offset`, or two at offset0 and offset1 in units of bytes."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("offset",) if pieces == 1 else ("offset0", "offset1"))
        site = site_of(instruction, machine)
        (address,), (destination,) = instruction.sources, instruction.destinations
        offsets = [instruction.number("offset" if pieces == 1 else f"offset{p}") * unit for p in range(pieces)]

        def step(wave: Wave) -> None:
            addresses = [access_of(site, wave, address.register, offset, transfer.size) for offset in offsets]
            for offset in offsets:
                count_access(site, wave, address.register, offset, transfer.size, write=False)
            wave.in_flight.issue_lds(destination.registers)
            for place, access in enumerate(addresses):
                first = destination.register + place * transfer.registers
                loaded, undefined = site.machine.lds.read(access)
                write_data(wave, first, transfer, loaded)
                note_undefined(wave, range(first, first + transfer.registers), undefined)

        return step

    return Opcode(bind, InstructionClass.LDS, queue=Queue.LDS)


def lds_store(transfer: Transfer, pieces: int = 1, unit: int = 1) -> Opcode:
    """Return ds_write_*."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("offset",) if pieces == 1 else ("offset0", "offset1"))
        site, (address, *data) = site_of(instruction, machine), instruction.sources
        offsets = [instruction.number("offset" if pieces == 1 else f"offset{p}") * unit for p in range(pieces)]

        def step(wave: Wave) -> None:
            wave.in_flight.issue_lds(range(0))
            for offset, operand in zip(offsets, data, strict=True):
                count_access(site, wave, address.register, offset, transfer.size, write=True)
                access = access_of(site, wave, address.register, offset, transfer.size)
                suspect = not wave.suspect.isdisjoint(operand.registers)
                values = transfer.from_registers(read_data(wave, operand))
                site.machine.lds.write(access, values, undefined_lanes(wave, operand) if suspect else None)

        return step

    return Opcode(bind, InstructionClass.LDS, destinations=0, queue=Queue.LDS)


def lds_transpose(bits: int) -> Opcode:
    """Return ds_read_b64_tr_b<bits>: 16 lanes read 128 bytes and exchange them as a transposition of their elements.

    Within 16 lanes, element j of lane t is element 16 j + t of the bytes that lanes 0..15 address, taken in order.
    """

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("offset",))
        site, offset = site_of(instruction, machine), instruction.number("offset")
        (address,), (destination,) = instruction.sources, instruction.destinations

        def step(wave: Wave) -> None:
            if not wave.full:
                raise refuse(instruction, "a transposing read with inactive lanes")
            count_access(site, wave, address.register, offset, 8, write=False)
            access = access_of(site, wave, address.register, offset, 8)
            wave.in_flight.issue_lds(destination.registers)
            loaded, undefined = site.machine.lds.read(access)
            groups = loaded.reshape(-1, SIXTEEN_LANES * 8)
            width = bits // 8
            items = groups.reshape(len(groups), 64 // bits, SIXTEEN_LANES, width)
            transposed = np.ascontiguousarray(items.transpose(0, 2, 1, 3)).reshape(-1, 8)
            write_data(wave, destination.register, Transfer(8), transposed)
            spread = undefined.reshape(-1, SIXTEEN_LANES).any(axis=1).repeat(SIXTEEN_LANES)
            note_undefined(wave, destination.registers, spread)

        return step

    return Opcode(bind, InstructionClass.LDS, queue=Queue.LDS)


def lds_atomic(dtype: str, function: Callable[[Array, Array], Array], returns: bool) -> Opcode:
    """Return ds_<operation>, or ds_<operation>_rtn, which returns the old value."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("offset",))
        site, (address, data) = site_of(instruction, machine), instruction.sources
        offset = instruction.number("offset")
        result = instruction.destinations[0].registers if returns else range(0)

        def changed(operand: Array, old: Bytes) -> Array:
            return function(old.view(dtype)[:, 0], operand)

        def step(wave: Wave) -> None:
            wave.in_flight.issue_lds(result)
            access = access_of(site, wave, address.register, offset, 4)
            operand = read_data(wave, data)[0].view(dtype)
            old = np.zeros((len(operand), 4), np.uint8)
            keys = access.addresses + access.rows * site.machine.lds.pitch
            for turn in rounds(keys) if len(keys) else []:
                part = Access(wave, site.pc, access.rows[turn], access.addresses[turn], 4)
                old[turn] = site.machine.lds.exchange(part, partial(changed, operand[turn]))
            site.count(LDS_WRITTEN, 4 * len(operand))
            for register in result:
                wave.write_active(register, old.view(np.uint32)[:, 0])

        return step

    return Opcode(bind, InstructionClass.LDS, destinations=int(returns), queue=Queue.LDS)


ATOMICS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add_u32": ("u4", lambda old, x: old + x),
    "sub_u32": ("u4", lambda old, x: old - x),
    "and_b32": ("u4", lambda old, x: old & x),
    "or_b32": ("u4", lambda old, x: old | x),
    "xor_b32": ("u4", lambda old, x: old ^ x),
    "max_u32": ("u4", np.maximum),
    "min_u32": ("u4", np.minimum),
    "max_i32": ("i4", np.maximum),
    "min_i32": ("i4", np.minimum),
    "add_f32": ("f4", lambda old, x: old + x),
    "max_f32": ("f4", maximum),
    "min_f32": ("f4", minimum),
}


# ---- scratch


def scratch(transfer: Transfer, store: bool) -> Opcode:
    """Return scratch_load_* or scratch_store_*: a lane's own memory, where registers are spilled."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset"})
        site = site_of(instruction, machine)
        vector, *rest = instruction.sources
        data, base = (rest[0], rest[1]) if store else (instruction.destinations[0], rest[0])
        offset = instruction.number("offset")

        def addresses(wave: Wave) -> Array:
            where = np.full(wave.exec.shape, offset, np.int64)
            if vector.kind is OperandKind.VGPR:
                where = where + wave.v[vector.register]
            if base.kind is OperandKind.SGPR:
                where = where + wave.s[:, base.register, None]
            return where

        def step(wave: Wave) -> None:
            wave.in_flight.issue_vector(range(0) if store else data.registers)
            where = wave.active(addresses(wave))
            inside = (where >= 0) & (where + transfer.size <= site.machine.program.scratch_bytes)
            note_outside(site, wave, where, inside, transfer.size)
            memory = site.machine.scratch_of(wave.index)
            lanes = wave.active(np.arange(64))
            places = np.where(inside, where, 0)[:, None] + np.arange(transfer.size)
            index = (wave.lane_rows[:, None], lanes[:, None], places)
            if store:
                values = transfer.from_registers(read_data(wave, data))
                memory[tuple(part[inside] for part in index)] = values[inside]
            else:
                write_data(wave, data.register, transfer, memory[index])

        return step

    return Opcode(bind, InstructionClass.SCRATCH, destinations=int(not store), queue=Queue.VECTOR)


def note_outside(site: Site, wave: Wave, where: Array, inside: Mask, size: int) -> None:
    """Note accesses outside of the scratch memory."""
    if not inside.all():
        bad = int(np.argmin(inside))
        available = site.machine.program.scratch_bytes

        def detail() -> str:
            return f"{size} bytes at scratch address {int(where[bad]):#x}; a work-item has {available} bytes"

        row, number = int(wave.lane_rows[bad]), int((~inside).sum())
        site.machine.findings.add(FindingKind.OUT_OF_BOUNDS, site.pc, wave.index, row, number, detail)


OPCODES: dict[str, Opcode] = (
    {f"ds_read_{name}": lds_load(transfer) for name, transfer in LDS_LOADS.items()}
    | {f"ds_write_{name}": lds_store(transfer) for name, transfer in LDS_STORES.items()}
    | {f"ds_read_b64_tr_b{bits}": lds_transpose(bits) for bits in (8, 16)}
    | {f"ds_{name}": lds_atomic(*how, returns=False) for name, how in ATOMICS.items()}
    | {f"ds_{name.replace('_', '_rtn_')}": lds_atomic(*how, returns=True) for name, how in ATOMICS.items()}
    | {f"scratch_load_{name}": scratch(transfer, store=False) for name, transfer in GLOBAL_LOADS.items()}
    | {f"scratch_store_{name}": scratch(transfer, store=True) for name, transfer in GLOBAL_STORES.items()}
)
for _size in (4, 8):  # two accesses at once, in units of the size or of 64 times the size
    for _name, _unit in (("2", _size), ("2st64", 64 * _size)):
        OPCODES[f"ds_read{_name}_b{8 * _size}"] = lds_load(Transfer(_size), 2, _unit)
        OPCODES[f"ds_write{_name}_b{8 * _size}"] = lds_store(Transfer(_size), 2, _unit)
