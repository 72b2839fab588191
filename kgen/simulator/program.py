"""A kernel as the simulator sees it: decoded instructions, in program order, and what the launch needs to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

LANES = 64

# Scalar register numbers of the registers with names.
FLAT_SCRATCH, VCC, M0, EXEC, SGPRS = 102, 106, 124, 126, 128
FIRST_AGPR = 256  # accumulation registers are numbered behind the 256 vector registers


class OperandKind(Enum):
    """Where an operand's value is."""

    VGPR = "vector register"
    SGPR = "scalar register"
    CONSTANT = "constant"
    ABSENT = "off or null"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `register` is its first register (AGPR n is 256 + n), `count` how many 32-bit registers it spans."""

    kind: OperandKind
    register: int = 0
    count: int = 1
    value: int = 0  # of a constant: its bits, as the instruction's operand type reads them
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False

    @property
    def registers(self) -> range:
        """The numbers of the registers that the operand spans."""
        return range(self.register, self.register + self.count)


Modifier = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `name` is the mnemonic without its encoding suffix; `line` is 1-based in the ISA text."""

    line: int
    text: str
    mnemonic: str
    name: str
    destinations: tuple[Operand, ...] = ()
    sources: tuple[Operand, ...] = ()
    modifiers: Mapping[str, Modifier] = field(default_factory=dict)
    dpp: bool = False
    sdwa: bool = False
    target: int = -1  # of a branch: the index of the instruction it leads to

    def flag(self, name: str) -> bool:
        """Return whether a modifier without a value is there."""
        return name in self.modifiers

    def number(self, name: str, default: int = 0) -> int:
        """Return the value of a modifier such as offset:16."""
        value = self.modifiers.get(name, default)
        assert isinstance(value, int)
        return value

    def bits(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Return the values of a modifier such as op_sel:[0,1]."""
        value = self.modifiers.get(name, default)
        assert isinstance(value, tuple)
        return value


@dataclass(frozen=True)
class Program:
    """One kernel of a code object."""

    kernel: str
    arch: str
    instructions: tuple[Instruction, ...]
    static_lds_bytes: int
    scratch_bytes: int  # a work-item
    kernarg_bytes: int
    kernarg_sgpr: int  # the first of two that hold the address of the arguments
    user_sgprs: int
    workgroup_ids: tuple[bool, bool, bool]  # which of x, y, z follow the user SGPRs
    max_workgroup_size: int

    @cached_property
    def registers(self) -> int:
        """How many vector registers a lane needs: 256 + the AGPRs where there are any."""
        highest = 0
        for instruction in self.instructions:
            for operand in instruction.destinations + instruction.sources:
                if operand.kind is OperandKind.VGPR:
                    highest = max(highest, operand.registers.stop)
        return max(highest, 1)
