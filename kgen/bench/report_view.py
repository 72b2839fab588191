"""What `templates/package/baseline_report.md.j2` prints: flat, printable values, a class per table.

`report_text` fills it; every choice of words is made there, and the template has the headings and their order.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CorrectnessRow:
    """What test_kernel.py found in one case."""

    case: str
    status: str
    max_rel_err: str
    rel_err: str
    max_abs_err: str


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """The outputs of the two arms in one case."""

    case: str
    rel_err: str
    limit: str
    scale: str
    decides: str


@dataclass(frozen=True, slots=True)
class BandRow:
    """The parity band of one case."""

    case: str
    half_width: str
    ratio: str
    turns: str
    fixed_at: str


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """The two arms of one case in turn."""

    case: str
    kgen_us: str
    incumbent_us: str
    ratio: str
    band: str
    verdict: str
    spreads: str
    sets: int
    method: str
    turns: str
    host_us: str
    measured_at: str


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One kernel launch of a call."""

    case: str
    arm: str
    kernel: str
    grid: str
    block: str
    ctas: str
    registers: str
    smem: str


@dataclass(frozen=True, slots=True)
class CodeRow:
    """What one kernel function was compiled to."""

    arm: str
    kernel: str
    origin: str
    mma: str
    bulk_loads: str
    bulk_stores: str
    spills: str
    registers: str
    instructions: str


@dataclass(frozen=True, slots=True)
class IsaTargetRow:
    """One instruction target."""

    metric: str
    target: str
    current: str
    met: str


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """Evidence that one build is a release build."""

    arm: str
    target: str
    optimization: str
    asserts: str
    evidence: str
    problems: str


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """What one case, or the mean of all, takes and uses of the device."""

    case: str
    latency_us: str
    tflops: str
    bandwidth: str
    tflops_percent: str
    bandwidth_percent: str
    bound: str
    roofline_us: str


@dataclass(frozen=True, slots=True)
class LedgerView:
    """One rebuilt and measured variant."""

    count: str
    name: str
    change: str
    digest: str
    ratio: str
    verdict: str
    result: str


@dataclass(frozen=True, slots=True)
class SweepRowView:
    """One candidate of a sweep."""

    rank: str
    plan: str
    predicted_us: str
    us: str
    ratio: str
    verdict: str
    result: str


@dataclass(frozen=True, slots=True)
class ConstraintRow:
    """One thing that a port keeps, or an axis that is free."""

    name: str
    value: str
    because: str


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One figure of the profiler."""

    name: str
    value: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class PeakRow:
    """A theoretical peak with its source."""

    name: str
    value: str
    unit: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class SourceRow:
    """An entry of the citation register."""

    id: str
    document: str
    revision: str
    date: str
    evidence: str


@dataclass(frozen=True, slots=True)
class HeadView:
    """The verdict, what was measured, where and with what."""

    title: str
    verdict: str
    exceptions: tuple[str, ...]
    kernel_path: str
    test_path: str
    reference: str
    incumbent: str
    setting: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    configuration: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OrderView:
    """The measurement in its order: band, comparison, launch geometry, instructions, release build."""

    bands: tuple[BandRow, ...]
    comparisons: tuple[ComparisonRow, ...]
    not_compared: tuple[str, ...]
    units: str
    geometry: tuple[str, ...]
    launches: tuple[LaunchRow, ...]
    code: tuple[CodeRow, ...]
    code_findings: tuple[str, ...]
    isa_targets: tuple[IsaTargetRow, ...]
    release: tuple[ReleaseRow, ...]


@dataclass(frozen=True, slots=True)
class ReportView:
    """`baseline_report.md`."""

    head: HeadView
    order: OrderView
    tolerance: str
    correctness: tuple[CorrectnessRow, ...]
    failures: tuple[str, ...]
    agreement: tuple[AgreementRow, ...]
    speeds: tuple[SpeedRow, ...]
    measurement_errors: tuple[str, ...]
    ledger: tuple[LedgerView, ...]
    no_ledger: str
    sweep_title: str
    sweep: tuple[SweepRowView, ...]
    runners_up: tuple[str, ...]
    has_constraints: bool
    fixed: tuple[ConstraintRow, ...]
    free: tuple[ConstraintRow, ...]
    profile: str
    metrics: tuple[MetricRow, ...]
    control: str
    integration: str
    peaks: tuple[PeakRow, ...]
    sources: tuple[SourceRow, ...]
    charts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    logs: tuple[str, ...]
