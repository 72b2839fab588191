"""Disassembly to numbers: what each kernel of a cubin is made of, and a digest of it.

Pure functions over the text of `nvdisasm -c`, `cuobjdump -sass` and `cuobjdump -res-usage`; no tool runs here. Which
mnemonics count as what stands in the arch file (`MachineCode`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kgen.check.evidence import KernelEvidence, MmaSites, sha256_of
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
        cluster_stores=sites(code.cluster_store),
        grid_waits=sites(code.grid_wait),
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
    return sha256_of(list(_canonical(lines)))


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
