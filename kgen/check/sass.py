"""Disassembly to numbers: what each kernel of a cubin is made of, and a digest of it.

Pure functions over the text of `nvdisasm -c`, `cuobjdump -sass` and `cuobjdump -res-usage`; no tool runs here. Which
mnemonics count as what stands in the arch file (`MachineCode`).
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from kgen.errors.check import UnknownIsaError
from kgen.target import MachineCode, all_devices

# "        /*00a0*/               @!UP0 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;"
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]+)\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)(?P<operands>[^;]*);"
)
_LABEL = re.compile(r"^(?P<label>[.$\w]+):$")
_QUOTED = re.compile(r"`\((?P<symbol>[^()]+)\)")  # "`(.L_x_1)", with -sass "0x40"
_SYMBOL = re.compile(r"[.$A-Za-z_][\w.$]*")
_SECTION = re.compile(r"^\s*\.section\s+(?P<name>[^\s,]+)")
_TARGET = re.compile(r"^\s*\.target\s+(?P<arch>sm_\w+)", re.MULTILINE)  # cubins made with CUDA 13
_HEADER_FLAGS = re.compile(r'\.headerflags\s+@"(?P<flags>[^"]*)"')
_SM_FLAG = re.compile(r"EF_CUDA_SM(\d+)")
_FUNCTION = re.compile(r"^\s*Function (?P<kernel>\S+):$")
_USAGE = re.compile(r"(?P<key>REG|STACK|SHARED|LOCAL):(?P<value>\d+)")

_ACCESS_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}  # of a modifier of memory accesses
_WORD_BYTES = 4  # of an access without one


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
    with shared memory. `dynamic_smem_bytes`, `threads` and `cluster` are launch arguments, `None` where the host code
    computes them at run time or was not read; a launch with no cluster has none. `register_pool` is the (least,
    greatest) argument of setmaxnreg. `assert_calls` are all calls to the outside of a cubin that imports the function
    of asserts: one to printf counts, too. `instructions_digest` is of the instructions alone. `access_bytes` are what
    a thread moves with its widest access to device memory, a bulk copy counted as the widest that there is.
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
    traps: int = 0
    assert_calls: int = 0
    instructions_digest: str = ""
    access_bytes: int = 0
    registers: int = 0
    stack_bytes: int = 0
    local_bytes: int = 0
    static_smem_bytes: int = 0
    dynamic_smem_bytes: int | None = None
    threads: int | None = None
    cluster: tuple[int, int, int] | None = None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "KernelEvidence":
        """Return the evidence that `dataclasses.asdict` and JSON made `stored` of."""
        pool, cluster = stored["register_pool"], stored["cluster"]
        mma = tuple(MmaSites(**row) for row in stored["mma"])
        return cls(
            **stored | {"mma": mma, "register_pool": pool and tuple(pool), "cluster": cluster and tuple(cluster)}
        )

    @property
    def spills(self) -> int:
        """Places that move a register to or from local memory."""
        return self.spill_loads + self.spill_stores

    @property
    def code_digest(self) -> str:
        """SHA-256 of what decides what the kernel does on the device: instructions, registers, smem, CTA, cluster."""
        smem = (self.static_smem_bytes, self.dynamic_smem_bytes)
        return _sha256([self.instructions_digest, self.registers, smem, self.threads, self.cluster])

    def to_json(self) -> dict[str, Any]:
        """Return its fields and its digest."""
        return asdict(self) | {"code_digest": self.code_digest}


def kernels_digest(kernels: Iterable[KernelEvidence]) -> str | None:
    """Return the digest of kernels' machine code, however they are named and ordered; `None` where there are none."""
    digests = sorted(kernel.code_digest for kernel in kernels)  # the functions of a cubin are in their names' order
    return combined_digest(digests) if digests else None


def combined_digest(digests: Iterable[str]) -> str:
    """Return one digest for several."""
    return _sha256(list(digests))


def machine_code_of(isa: str) -> MachineCode:
    """Return how the arch with that ISA spells its instructions; raises `UnknownIsaError`."""
    arches = {device.arch.isa: device.arch for device in all_devices()}
    if isa not in arches:
        raise UnknownIsaError(isa=isa, known=", ".join(arches))
    return arches[isa].machine_code


def arch_of(sass: str) -> str | None:
    """Return the architecture a cubin was built for, as "sm_90a", from the header of its disassembly."""
    if target := _TARGET.search(sass):
        return target["arch"]
    if not (header := _HEADER_FLAGS.search(sass)) or not (sm := _SM_FLAG.search(header["flags"])):
        return None
    # an "a" target may use the instructions of one generation only (wgmma, setmaxnreg)
    return f"sm_{sm[1]}" + ("a" if "EF_CUDA_ACCELERATORS" in header["flags"].split() else "")


def kernels_of(sass: str, resource_usage: str, code: MachineCode) -> tuple[KernelEvidence, ...]:
    """Return the evidence of every kernel function, in the order of the listing."""
    usage = usage_of(resource_usage)
    imports = any(re.search(rf"\.type\s+{re.escape(name)},@function", sass) for name in code.assert_function)
    return tuple(evidence_of(kernel, lines, usage, code, imports) for kernel, lines in _sections(sass))


def evidence_of(
    kernel: str, lines: list[str], usage: dict[str, dict[str, int]], code: MachineCode, imports_assert: bool
) -> KernelEvidence:
    """Return the evidence of one kernel function from the lines of its disassembly and the usage by kernel."""
    numbers = usage.get(kernel, {})
    return replace(
        _count(kernel, lines, code, imports_assert),
        instructions_digest=_instructions_digest(lines),
        registers=numbers.get("REG", 0),
        stack_bytes=numbers.get("STACK", 0),
        local_bytes=numbers.get("LOCAL", 0),
        static_smem_bytes=numbers.get("SHARED", 0),
    )


def usage_of(text: str) -> dict[str, dict[str, int]]:
    """Return what `cuobjdump -res-usage` says: kernel -> REG, STACK, SHARED, LOCAL."""
    usage: dict[str, dict[str, int]] = {}
    kernel = ""
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            kernel = found["kernel"]
        elif kernel and (numbers := {m["key"]: int(m["value"]) for m in _USAGE.finditer(line)}):
            usage[kernel] = numbers
            kernel = ""
    return usage


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


def _count(kernel: str, lines: list[str], code: MachineCode, imports_assert: bool) -> KernelEvidence:
    found = [match for line in lines if (match := _INSTRUCTION.match(line))]
    opcodes = Counter(match["opcode"] for match in found)

    def sites(names: tuple[str, ...]) -> int:
        return sum(number for opcode, number in opcodes.items() if _name_of(opcode, names) is not None)

    mma = {opcode: name for opcode in opcodes if (name := _name_of(opcode, code.tensor_core)) is not None}
    multicasts = {o: n for o, n in opcodes.items() if not set(code.multicast).isdisjoint(o.split("."))}
    pool = [int(m["operands"].split()[-1], 0) for m in found if _name_of(m["opcode"], code.register_pool)]
    return KernelEvidence(
        kernel=kernel,
        mma=tuple(MmaSites(name, opcode[len(name) + 1 :], opcodes[opcode]) for opcode, name in sorted(mma.items())),
        mma_waits=sites(code.mma_wait),
        tma_loads=sites(code.bulk_load),
        tma_multicasts=sum(n for opcode, n in multicasts.items() if _name_of(opcode, code.bulk_load)),
        tma_stores=sites(code.bulk_store),
        matrix_stores=sites(code.matrix_store),
        ffma=sites(code.multiply_add),
        spill_loads=sites(code.spill_load),
        spill_stores=sites(code.spill_store),
        instructions=len(found),
        register_pool=(min(pool), max(pool)) if pool else None,
        traps=sites(code.trap),
        assert_calls=sites(code.external_call) if imports_assert else 0,
        access_bytes=max((_bytes_of(opcode, code) for opcode in opcodes), default=0),
    )


def _bytes_of(opcode: str, code: MachineCode) -> int:
    """Return the bytes that an instruction moves to or from device memory for a thread, 0 where it moves none."""
    if _name_of(opcode, (*code.bulk_load, *code.bulk_store, *code.bulk_copy)) is not None:
        return max(_ACCESS_BYTES.values())
    if _name_of(opcode, code.memory_access) is None:
        return 0
    return next((_ACCESS_BYTES[part] for part in opcode.split(".") if part in _ACCESS_BYTES), _WORD_BYTES)


def _name_of(opcode: str, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if opcode == name or opcode.startswith(f"{name}.")), None)


def _instructions_digest(lines: list[str]) -> str:
    return _sha256(list(_canonical(lines)))


def _canonical(lines: list[str]) -> Iterator[str]:
    """Yield predicate, opcode and operands, with addresses in the function for labels and for the function's name."""
    places: dict[str, str] = {}
    waiting: list[str] = []
    for line in lines:
        if label := _LABEL.match(line.strip()):
            waiting.append(label["label"])
        elif waiting and (found := _INSTRUCTION.match(line)):
            places |= dict.fromkeys(waiting, hex(int(found["address"], 16)))
            waiting = []
    for found in filter(None, map(_INSTRUCTION.match, lines)):
        operands = _SYMBOL.sub(lambda symbol: places.get(symbol[0], symbol[0]), found["operands"])
        operands = _QUOTED.sub(lambda quoted: quoted["symbol"], operands)
        yield " ".join(f"{found['guard'] or ''} {found['opcode']} {operands}".split())


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
