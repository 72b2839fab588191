"""Evidence of the kernels in a code object: what its metadata says and what its assembly holds, put together."""

from kgen.check.evidence import KernelEvidence, MmaSites, WaveEvidence
from kgen.check.flydsl.assembly import (
    Instruction,
    count_of,
    count_units,
    covers,
    digest_of,
    errata_of,
    instructions_of,
    mma_sites,
)
from kgen.check.flydsl.code_object import KernelMetadata, kernels_of
from kgen.target import Arch


def evidence_of(code_object: bytes, assembly: str, arch: Arch) -> tuple[KernelEvidence, ...]:
    """Return the evidence of every kernel of a code object for an arch."""
    bodies = instructions_of(assembly)
    return tuple(_kernel(kernel, bodies.get(kernel.name, ()), arch) for kernel in kernels_of(code_object))


def waves_per_simd(vgprs: int, threads: int, lds_bytes: int, arch: Arch) -> int:
    """Return how many waves of a kernel a SIMD holds at once; 0 where not one workgroup fits.

    The unified register file has 512 registers a lane, which are handed out by eight (LLVM, AMDGPUBaseInfo.cpp), and
    the LDS of a compute unit serves whole workgroups.
    """
    limit = {name: int(quantity.value) for name, quantity in arch.limits}
    simds = limit["simds_per_unit"]
    granule = limit["register_granule"]
    by_registers = limit["registers_per_thread"] // (-(-max(vgprs, 1) // granule) * granule)
    most = min(by_registers, limit["warps_per_unit"] // simds)
    if not lds_bytes:
        return most
    warps = -(-threads // limit["warp_size"])
    granule = limit["smem_granule"]
    groups = limit["smem_bytes_per_cta"] // (-(-lds_bytes // granule) * granule)
    return min(most, groups * warps // simds if groups * warps >= simds else min(groups, 1))


def _kernel(metadata: KernelMetadata, body: tuple[Instruction, ...], arch: Arch) -> KernelEvidence:
    code = arch.machine_code
    to_memory = [i for i in body if any(covers(name, i.mnemonic) for name in code.memory_access)]
    return KernelEvidence(
        kernel=metadata.name,
        mma=tuple(MmaSites(kind, shape, sites) for kind, shape, sites in mma_sites(body, code)),
        mma_waits=0,
        tma_loads=0,
        tma_multicasts=0,
        tma_stores=0,
        matrix_stores=0,
        ffma=count_of(body, code.multiply_add),
        spill_loads=count_of(body, code.spill_load),
        spill_stores=count_of(body, code.spill_store),
        instructions=len(body),
        traps=count_of(body, code.trap),
        instructions_digest=digest_of(body),
        access_bytes=max((i.access_bytes for i in to_memory), default=0),
        registers=metadata.vgprs,
        stack_bytes=metadata.scratch_bytes,
        static_smem_bytes=metadata.lds_bytes,
        threads=metadata.threads,
        wave=WaveEvidence(
            agprs=metadata.agprs,
            sgprs=metadata.sgprs,
            vgpr_spills=metadata.vgpr_spills,
            sgpr_spills=metadata.sgpr_spills,
            waves_per_simd=waves_per_simd(metadata.vgprs, metadata.threads, metadata.lds_bytes, arch),
            async_loads=sum(i.copies_to_lds for i in body),
            units=count_units(body),
            errata=tuple(errata_of(body, code)),
        ),
    )
