"""What each kernel function of a package is made of, read from its machine code by the readers of each tool chain."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MmaSites:
    """Tensor-core instructions of one class and shape, and how many places in the code issue them."""

    kind: str
    shape: str
    sites: int

    def __str__(self) -> str:
        joint = "_" if "_" in self.kind else "."  # as assemblers spell it: HGMMA.64x256x16, v_mfma_f32_16x16x16
        return f"{self.kind}{joint}{self.shape} x {self.sites}"


@dataclass(frozen=True, slots=True)
class WaveEvidence:
    """What a kernel for an architecture of waves (CDNA) was compiled to, beyond what all kernels have.

    `agprs` are those of `KernelEvidence.registers` that are accumulation registers. Spills count registers.
    `waves_per_simd` is how many waves a SIMD holds at once, as registers and LDS limit them. `async_loads` are sites
    that load from device memory into LDS past the registers. `units` are the sites of each unit. `errata` are
    instructions that the hardware is known to get wrong.
    """

    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    waves_per_simd: int
    async_loads: int
    units: tuple[tuple[str, int], ...]
    errata: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "WaveEvidence":
        """Return the evidence that `dataclasses.asdict` and JSON made `stored` of."""
        units = tuple((unit, number) for unit, number in stored["units"])
        return cls(**stored | {"units": units, "errata": tuple(stored["errata"])})


@dataclass(frozen=True, slots=True)
class KernelEvidence:
    """What one kernel function was compiled to. Counts are places in the code, not executions.

    `static_smem_bytes` is what the cubin declares, on Hopper including the 1 KiB that the system reserves in a CTA
    with shared memory. `dynamic_smem_bytes`, `threads` and `cluster` are launch arguments, `None` where the host code
    computes them at run time or was not read; a launch with no cluster has none. `register_pool` is the (least,
    greatest) argument of setmaxnreg. `assert_calls` are all calls to the outside of a cubin that imports the function
    of asserts: one to printf counts, too. `instructions_digest` is of the instructions alone. `access_bytes` are what
    a thread moves with its widest access to device memory, a bulk copy counted as the widest that there is.
    `cluster_stores` go to the smem of other CTAs of a cluster, `grid_waits` wait for the kernel before. `wave` is what
    only an architecture of waves has, and None elsewhere.
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
    cluster_stores: int = 0
    grid_waits: int = 0
    registers: int = 0
    stack_bytes: int = 0
    local_bytes: int = 0
    static_smem_bytes: int = 0
    dynamic_smem_bytes: int | None = None
    threads: int | None = None
    cluster: tuple[int, int, int] | None = None
    wave: WaveEvidence | None = None

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "KernelEvidence":
        """Return the evidence that `dataclasses.asdict` and JSON made `stored` of."""
        pool, cluster = stored["register_pool"], stored["cluster"]
        typed = {
            "mma": tuple(MmaSites(**row) for row in stored["mma"]),
            "register_pool": pool and tuple(pool),
            "cluster": cluster and tuple(cluster),
            "wave": stored["wave"] and WaveEvidence.from_json(stored["wave"]),
        }
        return cls(**stored | typed)

    @property
    def spills(self) -> int:
        """Places that move a register to or from local memory."""
        return self.spill_loads + self.spill_stores

    @property
    def code_digest(self) -> str:
        """SHA-256 of what decides what the kernel does on the device: instructions, registers, smem, CTA, cluster."""
        smem = (self.static_smem_bytes, self.dynamic_smem_bytes)
        return sha256_of([self.instructions_digest, self.registers, smem, self.threads, self.cluster])

    def to_json(self) -> dict[str, Any]:
        """Return its fields and its digest."""
        return asdict(self) | {"code_digest": self.code_digest}


def kernels_digest(kernels: Iterable[KernelEvidence]) -> str | None:
    """Return the digest of kernels' machine code, however they are named and ordered; `None` where there are none."""
    digests = sorted(kernel.code_digest for kernel in kernels)  # the functions of a cubin are in their names' order
    return combined_digest(digests) if digests else None


def combined_digest(digests: Iterable[str]) -> str:
    """Return one digest for several."""
    return sha256_of(list(digests))


def sha256_of(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
