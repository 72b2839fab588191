"""The plan's word against the compiler's: a finding per difference, each with what was expected and found."""

from collections.abc import Iterator

from kgen.check.hardware import CtaLimits, Hardware
from kgen.check.package import Expectation, PackageFolder
from kgen.check.result import Finding, VariantEvidence
from kgen.check.sass import KernelEvidence

# CUDA C++ Programming Guide, "Compute Capability 9.0": the system keeps 1 KiB of shared memory in each CTA, and it
# does not count against the CTA's limit.
_SYSTEM_SMEM_BYTES = 1024
_WARP_GROUP = 128


def compare(package: PackageFolder, hardware: Hardware, variants: tuple[VariantEvidence, ...]) -> tuple[Finding, ...]:
    """Return what is not as the plan and the hardware have it."""
    findings = [finding for evidence in variants for finding in _variant(package, hardware, evidence)]
    compiled = {evidence.variant for evidence in variants}
    for expectation in package.expectations:
        if expectation.variant not in compiled:
            findings.append(Finding(expectation.variant, "variant", "a row of VARIANTS that compiles", "none"))
    return tuple(findings)


def _variant(package: PackageFolder, hardware: Hardware, evidence: VariantEvidence) -> Iterator[Finding]:
    name = evidence.variant
    if evidence.failure is not None:
        yield Finding(name, "compile", f"a cubin for {hardware.isa}", evidence.failure)
        return
    if evidence.arch != hardware.isa:
        yield Finding(name, "architecture", hardware.isa, evidence.arch or "no CUDA architecture")
    if not evidence.kernels or not all(k.instructions and k.registers for k in evidence.kernels):
        yield Finding(name, "disassembly", "kernel functions with instructions and registers", "an unread listing")
        return
    expectation = package.expectation(name)
    if expectation is None:
        yield Finding(name, "evidence", "a row for this variant in plan.json", "none")
        expectation = Expectation(name)
    yield from _instructions(expectation, evidence.kernels)
    for kernel in evidence.kernels:
        yield from _resources(expectation, kernel, hardware.limits)


def _instructions(expected: Expectation, kernels: tuple[KernelEvidence, ...]) -> Iterator[Finding]:
    name = expected.variant
    sites = [sites for kernel in kernels for sites in kernel.mma]
    found = ", ".join(map(str, sites)) or "no tensor-core instruction"
    if expected.mma == "none" and sites:
        yield Finding(name, "MMA", "no tensor-core instruction", found)
    elif expected.mma not in (None, "none") and {s.kind for s in sites} != {expected.mma}:
        yield Finding(name, "MMA", f"{expected.mma} only", found)
    elif expected.mma_shape is not None and not all(_has_shape(s.shape, expected.mma_shape) for s in sites):
        yield Finding(name, "MMA shape", expected.mma_shape, found)
    for what, stated, count in (
        ("TMA loads", expected.tma_loads, sum(k.tma_loads for k in kernels)),
        ("TMA stores", expected.tma_stores, sum(k.tma_stores for k in kernels)),
        ("TMA multicast loads", expected.multicast, sum(k.tma_multicasts for k in kernels)),
    ):
        if stated is not None and stated != (count > 0):
            yield Finding(name, what, "at least one" if stated else "none", str(count))
    widest = max(k.access_bytes for k in kernels)
    if expected.access_bytes is not None and widest < expected.access_bytes:
        yield Finding(name, "memory access", f"one of {expected.access_bytes} bytes a thread", f"at most {widest}")
    spills = sum(k.spills for k in kernels)
    if spills > (allowed := expected.spills or 0):
        loads, stores = sum(k.spill_loads for k in kernels), sum(k.spill_stores for k in kernels)
        yield Finding(name, "spills", f"at most {allowed}", f"{loads} loads and {stores} stores")


def _resources(expected: Expectation, kernel: KernelEvidence, limits: CtaLimits) -> Iterator[Finding]:
    name = expected.variant
    threads = kernel.threads if kernel.threads is not None else expected.threads
    if expected.threads is not None and threads != expected.threads:
        yield Finding(name, "threads", str(expected.threads), str(threads))
    if threads is not None:
        yield from _registers(name, kernel, threads, limits)
    dynamic = kernel.dynamic_smem_bytes if kernel.dynamic_smem_bytes is not None else expected.smem_bytes
    if expected.smem_bytes is not None and dynamic != expected.smem_bytes:
        yield Finding(name, "dynamic smem", f"{expected.smem_bytes} bytes", f"{dynamic} bytes")
    total = (dynamic or 0) + max(0, kernel.static_smem_bytes - _SYSTEM_SMEM_BYTES)
    if total > limits.smem_bytes:
        yield Finding(name, "smem", f"at most {limits.smem_bytes} bytes in a CTA", f"{total} bytes")


def _registers(name: str, kernel: KernelEvidence, threads: int, limits: CtaLimits) -> Iterator[Finding]:
    most = limits.registers_for(threads)
    if kernel.registers > most:
        reason = f"at most {most} ({limits.registers} / {threads} threads)"
        yield Finding(name, "registers", reason, str(kernel.registers))
    groups = threads // _WARP_GROUP
    if kernel.register_pool is None or groups < 2:
        return
    # One warp group gives registers back and the others take them; what the launch handed out is all there is, and
    # a group that waits for more hangs.
    least, greatest = kernel.register_pool
    have, want = groups * kernel.registers, least + (groups - 1) * greatest
    if want > have:
        yield Finding(
            name,
            "setmaxnreg",
            f"at most {have} registers over {groups} warp groups ({kernel.registers} each at launch)",
            f"{want} ({least} + {groups - 1} x {greatest})",
        )


def _has_shape(found: str, expected: str) -> bool:
    return found == expected or found.startswith(f"{expected}.")
