"""Counters -> Counts of the report, for the whole program and for its steady loop."""

from kgen.simulator.machine import GLOBAL_READ, GLOBAL_WRITTEN, LDS_READ, LDS_WRITTEN, Counters
from kgen.simulator.mfma import flops
from kgen.simulator.program import Program
from kgen.simulator.report import Counts, InstructionClass, InstructionCount, WaitCount
from kgen.simulator.table import unit_of


def counts_of(program: Program, counters: Counters, places: range | None = None) -> Counts:
    """Return the counts of a range of instructions, or of all."""
    places = range(len(program.instructions)) if places is None else places
    waits = (pc for pc in places if program.instructions[pc].name == "s_waitcnt" and counters.executed[pc])
    return Counts(
        instructions=tuple(instruction_count(program, counters, pc) for pc in places),
        waits=tuple(wait_count(program, counters, pc) for pc in waits),
    )


def instruction_count(program: Program, counters: Counters, pc: int) -> InstructionCount:
    """Return the counts of one instruction."""
    instruction, executed = program.instructions[pc], counters.executed[pc]
    return InstructionCount(
        instruction.line,
        instruction.mnemonic,
        unit_of(instruction),
        executed,
        global_read_bytes=int(counters.bytes[pc, GLOBAL_READ]),
        global_written_bytes=int(counters.bytes[pc, GLOBAL_WRITTEN]),
        lds_read_bytes=int(counters.bytes[pc, LDS_READ]),
        lds_written_bytes=int(counters.bytes[pc, LDS_WRITTEN]),
        bank_conflict_cycles=int(counters.bank_conflict_cycles[pc]),
        flops=executed * flops(instruction),
    )


def wait_count(program: Program, counters: Counters, pc: int) -> WaitCount:
    """Return what was in flight around one s_waitcnt."""
    in_flight = (int(number) for number in counters.in_flight[pc])
    return WaitCount(program.instructions[pc].line, counters.executed[pc], *in_flight)


def steady_loop(program: Program, counters: Counters) -> Counts | None:
    """Return the counts of the innermost loop that executed most MFMAs.

    A loop is what a backward branch encloses. Where the kernel was too small for the branch to be taken, the loop is
    still the one that runs.
    """
    loops = []
    for pc, instruction in enumerate(program.instructions):
        if 0 <= instruction.target <= pc:
            loops.append(range(instruction.target, pc + 1))
    busy = [(mfmas_in(program, counters, loop), loop) for loop in loops]
    busy = [(count, loop) for count, loop in busy if count]
    inner = [(count, loop) for count, loop in busy if not any(encloses(loop, other) for _, other in busy)]
    if not inner:
        return None
    _, loop = max(inner, key=lambda entry: entry[0])
    return counts_of(program, counters, loop)


def mfmas_in(program: Program, counters: Counters, places: range) -> int:
    """Return how many MFMAs a range executed."""
    mfma = InstructionClass.MFMA
    return sum(counters.executed[pc] for pc in places if unit_of(program.instructions[pc]) is mfma)


def encloses(loop: range, other: range) -> bool:
    """Return whether another, smaller loop is within a loop."""
    return other != loop and other.start >= loop.start and other.stop <= loop.stop
