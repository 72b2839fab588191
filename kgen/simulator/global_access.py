"""Instructions on global memory: global and buffer loads, stores, atomics, and copies to LDS."""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, Bytes, Mask
from kgen.simulator.atomics import OPERATIONS, Atomic, apply
from kgen.simulator.buffer_address import BufferAddress, Elements
from kgen.simulator.lds import Access
from kgen.simulator.machine import GLOBAL_WRITTEN, LDS_WRITTEN, Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers
from kgen.simulator.program import M0, Instruction, Operand, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.site import CACHE_POLICY, Site, site_of
from kgen.simulator.transfers import GLOBAL_LOADS, GLOBAL_STORES, Transfer, read_data, write_data
from kgen.simulator.waits import Queue
from kgen.simulator.wave import Wave

WORD = 4
Addresses = Callable[[Wave], Array]


# ---- global


def global_addresses(instruction: Instruction, address: Operand, base: Operand) -> Addresses:
    """Return the reader of the active lanes' addresses: a 64-bit pair, or a scalar base and a 32-bit offset."""
    offset, register = np.uint64(instruction.number("offset") & (1 << 64) - 1), address.register
    if base.kind is OperandKind.SGPR:
        return lambda wave: wave.active(
            wave.s64[:, base.register // 2, None] + wave.v[register].astype(np.uint64) + offset
        )
    return lambda wave: wave.active(
        (wave.v[register].astype(np.uint64) | wave.v[register + 1].astype(np.uint64) << np.uint64(32)) + offset
    )


def global_load(transfer: Transfer) -> Opcode:
    """Return global_load_*."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset"})
        site, (destination,) = site_of(instruction, machine), instruction.destinations
        addresses = global_addresses(instruction, *instruction.sources)
        registers = destination.registers

        def step(wave: Wave) -> None:
            wave.in_flight.issue_vector(registers)
            loaded = site.load(wave, wave.lane_rows, addresses(wave), transfer.size)
            write_data(wave, destination.register, transfer, loaded)

        return step

    return Opcode(bind, InstructionClass.GLOBAL, queue=Queue.VECTOR)


def global_store(transfer: Transfer) -> Opcode:
    """Return global_store_*."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset"})
        site, (address, data, base) = site_of(instruction, machine), instruction.sources
        addresses = global_addresses(instruction, address, base)

        def step(wave: Wave) -> None:
            wave.in_flight.issue_vector(range(0))
            values = transfer.from_registers(read_data(wave, data))
            site.store(wave, wave.lane_rows, addresses(wave), values)

        return step

    return Opcode(bind, InstructionClass.GLOBAL, destinations=0, queue=Queue.VECTOR)


def global_copy(size: int) -> Opcode:
    """Return global_load_lds_*: an asynchronous copy to LDS at M0 + offset, lane by lane."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset"})
        site = site_of(instruction, machine)
        addresses = global_addresses(instruction, *instruction.sources)
        offset = instruction.number("offset")

        def step(wave: Wave) -> None:
            wave.in_flight.issue_vector(range(0))
            loaded = site.load(wave, wave.lane_rows, addresses(wave), size)
            copy_to_lds(site, wave, loaded, offset)

        return step

    return Opcode(bind, InstructionClass.LDS_COPY, destinations=0, queue=Queue.VECTOR)


def copy_to_lds(site: Site, wave: Wave, loaded: Bytes, offset: int) -> None:
    """Store what an asynchronous copy brings: the lane's place is its number times the size, behind M0 + offset.

    The instruction's offset counts for both addresses. (CDNA3 ISA reference, "Memory Buffer Load to LDS".)
    """
    size = loaded.shape[1]
    lanes = wave.active(np.arange(64))
    start = wave.active((wave.s[:, M0, None] & np.uint32(0x3FFFF)).astype(np.int64))
    access = Access(wave, site.pc, wave.lane_rows, start + offset + lanes * size, size)
    site.machine.lds.copy_in(access, loaded)
    site.count(LDS_WRITTEN, len(lanes) * size)


# ---- buffer


def load_elements(site: Site, wave: Wave, elements: Elements, size: int) -> Bytes:
    """Return the bytes [active lane, byte] of a buffer load: zero where num_records forbids."""
    home = elements.home(site.machine.memory)
    if elements.allowed.all():
        return site.load(wave, elements.rows, elements.addresses[:, 0], size, home)
    step = min(size, WORD)
    loaded = np.zeros((*elements.addresses.shape, step), np.uint8)
    which = elements.allowed
    addresses = elements.addresses[which]
    loaded[which] = site.load(wave, spread(elements.rows, which), addresses, step, spread(home, which))
    return loaded.reshape(-1, size)


def spread(per_lane: Array, which: Mask) -> Array:
    """Return one value for each chosen element [lane, element] from one a lane."""
    return np.asarray(np.broadcast_to(per_lane[:, None], which.shape)[which])


def buffer_load(transfer: Transfer) -> Opcode:
    """Return buffer_load_*; with `lds`, an asynchronous copy that has no destination register."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset", "offen", "idxen", "lds"})
        site = site_of(instruction, machine)
        to_lds = instruction.flag("lds")
        address = BufferAddress(instruction, instruction.sources)
        registers = range(0) if to_lds else instruction.destinations[0].registers
        offset = instruction.number("offset")

        def step(wave: Wave) -> None:
            wave.in_flight.issue_vector(registers)
            loaded = load_elements(site, wave, address.elements(wave, transfer.size), transfer.size)
            if to_lds:
                copy_to_lds(site, wave, loaded, offset)
            else:
                write_data(wave, registers.start, transfer, loaded)

        return step

    return Opcode(bind, InstructionClass.GLOBAL, queue=Queue.VECTOR)


def buffer_store(transfer: Transfer) -> Opcode:
    """Return buffer_store_*."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset", "offen", "idxen"})
        site, data = site_of(instruction, machine), instruction.sources[0]
        address = BufferAddress(instruction, instruction.sources[1:])

        def step(wave: Wave) -> None:
            wave.in_flight.issue_vector(range(0))
            elements = address.elements(wave, transfer.size)
            values = transfer.from_registers(read_data(wave, data))
            home, which = elements.home(site.machine.memory), elements.allowed
            if which.all():
                site.store(wave, elements.rows, elements.addresses[:, 0], values, home)
                return
            values = values.reshape(*which.shape, -1)[which]
            site.store(wave, spread(elements.rows, which), elements.addresses[which], values, spread(home, which))

        return step

    return Opcode(bind, InstructionClass.GLOBAL, destinations=0, queue=Queue.VECTOR)


# ---- atomics


def run_atomic(
    site: Site, wave: Wave, operation: Atomic, data: Operand, addresses: Array, allowed: Mask, result: range
) -> None:
    """Apply an atomic for the allowed active lanes, in lane order; the old values go to `result`, if any."""
    wave.in_flight.issue_vector(result)
    values = read_data(wave, data)
    rows = wave.lane_rows
    _, held = site.machine.memory.locate(addresses, operation.size)
    site.check(wave, rows[allowed], addresses[allowed], held[allowed], operation.size, "applies an atomic to")
    done = allowed & held
    old = np.zeros((operation.size // WORD, len(rows)), np.uint32)
    old[:, done] = apply(site.machine.memory, operation, addresses[done], values[:, done])
    site.count(GLOBAL_WRITTEN, int(allowed.sum()) * operation.size)
    for place, register in enumerate(result):
        wave.write_active(register, old[place])


def global_atomic(operation: Atomic) -> Opcode:
    """Return global_atomic_*; with sc0 it returns the old value."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset"})
        site, (address, data, base) = site_of(instruction, machine), instruction.sources
        addresses = global_addresses(instruction, address, base)
        result = instruction.destinations[0].registers if instruction.destinations else range(0)

        def step(wave: Wave) -> None:
            where = addresses(wave)
            run_atomic(site, wave, operation, data, where, np.ones(len(where), np.bool_), result)

        return step

    return Opcode(bind, InstructionClass.GLOBAL, queue=Queue.VECTOR)


def buffer_atomic(operation: Atomic) -> Opcode:
    """Return buffer_atomic_*; with sc0 the old value replaces the data."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, CACHE_POLICY | {"offset", "offen", "idxen"})
        site, data = site_of(instruction, machine), instruction.sources[0]
        address = BufferAddress(instruction, instruction.sources[1:])
        result = range(data.register, data.register + operation.size // WORD) if instruction.flag("sc0") else range(0)

        def step(wave: Wave) -> None:
            elements = address.elements(wave, operation.size)
            allowed = elements.allowed.all(axis=1)
            run_atomic(site, wave, operation, data, elements.addresses[:, 0], np.asarray(allowed), result)

        return step

    return Opcode(bind, InstructionClass.GLOBAL, destinations=0, queue=Queue.VECTOR)


OPCODES: dict[str, Opcode] = (
    {f"global_load_{name}": global_load(transfer) for name, transfer in GLOBAL_LOADS.items()}
    | {f"global_store_{name}": global_store(transfer) for name, transfer in GLOBAL_STORES.items()}
    | {f"buffer_load_{name}": buffer_load(transfer) for name, transfer in GLOBAL_LOADS.items()}
    | {f"buffer_store_{name}": buffer_store(transfer) for name, transfer in GLOBAL_STORES.items()}
    | {
        f"global_load_lds_{name}": global_copy(GLOBAL_LOADS[name].size)
        for name in ("ubyte", "ushort", "dword", "dwordx3", "dwordx4")
    }
    | {f"global_atomic_{name}": global_atomic(operation) for name, operation in OPERATIONS.items()}
    | {f"buffer_atomic_{name}": buffer_atomic(operation) for name, operation in OPERATIONS.items()}
)
