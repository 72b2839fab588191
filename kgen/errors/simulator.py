"""Errors of the simulator: ISA text that it cannot execute. Faults of a kernel are findings of a report, not errors."""

from typing import ClassVar

from kgen.errors.base import BadInputError, CheckFailedError, UnsupportedError


class UnknownOpcodeError(UnsupportedError):
    """No table of the simulator says what the instruction does."""

    message: ClassVar[str] = "line {line}: the simulator does not know {mnemonic}: {text}"
    remedy: ClassVar[str] = "add it to a table of kgen/simulator; docs/simulator.md says how"


class UnknownOperandError(UnsupportedError):
    """An operand or modifier of an instruction is not one that the simulator knows for it."""

    message: ClassVar[str] = "line {line}: the simulator does not know {operand} of {mnemonic}: {text}"
    remedy: ClassVar[str] = "docs/simulator.md says how to add one"


class UnknownKernelError(BadInputError):
    """The ISA text has no kernel of that name."""

    message: ClassVar[str] = "the ISA text has no kernel {kernel}; it has {known}"


class UnknownLabelError(BadInputError):
    """A branch names a label that the ISA text does not have."""

    message: ClassVar[str] = "line {line}: no label {label}: {text}"


class UnsupportedKernelError(UnsupportedError):
    """The kernel wants something at its start that the simulator does not set up."""

    message: ClassVar[str] = "{kernel}: {what} is not simulated"


class BadLaunchError(BadInputError):
    """The launch does not fit the kernel, or its buffers do not fit each other."""

    message: ClassVar[str] = "{kernel}: {reason}"


class EndlessKernelError(CheckFailedError):
    """A wave did not reach its end or a barrier."""

    message: ClassVar[str] = (
        "{kernel}: a wave executed {limit} instructions without an end or a barrier, at line {line}: {text}"
    )
    remedy: ClassVar[str] = "look for a loop that waits for another workgroup: workgroups make no progress meanwhile"
