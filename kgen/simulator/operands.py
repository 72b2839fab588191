"""The operands and modifiers of an instruction, parsed from the ISA text."""

import re
import struct
from dataclasses import replace

from kgen.simulator.program import EXEC, FIRST_AGPR, FLAT_SCRATCH, M0, VCC, Modifier, Operand, OperandKind

NAMED = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "flat_scratch": (FLAT_SCRATCH, 2),
    "flat_scratch_lo": (FLAT_SCRATCH, 1),
    "flat_scratch_hi": (FLAT_SCRATCH + 1, 1),
}
RANGE = re.compile(r"([vsa])\[(\d+):(\d+)\]")
SINGLE = re.compile(r"([vsa])(\d+)")
INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)")
REAL = re.compile(r"-?(\d+\.\d*|\d*\.\d+)(e[-+]?\d+)?")

FLAGS = "offen|idxen|lds|sc0|sc1|nt|gds|clamp|row_mirror|row_half_mirror"
VALUES = (
    "offset|offset0|offset1|row_shl|row_shr|row_ror|row_bcast|row_newbcast|wave_shl|wave_shr|wave_rol|wave_ror"
    "|row_mask|bank_mask|bound_ctrl|cbsz|abid|blgp|bitop3|mul|div|dst_sel|dst_unused|src0_sel|src1_sel"
)
LISTS = "op_sel|op_sel_hi|neg_lo|neg_hi|quad_perm"
MODIFIER = re.compile(
    rf"(?<=\s)(?:(?P<list>{LISTS}):\[(?P<items>[^\]]*)\]"
    r"|offset:(?P<swizzle>swizzle\((?:SWAP|REVERSE|BROADCAST|QUAD_PERM|BITMASK_PERM),[^)]*\))"
    rf"|(?P<key>{VALUES}):(?P<value>[-\w]+)"
    rf"|(?P<flag>{FLAGS}))(?=\s|$)"
)
SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def parse_operand(text: str, name: str) -> Operand | None:
    """Return one operand, or None where it is of no known form. `name` decides how a real number is encoded."""
    text = text.strip()
    if text in ("off", "null"):
        return Operand(OperandKind.ABSENT)
    if text.startswith("sext(") and text.endswith(")"):
        inner = parse_operand(text[5:-1], name)
        return inner and replace(inner, sign_extend=True)
    if text.startswith("neg(") and text.endswith(")"):  # of a constant, which has no minus of its own
        inner = parse_operand(text[4:-1], name)
        return inner and replace(inner, negate=True)
    if text.startswith("-") and not re.match(r"-[\d.]", text):
        inner = parse_operand(text[1:], name)
        return inner and replace(inner, negate=True)
    if text.startswith("|") and text.endswith("|"):
        inner = parse_operand(text[1:-1], name)
        return inner and replace(inner, absolute=True)
    return parse_register(text) or parse_constant(text, name)


def parse_register(text: str) -> Operand | None:
    """Return a register operand: v3, s[4:7], a[0:3], vcc, ..."""
    if text in NAMED:
        register, count = NAMED[text]
        return Operand(OperandKind.SGPR, register, count)
    if match := RANGE.fullmatch(text):
        bank, first, last = match[1], int(match[2]), int(match[3])
    elif match := SINGLE.fullmatch(text):
        bank, first = match[1], int(match[2])
        last = first
    else:
        return None
    kind = OperandKind.SGPR if bank == "s" else OperandKind.VGPR
    return Operand(kind, first + (FIRST_AGPR if bank == "a" else 0), last - first + 1)


def parse_constant(text: str, name: str) -> Operand | None:
    """Return a constant: an integer, or a real number in the type of the operation."""
    if INTEGER.fullmatch(text):
        return Operand(OperandKind.CONSTANT, value=int(text, 0) & 0xFFFFFFFFFFFFFFFF)
    if REAL.fullmatch(text):
        return Operand(OperandKind.CONSTANT, value=real_bits(float(text), name))
    return None


def real_bits(number: float, name: str) -> int:
    """Return the bits of a real constant in the type that the mnemonic names: f16, f64, else f32, as for v_fma_mix."""
    if "f16" in name and "f32" not in name and "_mix" not in name:
        code, as_int = "<e", "<H"
    elif "f64" in name:
        code, as_int = "<d", "<Q"
    else:
        code, as_int = "<f", "<I"
    bits = struct.unpack(as_int, struct.pack(code, number))[0]
    assert isinstance(bits, int)
    return bits


def take_modifiers(operands: str) -> tuple[str, dict[str, Modifier]]:
    """Split the operand text into its operands and its modifiers; an unknown modifier stays in the operands."""
    found: dict[str, Modifier] = {}
    for match in MODIFIER.finditer(" " + operands):
        if match["list"]:
            found[match["list"]] = tuple(int(item) for item in match["items"].split(","))
        elif match["swizzle"]:
            found["offset"] = swizzle_pattern(match["swizzle"][8:-1])
        elif match["key"]:
            found[match["key"]] = modifier_value(match["key"], match["value"])
        else:
            found[match["flag"]] = 1
    return MODIFIER.sub("", " " + operands).strip(), found


def modifier_value(key: str, value: str) -> int:
    """Return the number of a `key:value` modifier; SDWA's selections are numbered in the order of their encoding."""
    if key in ("dst_sel", "src0_sel", "src1_sel"):
        return SELECTS.index(value)
    if key == "dst_unused":
        return UNUSED.index(value)
    return int(value, 0)


def swizzle_pattern(arguments: str) -> int:
    """Return ds_swizzle's 16-bit offset: bit 15 and the four lanes of a quad, or and, or, xor masks of 5 bits each."""
    mode, *rest = (part.strip().strip('"') for part in arguments.split(","))
    match mode:
        case "SWAP":
            return int(rest[0]) << 10 | 0x1F
        case "REVERSE":
            return (int(rest[0]) - 1) << 10 | 0x1F
        case "BROADCAST":
            return int(rest[1]) << 5 | (0x1F & ~(int(rest[0]) - 1))
        case "QUAD_PERM":
            return 0x8000 | sum(int(lane) << (2 * place) for place, lane in enumerate(rest))
        case _:  # BITMASK_PERM, one letter a bit from the highest: p keeps it, i inverts it, 0 and 1 set it
            masks = 0
            for bit, letter in zip((4, 3, 2, 1, 0), rest[0], strict=True):
                masks |= {"p": 1, "i": 1 | 1 << 10, "0": 0, "1": 1 << 5}[letter] << bit
            return masks
