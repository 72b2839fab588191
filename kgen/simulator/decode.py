"""Final ISA text -> Program: instructions, labels, and the kernel's descriptor. No disassembler is needed.

The text is what LLVM prints for a whole code object: per kernel a label, its instructions, and an .amdhsa_kernel block.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from kgen.errors.simulator import (
    UnknownKernelError,
    UnknownLabelError,
    UnknownOpcodeError,
    UnknownOperandError,
    UnsupportedKernelError,
)
from kgen.simulator.operands import parse_operand, take_modifiers
from kgen.simulator.program import Instruction, Modifier, Operand, Program

COMMENT = re.compile(r"(;|//).*")
LABEL = re.compile(r"([\w.$]+):")
LOCAL_LABEL = re.compile(r"(\d+)([fb])")
SUFFIX = re.compile(r"(_e32|_e64)?(_dpp|_sdwa)?$")
SEPARATOR = re.compile(r",\s*(?![^\[]*\])")
WAIT = re.compile(r"(vmcnt|lgkmcnt|expcnt)\((\d+)\)")
BARE = ("s_nop", "s_sleep", "s_setprio", "s_sethalt", "s_setreg", "s_barrier", "s_endpgm", "s_icache", "s_dcache")

# How many of an instruction's operands are destinations, given its name, operand count and modifiers.
DestinationCount = Callable[[str, int, Mapping[str, Modifier]], int | None]


@lru_cache(maxsize=16)
def decode(isa_text: str, kernel: str, destinations: DestinationCount) -> Program:
    """Return one kernel of an ISA text. `destinations` is the opcode table's; None from it means an unknown opcode.

    Programs are kept, as a kernel is usually simulated several times.
    """
    lines = isa_text.splitlines()
    blocks = descriptors(lines)
    if kernel not in blocks:
        raise UnknownKernelError(kernel=kernel, known=", ".join(blocks) or "none")
    body = [(number, line) for number, line in code_lines(lines, kernel)]
    instructions: list[Instruction] = []
    labels: dict[str, list[int]] = {}
    for number, line in body:
        if label := LABEL.fullmatch(line):
            labels.setdefault(label[1], []).append(len(instructions))
        else:
            instructions.append(decode_instruction(number, line, destinations))
    resolved = tuple(resolve(i, position, labels) for position, i in enumerate(instructions))
    return program_of(kernel, isa_text, resolved, blocks[kernel])


def code_lines(lines: list[str], kernel: str) -> list[tuple[int, str]]:
    """Return the labels and instructions between the kernel's label and the end of its code, with line numbers."""
    found, inside = [], False
    for number, line in enumerate(lines, 1):
        text = COMMENT.sub("", line).strip()
        if text == f"{kernel}:":
            inside = True
        elif inside and text.startswith((".section", ".size", ".amdhsa_kernel")):
            break
        elif inside and text and (LABEL.fullmatch(text) or not text.startswith(".")):
            found.append((number, text))
    return found


def descriptors(lines: list[str]) -> dict[str, dict[str, str]]:
    """Return, per kernel, the values of its .amdhsa_ directives."""
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] | None = None
    for line in lines:
        words = line.split()
        if words[:1] == [".amdhsa_kernel"]:
            current = found[words[1]] = {}
        elif words[:1] == [".end_amdhsa_kernel"]:
            current = None
        elif current is not None and len(words) == 2 and words[0].startswith(".amdhsa_"):
            current[words[0].removeprefix(".amdhsa_")] = words[1]
    return found


def decode_instruction(line: int, text: str, destinations: DestinationCount) -> Instruction:
    """Return one instruction; a branch's label stays in its text until all labels are known."""
    mnemonic, _, rest = text.partition(" ")
    suffix = SUFFIX.search(mnemonic) if mnemonic.startswith("v_") else None
    name = mnemonic[: suffix.start()] if suffix else mnemonic
    plain = Instruction(line, text, mnemonic, name)
    if name == "s_waitcnt":
        return replace(plain, modifiers=waits(plain, rest))
    if name.startswith(("s_branch", "s_cbranch", *BARE)):
        return check_known(plain, destinations)
    operands, modifiers = take_modifiers(rest)
    parsed = [operand_of(plain, part) for part in SEPARATOR.split(operands) if part.strip()]
    count = destinations(name, len(parsed), modifiers)
    if count is None:
        raise UnknownOpcodeError(line=line, mnemonic=mnemonic, text=text)
    return replace(
        plain,
        destinations=tuple(parsed[:count]),
        sources=tuple(parsed[count:]),
        modifiers=modifiers,
        dpp=bool(suffix and suffix[2] == "_dpp"),
        sdwa=bool(suffix and suffix[2] == "_sdwa"),
    )


def check_known(instruction: Instruction, destinations: DestinationCount) -> Instruction:
    """Return an instruction without operands, if the tables know it."""
    if destinations(instruction.name, 0, {}) is None:
        raise UnknownOpcodeError(line=instruction.line, mnemonic=instruction.mnemonic, text=instruction.text)
    return instruction


def operand_of(instruction: Instruction, part: str) -> Operand:
    """Return one operand, or say which one is unknown."""
    operand = parse_operand(part, instruction.name)
    if operand is None:
        raise unknown_operand(instruction, part.strip())
    return operand


def unknown_operand(instruction: Instruction, operand: str) -> UnknownOperandError:
    """Return the error for an operand or modifier that an instruction is not known to have."""
    return UnknownOperandError(
        line=instruction.line, operand=operand, mnemonic=instruction.mnemonic, text=instruction.text
    )


def waits(instruction: Instruction, text: str) -> dict[str, Modifier]:
    """Return the counters that an s_waitcnt waits for."""
    found: dict[str, Modifier] = {match[1]: int(match[2]) for match in WAIT.finditer(text)}
    if not found or WAIT.sub("", text).replace("&", "").strip():
        raise unknown_operand(instruction, text.strip())
    return found


def resolve(instruction: Instruction, position: int, labels: dict[str, list[int]]) -> Instruction:
    """Return a branch with the index of its target; other instructions as they are."""
    if not instruction.name.startswith(("s_branch", "s_cbranch")):
        return instruction
    label = instruction.text.split()[1]
    local = LOCAL_LABEL.fullmatch(label)
    places = labels.get(local[1] if local else label, [])
    if local and local[2] == "f":
        places = [place for place in places if place > position][:1]
    elif local:
        places = [place for place in places if place <= position][-1:]
    if not places:
        raise UnknownLabelError(line=instruction.line, label=label, text=instruction.text)
    return replace(instruction, target=places[0])


def program_of(kernel: str, isa_text: str, instructions: tuple[Instruction, ...], block: dict[str, str]) -> Program:
    """Return the program, or refuse a calling convention that is not simulated.

    A kernel with asynchronous copies is declared to get pointers to its dispatch packet and queue, and its dispatch
    number, which it does not read: they are left unwritten, so that a read of one is found.
    """

    def number(directive: str) -> int:
        return int(block[directive], 0) if directive in block else 0

    def flag(axis: str) -> bool:
        return bool(number(f"system_sgpr_workgroup_id_{axis}"))

    refused = {
        "user_sgpr_kernarg_preload_length": "kernel arguments in registers",
        "system_sgpr_workgroup_info": "the workgroup info register",
        "uses_dynamic_stack": "a dynamic stack",
    }
    for directive, what in refused.items():
        if number(directive):
            raise UnsupportedKernelError(kernel=kernel, what=what)
    arch = re.search(r"gfx\w+", isa_text)
    if not number("user_sgpr_kernarg_segment_ptr") or not arch:
        raise UnsupportedKernelError(kernel=kernel, what="a kernel without an argument pointer or a target")
    return Program(
        kernel=kernel,
        arch=arch[0],
        instructions=instructions,
        static_lds_bytes=number("group_segment_fixed_size"),
        scratch_bytes=number("private_segment_fixed_size"),
        kernarg_bytes=number("kernarg_size"),
        kernarg_sgpr=2 * number("user_sgpr_dispatch_ptr") + 2 * number("user_sgpr_queue_ptr"),
        user_sgprs=number("user_sgpr_count"),
        workgroup_ids=(flag("x"), flag("y"), flag("z")),
        max_workgroup_size=1024,
    )
