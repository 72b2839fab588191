"""Check results for a terminal, as rich renderables; what prints them is the command line."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kgen.check.evidence import KernelEvidence, WaveEvidence
from kgen.check.on_device import DeviceResult
from kgen.check.result import CheckResult, VariantEvidence
from kgen.check.simulated_table import simulated_table
from kgen.check.whole import PackageCheck

_CTA_COLUMNS = (
    "variant",
    "MMA",
    "TMA loads",
    "TMA stores",
    "matrix stores",
    "fp32 FMA",
    "widest access",
    "registers",
    "spills",
    "threads",
    "smem bytes",
)
_WAVE_COLUMNS = (
    "variant",
    "MMA",
    "loads to LDS",
    "widest access",
    "VGPRs",
    "SGPRs",
    "spills",
    "threads",
    "LDS bytes",
    "waves per SIMD",
)


def check_table(result: CheckResult) -> RenderableType:
    """Return a table with a row per kernel, then the findings and notes."""
    origin = "from the cache" if result.from_cache else f"{result.seconds:.1f} s"
    title = f"{result.name} for {result.device} ({result.arch}), {origin}"
    has_waves = any(kernel.wave for variant in result.variants for kernel in variant.kernels)
    columns = _WAVE_COLUMNS if has_waves else _CTA_COLUMNS
    table = Table(*columns, title=escape(title), title_justify="left", header_style="bold")
    for variant in result.variants:
        for row in _rows(variant, len(columns)):
            table.add_row(*map(escape, row))
    verdict = Text("ok: as planned", "green") if result.ok else Text(f"FAILED: {len(result.findings)} findings", "red")
    findings = [Text(f"- {finding}", "red") for finding in result.findings]
    notes = [Text(f"note: {note}", "yellow") for note in result.notes]
    digest = [Text(f"machine code {result.code_digest}", "dim")] if result.code_digest else []
    return Group(table, verdict, *digest, *findings, *notes)


def whole_table(result: PackageCheck) -> RenderableType:
    """Return all proofs of a package."""
    shown = [check_table(result.compiled)]
    if result.device is not None:
        shown.append(device_table(result.device))
    if result.simulated is not None:
        shown.append(simulated_table(result.simulated))
    return Group(*shown)


def device_table(result: DeviceResult) -> RenderableType:
    """Return a table with a row per case that test_kernel.py ran, then the failures."""
    table = Table("case", "status", "rel_err", "latency us", title=escape(f"on {result.gpu}"), title_justify="left")
    for case in result.report.get("cases", ()):
        row = (case.get("id"), case.get("status"), case.get("rel_err"), case.get("latency_us"))
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    verdict = Text("ok: all cases pass", "green") if result.ok else Text("FAILED", "red")
    return Group(table, verdict, *(Text(f"- {failure}", "red") for failure in result.failures))


def _rows(variant: VariantEvidence, columns: int) -> list[tuple[str, ...]]:
    if not variant.kernels:
        return [(variant.variant, "not compiled", *[""] * (columns - 2))]
    return [
        _cta_row(variant.variant, kernel) if kernel.wave is None else _wave_row(variant.variant, kernel, kernel.wave)
        for kernel in variant.kernels
    ]


def _wave_row(variant: str, kernel: KernelEvidence, wave: WaveEvidence) -> tuple[str, ...]:
    accumulators = f" ({wave.agprs} accumulators)" if wave.agprs else ""
    return (
        variant,
        "\n".join(map(str, kernel.mma)) or "none",
        str(wave.async_loads),
        f"{kernel.access_bytes} bytes",
        f"{kernel.registers}{accumulators}",
        str(wave.sgprs),
        str(wave.vgpr_spills + wave.sgpr_spills),
        str(kernel.threads),
        str(kernel.static_smem_bytes),
        str(wave.waves_per_simd),
    )


def _cta_row(variant: str, kernel: KernelEvidence) -> tuple[str, ...]:
    multicast = f" ({kernel.tma_multicasts} multicast)" if kernel.tma_multicasts else ""
    pool = f" (pool {kernel.register_pool[0]}/{kernel.register_pool[1]})" if kernel.register_pool else ""
    sends = f", {kernel.cluster_stores} stores across it" if kernel.cluster_stores else ""
    cluster = f" (cluster {'x'.join(map(str, kernel.cluster))}{sends})" if kernel.cluster else ""
    dynamic = "?" if kernel.dynamic_smem_bytes is None else str(kernel.dynamic_smem_bytes)
    return (
        variant,
        "\n".join(map(str, kernel.mma)) or "none",
        f"{kernel.tma_loads}{multicast}",
        str(kernel.tma_stores),
        str(kernel.matrix_stores),
        str(kernel.ffma),
        f"{kernel.access_bytes} bytes",
        f"{kernel.registers}{pool}",
        str(kernel.spills),
        ("?" if kernel.threads is None else str(kernel.threads)) + cluster,
        f"{dynamic} + {kernel.static_smem_bytes} static",
    )
