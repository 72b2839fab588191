"""Instruction evidence per kernel function of any CUDA binary: a PyTorch extension, an executable, a cubin.

`cuobjdump` finds the ELFs of GPU code in the file, one per source file and architecture; those of one architecture
are read. Counting and digest are the ones of emitted packages.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kgen.check.evidence import KernelEvidence, kernels_digest
from kgen.check.sass import evidence_of, machine_code_of, usage_of
from kgen.check.toolchain import Tool, find_tool, require_tool
from kgen.errors.check import DisassemblerFailedError, NoDeviceCodeError
from kgen.target import MachineCode

_LISTED = re.compile(r"^ELF file\s+\d+: .*\.(?P<arch>sm_\w+)\.cubin$", re.MULTILINE)
_ELF_HEADER = "Fatbin elf code:"  # a cubin is one ELF and has no such header
_ELF_ARCH = re.compile(r"^(?:arch = |\s*code for )(?P<arch>sm_\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^\s*Function : (?P<kernel>\S+)$")
_IMPORTED = re.compile(r"\bU[ \t]+(?P<symbol>\S+)$", re.MULTILINE)
_DEMANGLERS = ("cu++filt", "c++filt")


@dataclass(frozen=True, slots=True)
class BinaryEvidence:
    """What the kernels in a file were compiled to for one architecture.

    `isa` was asked for and `arch` is what `kernels` are made of: the same, or the plain target of that generation
    ("sm_90" for "sm_90a"), or `None` where the file holds neither. `arches` are those of all ELFs.
    """

    file: Path
    isa: str
    arch: str | None
    arches: tuple[str, ...]
    kernels: tuple[KernelEvidence, ...]

    @property
    def other_arches(self) -> tuple[str, ...]:
        """The architectures that were not read."""
        return tuple(arch for arch in self.arches if arch != self.arch)

    @property
    def code_digest(self) -> str | None:
        """The digest of the kernels' machine code, however they are named; `None` where there are none."""
        return kernels_digest(self.kernels)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        named = {"file": str(self.file), "isa": self.isa, "arch": self.arch, "arches": list(self.arches)}
        return {**named, "code_digest": self.code_digest, "kernels": [kernel.to_json() for kernel in self.kernels]}


def read_binary(file: Path, isa: str) -> BinaryEvidence:
    """Read the kernels that a binary holds for an ISA, with demangled names where a demangler is here.

    Launch arguments are in the host code and stay unknown. Raises `NoDeviceCodeError`, `UnknownIsaError` and
    `DisassemblerMissingError`.
    """
    code, cuobjdump = machine_code_of(isa), require_tool("cuobjdump")
    try:
        arches = tuple(dict.fromkeys(_LISTED.findall(cuobjdump.run("-lelf", str(file)))))
    except DisassemblerFailedError as error:
        if "does not contain device code" not in str(error):
            raise
        raise NoDeviceCodeError(file=file) from error
    wanted = (isa, isa.rstrip("af"))  # an "a" or "f" target extends the plain one, and its GPUs run both
    arch = next((arch for arch in wanted if arch in arches), None)
    kernels = _demangled(_kernels(cuobjdump, file, arch, code)) if arch else ()
    return BinaryEvidence(file, isa, arch, arches, kernels)


def kernels_in(said: tuple[str, str, str], arch: str, code: MachineCode) -> tuple[KernelEvidence, ...]:
    """Return the evidence of the kernels of one architecture from cuobjdump's -sass, -res-usage and -symbols."""
    result = []
    for sass, usage, symbols in zip(*(_elves(text, arch) for text in said), strict=True):
        numbers = usage_of(usage)
        imports = not set(code.assert_function).isdisjoint(_IMPORTED.findall(symbols))
        result += [evidence_of(name, lines, numbers, code, imports) for name, lines in _functions(sass)]
    return tuple(result)


def _kernels(cuobjdump: Tool, file: Path, arch: str, code: MachineCode) -> tuple[KernelEvidence, ...]:
    # -arch keeps a large library's other code away, though not that of a target of the same number
    sass, usage, symbols = (
        cuobjdump.run(what, "-arch", arch, str(file)) for what in ("-sass", "-res-usage", "-symbols")
    )
    return kernels_in((sass, usage, symbols), arch, code)


def _elves(text: str, arch: str) -> list[str]:
    """Return the part of each ELF of that architecture; one that states none is a cubin, and the only one."""
    first, *parts = text.split(_ELF_HEADER)
    found = [(part, _ELF_ARCH.search(part)) for part in parts or [first]]
    return [part for part, stated in found if stated is None or stated["arch"] == arch]


def _functions(sass: str) -> Iterator[tuple[str, list[str]]]:
    kernel, lines = "", list[str]()
    for line in sass.splitlines():
        if found := _FUNCTION.match(line):
            if kernel:
                yield kernel, lines
            kernel, lines = found["kernel"], []
        else:
            lines.append(line)
    if kernel:
        yield kernel, lines


def _demangled(kernels: tuple[KernelEvidence, ...]) -> tuple[KernelEvidence, ...]:
    tool = next(filter(None, map(find_tool, _DEMANGLERS)), None)
    if tool is None or not kernels:
        return kernels
    names = tool.run(text="".join(f"{kernel.kernel}\n" for kernel in kernels)).splitlines()
    return tuple(replace(kernel, kernel=name) for kernel, name in zip(kernels, names, strict=True))
