"""Runs a few instructions on registers that a test fills in, and short kernels on buffers."""

from collections.abc import Mapping, Sequence

import numpy as np

from kgen.simulator import Buffer, Launch, Poison, Report, WaveOrder, simulate
from kgen.simulator.decode import decode
from kgen.simulator.engine import NEVER, Engine
from kgen.simulator.findings import Findings
from kgen.simulator.global_memory import GlobalMemory
from kgen.simulator.machine import Counters, Machine
from kgen.simulator.program import EXEC, SGPRS
from kgen.simulator.simulate import first_wave, lds_granule
from kgen.simulator.table import destination_count
from kgen.simulator.waits import scalar_id
from kgen.simulator.wave import Wave

LANES, WORKGROUPS = 64, 2
EVERY_LANE = (1 << 64) - 1
ADDRESS = 0x10000
DESCRIPTOR = """
	.amdhsa_kernel {name}
		.amdhsa_group_segment_fixed_size {lds}
		.amdhsa_private_segment_fixed_size {scratch}
		.amdhsa_kernarg_size {kernarg}
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 1
		.amdhsa_system_sgpr_workgroup_id_z 0
	.end_amdhsa_kernel
"""


def kernel_text(
    body: str, *, arch: str = "gfx942", lds: int = 0, scratch: int = 0, kernarg: int = 0, name: str = "kernel"
) -> str:
    """Return the ISA text of a kernel whose code is `body`."""
    head = f'\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-{arch}"\n\t.text\n{name}:\n'
    tail = DESCRIPTOR.format(name=name, lds=lds, scratch=scratch, kernarg=kernarg)
    return f'{head}{body}\n\ts_endpgm\n.Lend:\n\t.section .rodata,"a",@progbits{tail}'


def as_bits(values: object) -> np.ndarray:
    """Return 32-bit patterns of numbers: Python integers as they are, floats as f32."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return array.astype(np.float32).view(np.uint32)
    if array.dtype.itemsize == 4 and array.dtype.kind in "iu":
        return array.view(np.uint32)
    return np.array([int(x) & 0xFFFFFFFF for x in np.atleast_1d(array).ravel()], np.uint32).reshape(array.shape or (1,))


def run(
    body: str,
    *,
    v: Mapping[int, object] | None = None,
    s: Mapping[int, int] | None = None,
    exec_mask: int = EVERY_LANE,
    scc: bool = False,
    arch: str = "gfx942",
    lds: int = 0,
    scratch: int = 0,
    memory: np.ndarray | None = None,
) -> tuple[Wave, Machine]:
    """Execute instructions in one wave of two workgroups, on registers given by number (AGPR n is 256 + n)."""
    program = decode(kernel_text(body, arch=arch, lds=lds, scratch=scratch), "kernel", destination_count)
    buffers = [] if memory is None else [Buffer(ADDRESS, memory.view(np.uint8).reshape(-1), "memory")]
    machine = Machine(
        program=program,
        poison=Poison.QUIET_NAN,
        memory=GlobalMemory("kernel", buffers, Poison.QUIET_NAN),
        findings=Findings(program, (WORKGROUPS, 1, 1)),
        counters=Counters.of(program),
        lds_bytes=lds,
        lds_granule=lds_granule(program),
    )
    machine.start_batch(np.arange(WORKGROUPS))
    wave = first_wave(machine, Launch("kernel", (WORKGROUPS, 1, 1), (LANES, 1, 1), b""), 0, np.arange(WORKGROUPS), 0)
    for register, values in (v or {}).items():
        if register >= program.registers:
            continue  # the instructions do not use it
        wave.v[register] = np.broadcast_to(as_bits(values), (LANES,))
        wave.undefined[register] = False
        wave.suspect.discard(register)
    for register, value in ({EXEC: exec_mask & 0xFFFFFFFF, EXEC + 1: exec_mask >> 32} | dict(s or {})).items():
        wave.s[:, register] = value & 0xFFFFFFFF
        wave.undefined_scalars[:, register] = False
        wave.suspect.discard(scalar_id(register))
    wave.scc[:] = scc
    wave.refresh_exec()
    with np.errstate(all="ignore"):
        Engine(machine).run(wave, NEVER, 10_000, [], [])
    return wave, machine


def vector(wave: Wave, register: int, dtype: object = np.uint32) -> np.ndarray:
    """Return the lanes of a register of the second workgroup, which must equal the first's."""
    assert np.array_equal(wave.v[register][0], wave.v[register][1])
    return wave.v[register][1].view(dtype)


def scalar(wave: Wave, register: int) -> int:
    """Return a scalar register of the second workgroup."""
    return int(wave.s[1, register])


def scalar_pair(wave: Wave, register: int) -> int:
    """Return a scalar register pair of the second workgroup."""
    return int(wave.s64[1, register // 2])


def launch(
    text: str,
    arrays: Sequence[np.ndarray],
    *,
    scalars: Sequence[int] = (),
    grid: int = 1,
    block: int = 64,
    wave_order: WaveOrder = WaveOrder.FORWARD,
    poison: Poison = Poison.QUIET_NAN,
    gap: int = 4096,
) -> Report:
    """Run a kernel whose arguments are the addresses of arrays, then 32-bit numbers."""
    buffers, address = [], ADDRESS
    for number, array in enumerate(arrays):
        buffers.append(Buffer(address, array.view(np.uint8).reshape(-1), f"array {number}"))
        address += -(-array.nbytes // 256) * 256 + gap
    kernarg = b"".join(b.address.to_bytes(8, "little") for b in buffers)
    kernarg += b"".join((x & 0xFFFFFFFF).to_bytes(4, "little") for x in scalars)
    where = Launch("kernel", (grid, 1, 1), (block, 1, 1), kernarg)
    return simulate(text, where, buffers, wave_order=wave_order, poison=poison)


__all__ = [
    "ADDRESS",
    "EVERY_LANE",
    "SGPRS",
    "as_bits",
    "kernel_text",
    "launch",
    "run",
    "scalar",
    "scalar_pair",
    "vector",
]
