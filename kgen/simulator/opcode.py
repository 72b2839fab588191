"""What a table says of an opcode, and the step that it becomes for one instruction of one launch."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kgen.errors.simulator import UnknownOperandError
from kgen.simulator.machine import Machine
from kgen.simulator.program import Instruction
from kgen.simulator.report import InstructionClass
from kgen.simulator.waits import Queue
from kgen.simulator.wave import Wave

Step = Callable[[Wave], None]
Binder = Callable[[Instruction, Machine], Step]


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode: how many of its operands are destinations, and how to make a step of an instruction.

    `queue` says who writes the destinations later; None means that they are written at once. `pure` means that every
    lane of the destinations depends on the same lane of the sources only.
    """

    bind: Binder
    unit: InstructionClass
    destinations: int = 1
    queue: Queue | None = None
    pure: bool = False


DPP = {
    *("quad_perm", "row_shl", "row_shr", "row_ror", "row_bcast", "row_newbcast", "row_mirror", "row_half_mirror"),
    *("wave_shl", "wave_shr", "wave_rol", "wave_ror", "row_mask", "bank_mask", "bound_ctrl"),
}
SDWA = frozenset(["dst_sel", "dst_unused", "src0_sel", "src1_sel"])


def check_modifiers(instruction: Instruction, allowed: Iterable[str]) -> None:
    """Refuse a modifier whose meaning for this instruction is not in the tables."""
    known = set(allowed)
    known |= DPP if instruction.dpp else set()
    known |= SDWA if instruction.sdwa else set()
    for name in instruction.modifiers:
        if name not in known:
            raise refuse(instruction, f"the modifier {name}")


def refuse(instruction: Instruction, what: str) -> UnknownOperandError:
    """Return the error that names what of an instruction is not simulated."""
    return UnknownOperandError(
        line=instruction.line, operand=what, mnemonic=instruction.mnemonic, text=instruction.text
    )
