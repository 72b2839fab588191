"""The assembly of a code object: the instructions of each kernel, and what counting them says.

Pure functions over the final assembly that FlyDSL keeps. Which mnemonics count as what stands in the arch file
(`MachineCode`); here a mnemonic covers what follows it after an underscore: `v_mfma` is also `v_mfma_f32_32x32x8_f16`.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kgen.target import MachineCode

_TARGET = re.compile(r'^\s*\.amdgcn_target\s+"amdgcn-amd-amdhsa-\w*-(?P<isa>gfx\w+)', re.MULTILINE)
_KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(?P<kernel>\S+)", re.MULTILINE)
_LABEL = re.compile(r"^(?P<label>[\w.$]+):")
_END = re.compile(r"^\.Lfunc_end\d+:")
_INSTRUCTION = re.compile(r"^\s+(?P<mnemonic>(?:s|v|ds|buffer|global|flat|scratch)_\w+)\b[ \t]*(?P<operands>.*)$")
_ENCODING = re.compile(r"_(?:e32|e64|dpp|sdwa)$")
_TO_LDS = re.compile(r"\blds\b|_lds_")
_WIDTH = re.compile(r"_(?P<width>dwordx[234]|dword|[us]?(?:short|byte))(?:_|$)")
_WIDTH_BYTES = {"dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4}

# A mnemonic's first matching prefix says which unit executes it; the order matters.
_UNITS = (
    ("mfma", ("v_mfma", "v_smfmac")),
    ("wait", ("s_waitcnt",)),
    ("barrier", ("s_barrier",)),
    ("branch", ("s_branch", "s_cbranch", "s_endpgm")),
    ("smem", ("s_load", "s_buffer_load")),
    (
        "other",
        ("s_nop", "s_setprio", "s_sleep", "s_sethalt", "s_setreg", "buffer_inv", "buffer_wbl2", "s_dcache", "s_icache"),
    ),
    ("lds", ("ds",)),
    ("scratch", ("scratch",)),
    ("global", ("buffer", "global", "flat")),
    ("salu", ("s",)),
    ("valu", ("v",)),
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, without its comment."""

    mnemonic: str
    operands: str

    @property
    def copies_to_lds(self) -> bool:
        """Whether it loads from global memory into LDS, past the registers."""
        return self.unit_of_mnemonic == "global" and _TO_LDS.search(f"{self.mnemonic} {self.operands}") is not None

    @property
    def unit(self) -> str:
        """What executes it."""
        return "lds copy" if self.copies_to_lds else self.unit_of_mnemonic

    @property
    def unit_of_mnemonic(self) -> str:
        """What executes instructions of that mnemonic."""
        return next(unit for unit, names in _UNITS if any(covers(name, self.mnemonic) for name in names))

    @property
    def access_bytes(self) -> int:
        """The bytes of a lane's access, 0 where the mnemonic says none."""
        found = _WIDTH.search(self.mnemonic)
        if found is None:
            return 0
        return _WIDTH_BYTES.get(found["width"]) or (2 if "short" in found["width"] else 1)


def covers(name: str, mnemonic: str) -> bool:
    """Whether a name of the arch file stands for a mnemonic."""
    return mnemonic == name or mnemonic.startswith(f"{name}_")


def isa_of(assembly: str) -> str | None:
    """Return the ISA that the assembly is for, as "gfx942", or None where it does not say."""
    found = _TARGET.search(assembly)
    return found["isa"] if found else None


def instructions_of(assembly: str) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of every kernel, in program order."""
    kernels = {found["kernel"] for found in _KERNEL.finditer(assembly)}
    bodies: dict[str, list[Instruction]] = {}
    body: list[Instruction] | None = None
    for line in assembly.splitlines():
        if _END.match(line):
            body = None
        elif (label := _LABEL.match(line)) and label["label"] in kernels:
            body = bodies.setdefault(label["label"], [])
        elif body is not None and (found := _INSTRUCTION.match(line.partition(";")[0])):
            body.append(Instruction(found["mnemonic"], " ".join(found["operands"].split())))
    return {kernel: tuple(body) for kernel, body in bodies.items()}


def count_units(instructions: Iterable[Instruction]) -> tuple[tuple[str, int], ...]:
    """Return how many instructions each unit has, in the order of the units' names."""
    return tuple(sorted(Counter(i.unit for i in instructions).items()))


def mma_sites(instructions: Iterable[Instruction], code: MachineCode) -> tuple[tuple[str, str, int], ...]:
    """Return (mnemonic of the arch file, the rest of the mnemonic, number) of the matrix instructions."""
    found = Counter(
        (name, _ENCODING.sub("", i.mnemonic)[len(name) + 1 :])
        for i in instructions
        for name in code.tensor_core
        if covers(name, i.mnemonic)
    )
    return tuple((kind, shape, number) for (kind, shape), number in sorted(found.items()))


def count_of(instructions: Iterable[Instruction], names: Iterable[str]) -> int:
    """Return how many instructions some names of the arch file stand for."""
    wanted = tuple(names)
    return sum(any(covers(name, i.mnemonic) for name in wanted) for i in instructions)


def errata_of(instructions: Iterable[Instruction], code: MachineCode) -> Iterator[str]:
    """Yield each instruction that the arch file lists as one that the hardware gets wrong."""
    for erratum in code.errata:
        name, *modifiers = erratum.split()
        for i in instructions:
            if covers(name, i.mnemonic) and all(modifier in i.operands for modifier in modifiers):
                yield f"{i.mnemonic} {i.operands}"


def digest_of(instructions: Iterable[Instruction]) -> str:
    """Return the SHA-256 of instructions."""
    text = "\n".join(f"{i.mnemonic} {i.operands}" for i in instructions)
    return hashlib.sha256(text.encode()).hexdigest()
