"""Execute a compiled CDNA kernel from its ISA text: the whole of a simulation, top to bottom."""

import math
import re
from collections.abc import Sequence

import numpy as np

from kgen.errors.simulator import BadLaunchError
from kgen.simulator.arrays import Rows
from kgen.simulator.counting import counts_of, steady_loop
from kgen.simulator.decode import decode
from kgen.simulator.engine import Engine
from kgen.simulator.findings import Findings
from kgen.simulator.global_memory import GlobalMemory
from kgen.simulator.launch import Buffer, Extent3, Launch, Poison, WaveOrder
from kgen.simulator.machine import Counters, Machine
from kgen.simulator.program import EXEC, LANES, SGPRS, Program
from kgen.simulator.report import Report
from kgen.simulator.table import destination_count
from kgen.simulator.transfers import GLOBAL_LOADS
from kgen.simulator.waits import InFlight, scalar_id
from kgen.simulator.wave import Wave

BATCH_BYTES = 192 << 20  # state of the workgroups that are simulated together
BATCH_WORKGROUPS = 256
PAGE = 4096


def simulate(
    isa_text: str,
    launch: Launch,
    buffers: Sequence[Buffer],
    *,
    wave_order: WaveOrder = WaveOrder.FORWARD,
    poison: Poison = Poison.QUIET_NAN,
    workgroups: Sequence[Extent3] | None = None,
) -> Report:
    """Run the workgroups of a launch; stores land in `buffers`, findings and counts are in the report.

    `isa_text` is the final ISA text of one code object (gfx942 or gfx950); `launch.kernel` names a kernel in it.
    `workgroups` are the ids of those that run, where it is not the whole grid. Raises an error of
    `kgen.errors.simulator` for what the simulator does not know (an opcode, a modifier, a calling convention), naming
    the line.
    """
    program = decode(isa_text, launch.kernel, destination_count)
    check_launch(program, launch)
    kernarg = kernarg_buffer(launch, buffers, poison)
    machine = machine_of(program, launch, [*buffers, kernarg], poison)
    with np.errstate(all="ignore"):
        engine = Engine(machine)
        batch, numbers = batch_size(machine, launch), workgroup_numbers(launch, workgroups)
        for first in range(0, len(numbers), batch):
            machine.start_batch(numbers[first : first + batch])
            run_batch(engine, launch, kernarg.address, numbers[first : first + batch], wave_order)
    return Report(
        kernel=launch.kernel,
        arch=program.arch,
        findings=machine.findings.ordered(),
        counts=counts_of(program, machine.counters),
        steady_loop=steady_loop(program, machine.counters),
    )


def machine_of(program: Program, launch: Launch, buffers: Sequence[Buffer], poison: Poison) -> Machine:
    """Return what the waves of the launch share."""
    return Machine(
        program=program,
        poison=poison,
        memory=GlobalMemory(launch.kernel, buffers, poison),
        findings=Findings(program, launch.grid),
        counters=Counters.of(program),
        lds_bytes=program.static_lds_bytes + launch.dynamic_lds_bytes,
        lds_granule=lds_granule(program),
    )


def check_launch(program: Program, launch: Launch) -> None:
    """Refuse a launch that the hardware would refuse."""
    size = math.prod(launch.block)
    if not 0 < size <= program.max_workgroup_size:
        raise BadLaunchError(kernel=launch.kernel, reason=f"a workgroup of {size} work-items; the most is 1024")
    if len(launch.kernarg) < program.kernarg_bytes:
        reason = f"{len(launch.kernarg)} bytes of arguments; the kernel has {program.kernarg_bytes}"
        raise BadLaunchError(kernel=launch.kernel, reason=reason)


def workgroup_numbers(launch: Launch, workgroups: Sequence[Extent3] | None) -> Rows:
    """Return the numbers of the workgroups that run; they count through the grid, along x first."""
    if workgroups is None:
        return np.arange(math.prod(launch.grid))
    grid_x, grid_y, _ = launch.grid
    return np.array([x + grid_x * (y + grid_y * z) for x, y, z in workgroups], dtype=np.int64)


def kernarg_buffer(launch: Launch, buffers: Sequence[Buffer], poison: Poison) -> Buffer:
    """Return the argument segment behind all buffers, padded to whole 64 bytes, as compilers widen loads of it."""
    top = max((buffer.end for buffer in buffers), default=0)
    size = -(-(len(launch.kernarg) + 1) // 64) * 64
    data = np.full(size // 4, poison.value, np.uint32).view(np.uint8)
    data[: len(launch.kernarg)] = np.frombuffer(launch.kernarg, np.uint8)
    return Buffer((top // PAGE + 2) * PAGE, data, "kernel arguments")


def lds_granule(program: Program) -> int:
    """Return the bytes of the smallest LDS access of a program, at most 4: the unit of the race checks."""
    smallest = 4
    for instruction in program.instructions:
        if instruction.name.startswith(("ds_read", "ds_write")):
            narrow = re.search(r"_[uib](8|16)(_|$)", instruction.name)
            smallest = min(smallest, int(narrow[1]) // 8 if narrow else 4)
        elif instruction.name.startswith("global_load_lds") or instruction.flag("lds"):
            smallest = min(smallest, GLOBAL_LOADS[instruction.name.rpartition("_")[2]].size)
    return smallest


def batch_size(machine: Machine, launch: Launch) -> int:
    """Return how many workgroups are simulated together: many make numpy worth its calls, too many fill memory."""
    waves = -(-math.prod(launch.block) // LANES)
    registers = machine.program.registers * LANES * (4 + 1)
    scratch = (machine.program.scratch_bytes + 16) * LANES if machine.program.scratch_bytes else 0
    lds = machine.lds_bytes * (1 + 15 // machine.lds_granule)
    return max(1, min(BATCH_WORKGROUPS, BATCH_BYTES // (waves * (registers + scratch) + lds + 1)))


def run_batch(engine: Engine, launch: Launch, kernarg: int, numbers: Rows, wave_order: WaveOrder) -> None:
    """Run a batch of workgroups from their start to their end; `numbers` count workgroups through the grid."""
    waves = -(-math.prod(launch.block) // LANES)
    order = range(waves) if wave_order is WaveOrder.FORWARD else range(waves - 1, -1, -1)
    parts = {index: [first_wave(engine.machine, launch, kernarg, numbers, index)] for index in order}
    while any(parts.values()):
        for index in order:
            parts[index] = engine.turn(parts[index])
        engine.machine.lds.pass_barrier([wave for waiting in parts.values() for wave in waiting])


def first_wave(machine: Machine, launch: Launch, kernarg: int, numbers: Rows, index: int) -> Wave:
    """Return a wave as hardware starts it: poison but for the work-item ids, arguments, workgroup ids and EXEC."""
    program, count, poison = machine.program, len(numbers), np.uint32(machine.poison.value)
    x, y, z = launch.block
    items = index * LANES + np.arange(LANES)
    registers = program.registers
    vgprs = np.full((registers, count, LANES), poison)
    vgprs[0] = items % x | items // x % y << 10 | items // (x * y) << 20
    sgprs = np.full((count, SGPRS), poison)
    active = np.packbits(items < x * y * z, bitorder="little").view(np.uint32)
    sgprs[:, EXEC], sgprs[:, EXEC + 1] = active
    at = program.kernarg_sgpr
    sgprs[:, at], sgprs[:, at + 1] = kernarg & 0xFFFFFFFF, kernarg >> 32
    grid_x, grid_y, _ = launch.grid
    coordinates = (numbers % grid_x, numbers // grid_x % grid_y, numbers // (grid_x * grid_y))
    next_free = program.user_sgprs
    for present, values in zip(program.workgroup_ids, coordinates, strict=True):
        if present:
            sgprs[:, next_free] = values
            next_free += 1
    wave = Wave(
        index, np.arange(count), vgprs, sgprs, np.ones((registers, count, LANES), np.bool_), InFlight(registers, count)
    )
    defined = [at, at + 1, *range(program.user_sgprs, next_free), EXEC, EXEC + 1]
    wave.undefined[0] = False
    wave.undefined_scalars[:, defined] = False
    wave.suspect = set(range(1, registers)) | {scalar_id(r) for r in range(SGPRS) if r not in defined}
    return wave
