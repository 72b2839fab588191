"""The plan's word against the compiler's: a finding per difference, each with what was expected and found."""

from collections.abc import Iterator

from kgen.check.evidence import KernelEvidence
from kgen.check.hardware import Hardware
from kgen.check.package import Expectation, PackageFolder
from kgen.check.result import Finding, VariantEvidence


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
        yield Finding(name, "compile", f"machine code for {hardware.isa}", evidence.failure)
        return
    if evidence.arch != hardware.isa:
        yield Finding(name, "architecture", hardware.isa, evidence.arch or "no architecture")
    if not evidence.kernels or not all(k.instructions and k.registers for k in evidence.kernels):
        yield Finding(name, "disassembly", "kernel functions with instructions and registers", "an unread listing")
        return
    expectation = package.expectation(name)
    if expectation is None:
        yield Finding(name, "evidence", "a row for this variant in plan.json", "none")
        expectation = Expectation(name)
    yield from _instructions(expectation, evidence.kernels)
    for kernel in evidence.kernels:
        yield from hardware.limits.findings(expectation, kernel)


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
    for what, stated, count in counted(expected, kernels):
        if stated != (count > 0):
            yield Finding(name, what, "at least one" if stated else "none", str(count))
    widest = max(k.access_bytes for k in kernels)
    if expected.access_bytes is not None and widest < expected.access_bytes:
        yield Finding(name, "memory access", f"one of {expected.access_bytes} bytes a thread", f"at most {widest}")
    spills = sum(k.spills for k in kernels)
    if spills > (allowed := expected.spills or 0):
        loads, stores = sum(k.spill_loads for k in kernels), sum(k.spill_stores for k in kernels)
        yield Finding(name, "spills", f"at most {allowed}", f"{loads} loads and {stores} stores")


def counted(expected: Expectation, kernels: tuple[KernelEvidence, ...]) -> Iterator[tuple[str, bool, int]]:
    """Yield the instructions of which a plan states at least one or none: what, which of both, how many there are."""
    for what, stated, count in (
        ("TMA loads", expected.tma_loads, sum(k.tma_loads for k in kernels)),
        ("TMA stores", expected.tma_stores, sum(k.tma_stores for k in kernels)),
        ("TMA multicast loads", expected.multicast, sum(k.tma_multicasts for k in kernels)),
        ("stores across the cluster", expected.cluster_stores, sum(k.cluster_stores for k in kernels)),
        ("waits for the kernel before", expected.grid_waits, min((k.grid_waits for k in kernels), default=0)),
    ):
        if stated is not None:
            yield what, stated, count


def _has_shape(found: str, expected: str) -> bool:
    return found == expected or found.startswith(f"{expected}.")
