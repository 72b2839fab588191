"""CuTe DSL's tool chain: compiled in a subprocess, cubins read with nvdisasm and cuobjdump, no simulator."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from kgen.check.compile_process import users_environment
from kgen.check.evidence import KernelEvidence
from kgen.check.launch import Launch, launches_of
from kgen.check.package import Expectation
from kgen.check.result import Finding, VariantEvidence
from kgen.check.sass import arch_of, kernels_of, machine_code_of
from kgen.check.toolchain import CUTEDSL_DISTRIBUTIONS, find_disassemblers, installed_versions
from kgen.target import Arch

# CUDA C++ Programming Guide, "Compute Capability 9.0": the system keeps 1 KiB of shared memory in each CTA, and it
# does not count against the CTA's limit.
_SYSTEM_SMEM_BYTES = 1024
_WARP_GROUP = 128
# What can change the code and stays the user's: part of every cache key.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CUDA_TOOLKIT_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")


@dataclass(frozen=True, slots=True)
class CtaLimits:
    """What the hardware gives one CTA at most."""

    registers: int
    registers_per_thread: int
    smem_bytes: int

    def registers_for(self, threads: int) -> int:
        """Return the most registers a thread may have at launch; the hardware hands them out by eight."""
        return min(self.registers_per_thread, self.registers // threads // 8 * 8)

    def findings(self, expected: Expectation, kernel: KernelEvidence) -> Iterator[Finding]:
        """Yield which resources of a kernel are not as planned, or more than a CTA has.

        What is planned is of the kernel that multiplies; one beside it, which adds up its parts, has its own.
        """
        name = expected.variant
        if expected.mma not in (None, "none") and not kernel.mma:
            expected = replace(expected, threads=None, smem_bytes=None)
        threads = kernel.threads if kernel.threads is not None else expected.threads
        if expected.threads is not None and threads != expected.threads:
            yield Finding(name, "threads", str(expected.threads), str(threads))
        if threads is not None:
            yield from self._registers(name, kernel, threads)
        dynamic = kernel.dynamic_smem_bytes if kernel.dynamic_smem_bytes is not None else expected.smem_bytes
        if expected.smem_bytes is not None and dynamic != expected.smem_bytes:
            yield Finding(name, "dynamic smem", f"{expected.smem_bytes} bytes", f"{dynamic} bytes")
        total = (dynamic or 0) + max(0, kernel.static_smem_bytes - _SYSTEM_SMEM_BYTES)
        if total > self.smem_bytes:
            yield Finding(name, "smem", f"at most {self.smem_bytes} bytes in a CTA", f"{total} bytes")

    def _registers(self, name: str, kernel: KernelEvidence, threads: int) -> Iterator[Finding]:
        most = self.registers_for(threads)
        if kernel.registers > most:
            reason = f"at most {most} ({self.registers} / {threads} threads)"
            yield Finding(name, "registers", reason, str(kernel.registers))
        groups = threads // _WARP_GROUP
        if kernel.register_pool is None or groups < 2:
            return
        # One warp group gives registers back and the others take them; what the launch handed out is all there is,
        # and a group that waits for more hangs.
        least, greatest = kernel.register_pool
        have, want = groups * kernel.registers, least + (groups - 1) * greatest
        if want > have:
            yield Finding(
                name,
                "setmaxnreg",
                f"at most {have} registers over {groups} warp groups ({kernel.registers} each at launch)",
                f"{want} ({least} + {groups - 1} x {greatest})",
            )


class CuteDsl:
    """Compiles and reads packages for Hopper."""

    distribution: ClassVar[str] = "nvidia-cutlass-dsl"
    distributions: ClassVar[tuple[str, ...]] = CUTEDSL_DISTRIBUTIONS
    simulates: ClassVar[bool] = False
    extra: ClassVar[str] = "hopper"
    dsl_module: ClassVar[str] = "cutlass"
    readers: ClassVar[tuple[str, ...]] = ("compile_runner.py", "cutedsl.py", "toolchain.py", "sass.py", "launch.py")

    probe_kernel: ClassVar[Path | None] = None

    def __init__(self) -> None:
        """Find what reads cubins; raises `DisassemblerMissingError`."""
        self._disassemblers = find_disassemblers()

    @staticmethod
    def limits_of(arch: Arch) -> CtaLimits:
        """Return what the hardware gives one CTA."""
        return CtaLimits(
            registers=int(arch.limit("registers_per_unit").value),
            registers_per_thread=int(arch.limit("registers_per_thread").value),
            smem_bytes=int(arch.limit("smem_bytes_per_cta").value),
        )

    @staticmethod
    def simulator() -> None:
        """Nothing executes Hopper's machine code here."""

    def made_with(self) -> dict[str, Any]:
        """Return what the evidence is made with."""
        tools = (self._disassemblers.nvdisasm, self._disassemblers.cuobjdump)
        return {
            "distributions": installed_versions(CUTEDSL_DISTRIBUTIONS),
            "disassemblers": [tool.version for tool in tools],
            "environment": {name: os.environ.get(name) for name in _INHERITED},
        }

    def command(self) -> list[str]:
        """Return the program of the compile subprocess; -P: the modules beside it must not shadow others."""
        return [sys.executable, "-P", str(Path(__file__).with_name("compile_runner.py"))]

    def environment(self, isa: str, scratch: Path) -> dict[str, str]:
        """Return its environment: the same on a machine with a GPU and on one without."""
        return users_environment() | {
            "CUTE_DSL_ARCH": isa,
            "CUTE_DSL_KEEP": "cubin",
            "CUTE_DSL_DUMP_DIR": str(scratch),  # private: the DSL cuts long file names, so two kernels may share one
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONHASHSEED": "0",
        }

    def read(self, event: dict[str, Any], isa: str) -> VariantEvidence:
        """Return the evidence of a compiled variant, and remove its files."""
        cubin, host_ir = Path(event["cubin"]), Path(event["host_ir"])
        sass = self._disassemblers.listing(cubin)
        launches = launches_of(host_ir.read_text(encoding="utf-8"))
        kernels = kernels_of(sass, self._disassemblers.resource_usage(cubin), machine_code_of(isa))
        cubin.unlink()
        host_ir.unlink()
        return VariantEvidence(
            variant=event["variant"],
            seconds=event["seconds"],
            arch=arch_of(sass),
            kernels=tuple(_with_launch(kernel, launches) for kernel in kernels),
            listing=sass,
        )


def _with_launch(kernel: KernelEvidence, launches: tuple[Launch, ...]) -> KernelEvidence:
    """Add the launch arguments, when every launch of the kernel has the same ones."""
    mine = [launch for launch in launches if launch.is_of(kernel.kernel)]
    threads = {launch.threads for launch in mine}
    dynamic = {launch.dynamic_smem_bytes for launch in mine}
    clusters = {launch.cluster for launch in mine}
    return replace(
        kernel,
        threads=threads.pop() if len(threads) == 1 else None,
        dynamic_smem_bytes=dynamic.pop() if len(dynamic) == 1 else None,
        cluster=clusters.pop() if len(clusters) == 1 else None,
    )
