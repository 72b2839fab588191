"""Disassembly to numbers: what each kernel of a cubin is made of.

Pure functions over the text of `nvdisasm -c` and `cuobjdump -res-usage`; no tool runs here.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

# "        /*00a0*/               @!UP0 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;"
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)(?P<operands>[^;]*);")
_SECTION = re.compile(r"^\s*\.section\s+(?P<name>[^\s,]+)")
_TARGET = re.compile(r"^\s*\.target\s+(?P<arch>sm_\w+)", re.MULTILINE)  # cubins made with CUDA 13
_HEADER_FLAGS = re.compile(r'\.headerflags\s+@"(?P<flags>[^"]*)"')
_SM_FLAG = re.compile(r"EF_CUDA_SM(\d+)")
_FUNCTION = re.compile(r"^\s*Function (?P<kernel>\S+):$")
_USAGE = re.compile(r"(?P<key>REG|STACK|SHARED|LOCAL):(?P<value>\d+)")
_MMA = re.compile(r"^(?P<kind>[A-Z]*MMA)(?:\.(?P<shape>[\w.]+))?$")


@dataclass(frozen=True, slots=True)
class MmaSites:
    """Tensor-core instructions of one class and shape, and how many places in the code issue them."""

    kind: str
    shape: str
    sites: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.shape} x {self.sites}"


@dataclass(frozen=True, slots=True)
class KernelEvidence:
    """What one kernel function was compiled to. Counts are places in the code, not executions.

    `static_smem_bytes` is what the cubin declares, on Hopper including the 1 KiB that the system reserves in a CTA
    with shared memory. `dynamic_smem_bytes` and `threads` are launch arguments, `None` where the host code computes
    them at run time. `register_pool` is the (least, greatest) argument of setmaxnreg.
    """

    kernel: str
    mma: tuple[MmaSites, ...]
    mma_waits: int
    tma_loads: int
    tma_multicasts: int
    tma_stores: int
    matrix_stores: int
    ffma: int
    spill_loads: int
    spill_stores: int
    instructions: int
    register_pool: tuple[int, int] | None = None
    registers: int = 0
    stack_bytes: int = 0
    local_bytes: int = 0
    static_smem_bytes: int = 0
    dynamic_smem_bytes: int | None = None
    threads: int | None = None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "KernelEvidence":
        """Return the evidence that `dataclasses.asdict` and JSON made `stored` of."""
        pool = stored["register_pool"]
        mma = tuple(MmaSites(**row) for row in stored["mma"])
        return cls(**stored | {"mma": mma, "register_pool": pool and (pool[0], pool[1])})

    @property
    def spills(self) -> int:
        """Places that move a register to or from local memory."""
        return self.spill_loads + self.spill_stores


def arch_of(sass: str) -> str | None:
    """Return the architecture a cubin was built for, as "sm_90a", from the header of its disassembly."""
    if target := _TARGET.search(sass):
        return target["arch"]
    if not (header := _HEADER_FLAGS.search(sass)) or not (sm := _SM_FLAG.search(header["flags"])):
        return None
    # an "a" target may use the instructions of one generation only (wgmma, setmaxnreg)
    return f"sm_{sm[1]}" + ("a" if "EF_CUDA_ACCELERATORS" in header["flags"].split() else "")


def kernels_of(sass: str, resource_usage: str) -> tuple[KernelEvidence, ...]:
    """Return the evidence of every kernel function, in the order of the listing."""
    usage = _usage(resource_usage)
    result = []
    for kernel, lines in _sections(sass):
        numbers = usage.get(kernel, {})
        result.append(
            replace(
                _count(kernel, lines),
                registers=numbers.get("REG", 0),
                stack_bytes=numbers.get("STACK", 0),
                local_bytes=numbers.get("LOCAL", 0),
                static_smem_bytes=numbers.get("SHARED", 0),
            )
        )
    return tuple(result)


def _sections(sass: str) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = []
    is_code = False
    for line in sass.splitlines():
        if found := _SECTION.match(line):
            if is_code := found["name"].startswith(".text."):
                sections.append((found["name"].removeprefix(".text."), []))
        elif is_code:
            sections[-1][1].append(line)
    return sections


def _count(kernel: str, lines: list[str]) -> KernelEvidence:
    found = [match for line in lines if (match := _INSTRUCTION.match(line))]
    names = Counter(match["opcode"].split(".")[0] for match in found)
    mma = Counter((m["kind"], m["shape"] or "") for match in found if (m := _MMA.match(match["opcode"])))
    pool = [int(match["operands"].split()[-1], 0) for match in found if match["opcode"].startswith("USETMAXREG")]
    return KernelEvidence(
        kernel=kernel,
        mma=tuple(MmaSites(kind, shape, sites) for (kind, shape), sites in sorted(mma.items())),
        mma_waits=sum(match["opcode"].startswith("WARPGROUP.DEPBAR") for match in found),
        tma_loads=names["UTMALDG"],
        tma_multicasts=sum(match["opcode"].startswith("UTMALDG") and "MULTICAST" in match["opcode"] for match in found),
        tma_stores=names["UTMASTG"],
        matrix_stores=names["STSM"],
        ffma=names["FFMA"] + names["FFMA2"],
        spill_loads=names["LDL"],
        spill_stores=names["STL"],
        instructions=len(found),
        register_pool=(min(pool), max(pool)) if pool else None,
    )


def _usage(text: str) -> dict[str, dict[str, int]]:
    usage: dict[str, dict[str, int]] = {}
    kernel = ""
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            kernel = found["kernel"]
        elif kernel and (numbers := {m["key"]: int(m["value"]) for m in _USAGE.finditer(line)}):
            usage[kernel] = numbers
            kernel = ""
    return usage
