"""Executes waves: straight-line code, branches, barriers.

Wave number i of all workgroups of a batch runs as one `Wave` as long as the workgroups go the same way. Where a branch
divides them it is split; the part that is furthest back runs first, so that the parts meet again at the next common
instruction and are joined. The waves of a workgroup take turns: each runs to its next barrier or its end.
"""

import numpy as np

from kgen.errors.simulator import EndlessKernelError
from kgen.simulator.arrays import Mask
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Step
from kgen.simulator.program import EXEC, VCC, Instruction, Operand, OperandKind
from kgen.simulator.report import FindingKind, InstructionClass
from kgen.simulator.table import OPCODES, unit_of
from kgen.simulator.undefined import describe, follow, used_registers
from kgen.simulator.waits import Queue, scalar_id
from kgen.simulator.wave import Wave

CONTROL = (InstructionClass.BRANCH, InstructionClass.BARRIER, InstructionClass.WAIT)
LIMIT = 5_000_000  # instructions of a wave between two barriers
NEVER = 1 << 60


class Engine:
    """Runs the waves of a launch."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.instructions = machine.program.instructions
        self.steps = [self._step(instruction) for instruction in self.instructions]
        self.used = [used_registers(instruction) for instruction in self.instructions]

    def _step(self, instruction: Instruction) -> Step | None:
        if unit_of(instruction) in CONTROL:
            return None
        return OPCODES[instruction.name].bind(instruction, self.machine)

    def turn(self, parts: list[Wave]) -> list[Wave]:
        """Run one wave of all workgroups to their barriers; return the parts that wait there; others have ended."""
        runnable = list(parts)
        waiting: list[Wave] = []
        budget = LIMIT
        while runnable:
            runnable.sort(key=lambda wave: -wave.pc)
            wave = runnable.pop()
            while runnable and runnable[-1].pc == wave.pc:
                wave = wave.join(runnable.pop())
            budget = self.run(wave, runnable[-1].pc if runnable else NEVER, budget, runnable, waiting)
        return join_all(waiting)

    def run(self, wave: Wave, meet: int, budget: int, runnable: list[Wave], waiting: list[Wave]) -> int:
        """Execute a wave until it ends, waits at a barrier, divides, or reaches the instruction `meet`.

        What continues is added to `runnable` or `waiting`; returns how many more instructions may be executed.
        """
        steps, used, executed = self.steps, self.used, self.machine.counters.executed
        pc, workgroups = wave.pc, len(wave.rows)
        flight = wave.in_flight
        while True:
            if not wave.suspect.isdisjoint(used[pc]):
                instruction = self.instructions[pc]
                follow(wave, pc, instruction, OPCODES[instruction.name], self.machine.findings)
            if flight.pending and not flight.pending.isdisjoint(used[pc]):
                self.check_pending(wave, pc)
            executed[pc] += workgroups
            step = steps[pc]
            if step is not None:
                step(wave)
                pc += 1
            else:
                following = self.control(wave, pc, runnable, waiting)
                if following is None:
                    return budget
                pc = following
            budget -= 1
            if pc >= meet or budget == 0:
                wave.pc = pc
                runnable.append(wave)
                if budget == 0:
                    self.give_up(pc)
                return budget

    def give_up(self, pc: int) -> None:
        """Refuse a kernel that does not come to an end."""
        instruction = self.instructions[pc]
        raise EndlessKernelError(
            kernel=self.machine.program.kernel, limit=LIMIT, line=instruction.line, text=instruction.text
        )

    def control(self, wave: Wave, pc: int, runnable: list[Wave], waiting: list[Wave]) -> int | None:
        """Execute a branch, wait or barrier; return the next instruction, None where the wave stops or divides."""
        instruction = self.instructions[pc]
        if instruction.name == "s_waitcnt":
            self.wait(wave, pc, instruction)
            return pc + 1
        if instruction.name == "s_endpgm":
            return None
        if instruction.name == "s_barrier":
            wave.pc = pc + 1
            waiting.append(wave)
            return None
        taken = branch_taken(wave, instruction.name)
        if taken.all():
            return instruction.target
        if not taken.any():
            return pc + 1
        for which, target in ((taken, instruction.target), (~taken, pc + 1)):
            part = wave.take(which)
            part.pc = target
            runnable.append(part)
        return None

    def wait(self, wave: Wave, pc: int, instruction: Instruction) -> None:
        """Execute an s_waitcnt, and record what was in flight around it."""
        before = wave.in_flight.outstanding()
        wave.in_flight.wait(*(instruction.number(n) if instruction.flag(n) else None for n in ("vmcnt", "lgkmcnt")))
        after = wave.in_flight.outstanding()
        record = self.machine.counters.in_flight[pc]
        np.maximum(record, (before[0], after[0], before[1], after[1]), out=record)

    def check_pending(self, wave: Wave, pc: int) -> None:
        """Find registers that an instruction uses while an operation that writes them is in flight."""
        instruction = self.instructions[pc]
        own_queue = OPCODES[instruction.name].queue
        for operand in instruction.sources:
            self.check_operand(wave, pc, operand, "reads", None)
        for operand in instruction.destinations:
            # Loads of one queue return in order, so a later one may be issued over an earlier one; not scalar loads.
            in_order = own_queue if own_queue is not Queue.SCALAR else None
            self.check_operand(wave, pc, operand, "overwrites", in_order)

    def check_operand(self, wave: Wave, pc: int, operand: Operand, verb: str, in_order: Queue | None) -> None:
        """Find the registers of one operand that something is still to be written to."""
        flight = wave.in_flight
        scalar = operand.kind is OperandKind.SGPR
        if operand.kind not in (OperandKind.SGPR, OperandKind.VGPR):
            return
        for register in operand.registers:
            if (scalar_id(register) if scalar else register) not in flight.pending:
                continue
            for queue in (Queue.SCALAR,) if scalar else (Queue.VECTOR, Queue.LDS):
                late = flight.late(register, queue)
                if queue is in_order or not late.any():
                    continue
                what = f"{verb} {describe(operand)} while a load to it is in flight ({queue.value})"
                self.missing_wait(wave, pc, late, what)
                flight.forget(register, queue)

    def missing_wait(self, wave: Wave, pc: int, late: Mask, detail: str) -> None:
        """Note a missing wait in the workgroups where `late` holds."""
        row = int(wave.rows[int(np.argmax(late))])
        self.machine.findings.add(FindingKind.MISSING_WAIT, pc, wave.index, row, int(late.sum()), lambda: detail)


def branch_taken(wave: Wave, name: str) -> Mask:
    """Return for which workgroups a branch is taken."""
    match name:
        case "s_branch":
            return np.ones(len(wave.rows), np.bool_)
        case "s_cbranch_scc0":
            return np.asarray(~wave.scc)
        case "s_cbranch_scc1":
            return wave.scc
        case "s_cbranch_vccz" | "s_cbranch_vccnz":
            zero = wave.s64[:, VCC // 2] == 0
        case _:
            zero = wave.s64[:, EXEC // 2] == 0
    return np.asarray(zero if name.endswith("z") and not name.endswith("nz") else ~zero)


def join_all(waves: list[Wave]) -> list[Wave]:
    """Return the parts of a wave, those at the same instruction joined."""
    joined: dict[int, Wave] = {}
    for wave in waves:
        joined[wave.pc] = joined[wave.pc].join(wave) if wave.pc in joined else wave
    return list(joined.values())
