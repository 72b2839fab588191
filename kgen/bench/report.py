"""What `measured/report.json` holds: everything one measurement of a package found, validated on write and on read.

Everything else that a run leaves (the Markdown report, the charts, the memory file) is made from this alone. What was
not measured is null; a case that fails has no speed, and neither has a time that the device cannot reach.
"""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from kgen.bench.statistics import Interval as AnyInterval
from kgen.bench.statistics import Verdict, geomean, verdict_of

Status = Literal["PASS", "FAIL", "TIMEOUT_FAIL"]
FORMAT: Literal[1] = 1  # of report.json; a reader refuses another one
VARIANT_BUDGET = 3  # rebuilt and measured variants in all, across every axis


def _in_order(found: AnyInterval) -> AnyInterval:
    if not (math.isfinite(found.high) and found.low <= found.median <= found.high):
        raise ValueError(f"{found} is no interval around its median")
    return found


Interval = Annotated[AnyInterval, AfterValidator(_in_order)]


class _Part(BaseModel):
    """A frozen part of the report: unknown fields are refused, and so are NaN and infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null")


class Gpu(_Part):
    """The GPU as its driver described it during the run."""

    name: str
    isa: str
    compute_units: int = Field(gt=0)
    l2_bytes: int | None
    driver: str | None


class Machine(_Part):
    """Where and with what it was measured."""

    gpu: Gpu
    python: str
    versions: dict[str, str | None]  # of the distributions that compile and launch


class Peak(_Part):
    """A theoretical peak as the device file states it."""

    name: str
    value: float
    unit: str
    source: str  # id in the register
    confidence: str


class Source(_Part):
    """An entry of the citation register."""

    id: str
    document: str
    revision: str
    date: str
    evidence: str


class Correctness(_Part):
    """What test_kernel.py found in one case; errors are the largest of all its calls, None where not computed."""

    status: Status
    failures: tuple[str, ...] = ()
    rel_err: float | None = None
    max_abs_err: float | None = None
    max_rel_err: float | None = None


class Speed(_Part):
    """What test_kernel.py timed in one case, and what that uses of the device (whole problem, dense peak)."""

    latency_us: float = Field(gt=0)
    latency_us_p10: float | None = None
    latency_us_p90: float | None = None
    ref_latency_us: float | None = None
    tflops: float | None
    bandwidth_gbps: float | None
    tflops_peak_utilization_pct: float | None = Field(ge=0, le=100)
    bandwidth_peak_utilization_pct: float | None = Field(ge=0, le=100)
    bound: Literal["compute_bound", "memory_bound"] | None
    roofline_us: float | None


class Launch(_Part):
    """One kernel launch of a call, as the driver's tracing showed it."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int | None = None
    smem_bytes: int | None = None

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        return math.prod(self.grid)


class Arm(_Part):
    """One side of a comparison: device time (microseconds a call), host cost of a call, what it launches."""

    device_us: Interval
    spread: float  # share of the median between the 10th and the 90th percentile
    host_us: float | None
    launches: tuple[Launch, ...] | None  # None where the driver shows none


class Band(_Part):
    """The parity band of one case: two builds of the same kernel against each other, fixed before all else."""

    half_width: float = Field(gt=0)
    ratio: Interval  # build A over build B
    turns: int = Field(gt=0)
    series: int = 1  # how many were measured until the device had settled; the last one counts
    fixed_at: str  # UTC; the first timing of the incumbent is later


class Agreement(_Part):
    """The two arms' outputs on the operands of the measurement."""

    rel_err: float | None  # ||kgen - incumbent|| / ||incumbent||; None where it is not finite
    limit: float
    operand_scale: float  # what drawn operands were multiplied by, so that the incumbent can represent its output
    decides: bool  # a lossy output format: this, and not the reference alone, says whether the case is right
    failures: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the case is wrong by this."""
        return self.decides and bool(self.failures)


class Comparison(_Part):
    """kgen's kernel against the incumbent in one case, in turn; `ratio` is kgen over incumbent."""

    order: str
    method: Literal["graph", "loop"]  # CUDA graph replays, or calls from the host where an arm cannot be captured
    sets: int  # of buffers that rotate, so that caches are cold
    turns: int
    band: Band
    kgen: Arm
    incumbent: Arm
    ratio: Interval
    verdict: Verdict
    measured_at: str  # UTC, of the first turn

    @model_validator(mode="after")
    def _verdict_follows_from_the_band(self) -> Self:
        if self.verdict != (right := verdict_of(self.ratio.median, self.band.half_width)):
            raise ValueError(f"verdict {self.verdict}: {self.ratio} in a band of {self.band.half_width} is {right}")
        return self

    @property
    def gap(self) -> float:
        """How much longer kgen takes, as a share of the incumbent's time: below 0 it is faster."""
        return self.ratio.median - 1


class Geometry(_Part):
    """Grid waves from the number of units that was read from the device."""

    variant: str
    ctas: int
    ctas_per_unit: int
    compute_units: int
    slots: int
    waves: int
    last_wave: int
    efficiency: float
    statement: str


class Case(_Part):
    """Everything about one case of shapes.json."""

    id: str
    flops: int
    bytes_read: int
    bytes_written: int
    correctness: Correctness
    speed: Speed | None = None
    agreement: Agreement | None = None
    comparison: Comparison | None = None
    geometry: Geometry | None = None
    measurement_error: str | None = None
    note: str | None = None  # why there is no comparison or no speed

    @model_validator(mode="after")
    def _failed_cases_have_no_speed(self) -> Self:
        timed = self.speed is not None or self.comparison is not None
        if timed and self.correctness.status != "PASS":
            raise ValueError(f"case {self.id}: a case that fails has no speed")
        if timed and self.agreement is not None and self.agreement.fails:
            raise ValueError(f"case {self.id}: the arms disagree, so there is no speed")
        if timed and self.measurement_error is not None:
            raise ValueError(f"case {self.id}: a measurement error is not a speed")
        return self

    @property
    def status(self) -> Status:
        """That of the test; outputs of the arms that have to agree, and do not, fail a case that passes it."""
        fails = self.agreement is not None and self.agreement.fails and self.correctness.status == "PASS"
        return "FAIL" if fails else self.correctness.status

    @property
    def failures(self) -> tuple[str, ...]:
        """What makes the case fail."""
        decisive = self.agreement.failures if self.agreement is not None and self.agreement.fails else ()
        return (*self.correctness.failures, *decisive)


class KernelCode(_Part):
    """What one kernel function was compiled to. Counts are places in the code, not executions."""

    kernel: str
    mma: dict[str, int]  # "HGMMA.64x256x16.F32.BF16": sites
    bulk_loads: int
    bulk_stores: int
    spills: int
    registers: int
    instructions: int


class Code(_Part):
    """The machine code behind one arm: per kernel function, with where it was read."""

    arm: Literal["kgen", "incumbent"]
    origin: str  # variant of kernel.py, or file of an extension
    arch: str | None
    digest: str | None
    kernels: tuple[KernelCode, ...]


class Release(_Part):
    """Evidence that a build is a release build; None where it cannot be known."""

    arm: Literal["kgen", "incumbent"]
    target: str | None
    optimization: str | None
    asserts_off: bool | None
    evidence: tuple[str, ...]
    problems: tuple[str, ...]


class IsaTarget(_Part):
    """One instruction target of the plan, and what the machine code has of it."""

    metric: str
    target: str
    current: str
    met: bool


class Incumbent(_Part):
    """What kgen's kernel was compared with."""

    origin: str  # file.py::name, package.module:name, or reference.py
    entry: str
    sha256: str | None
    is_reference: bool  # no incumbent was given: the PyTorch reference, run eagerly, stands in


class LedgerRow(_Part):
    """One rebuilt and measured variant; `count` is how many of the budget are spent after it."""

    count: int
    name: str
    change: str
    code_digest: str | None
    ratio: Interval | None
    verdict: Verdict | None
    result: str


class Metric(_Part):
    """One figure of the profiler."""

    name: str
    value: float | str | None
    unit: str
    meaning: str


class Profile(_Part):
    """What the profiler said of one case, or why it said nothing."""

    tool: str
    case: str
    kernel: str | None
    metrics: tuple[Metric, ...]
    failure: str | None


class Control(_Part):
    """The falsification control: the incumbent against a second load of itself, which no change explains."""

    case: str
    ratio: Interval
    band: float
    holds: bool  # inside the band: the harness sees no difference where there is none


class Integration(_Part):
    """The repository's own path, run once on the final build."""

    command: str
    exit_status: int | None
    seconds: float
    log: str


class Constraint(_Part):
    """One thing a port has to keep, or an axis that is free."""

    name: str
    value: str
    fixed: bool
    because: str


class SweepRow(_Part):
    """One candidate of a sweep, in the order of its predicted time."""

    rank: int
    plan: str
    predicted_us: float
    us: float | None
    ratio: Interval | None  # over the incumbent
    verdict: Verdict | None
    result: str


class Sweep(_Part):
    """Candidates of one case, measured in turn with the incumbent; `winner` is the rank that was delivered."""

    case: str
    rows: tuple[SweepRow, ...]
    winner: int
    because: str


class Report(_Part):
    """One measurement of one package."""

    format: Literal[1] = FORMAT
    name: str
    family: str
    target: str  # device of the plan
    version: str
    date: str  # UTC
    command: str
    kernel_sha256: str
    code_digest: str | None
    gauge: str  # the case that iterations are judged by
    machine: Machine
    peaks: tuple[Peak, ...]
    sources: tuple[Source, ...]
    configuration: tuple[tuple[str, str], ...]  # variant, its plan in words
    reference: str  # what is computed, in words
    tolerance: float
    incumbent: Incumbent
    cases: tuple[Case, ...]
    unmeasured_cases: tuple[str, ...] = ()
    code: tuple[Code, ...] = ()
    release: tuple[Release, ...] = ()
    isa_targets: tuple[IsaTarget, ...] = ()
    code_findings: tuple[str, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    sweep: Sweep | None = None
    runners_up: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    profile: Profile | None = None
    control: Control | None = None
    integration: Integration | None = None
    git_commit: str | None = None
    notes: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _times_are_in_order(self) -> Self:
        for case in self.cases:
            if case.comparison is not None and case.comparison.band.fixed_at > case.comparison.measured_at:
                raise ValueError(f"case {case.id}: the parity band was fixed after the first comparison")
        return self

    def case(self, name: str) -> Case:
        """Return a case by its id."""
        return next(case for case in self.cases if case.id == name)

    @property
    def status(self) -> Status:
        """PASS where every case passes, else the worst status."""
        found = {case.status for case in self.cases}
        worst: tuple[Status, ...] = ("FAIL", "TIMEOUT_FAIL")
        return next((status for status in worst if status in found), "PASS" if found else "FAIL")

    @property
    def gate(self) -> Status:
        """The quality gate: correct, on the planned instructions, and every time one that the device can reach."""
        blemished = self.code_findings or any(case.measurement_error for case in self.cases)
        return "FAIL" if self.status == "PASS" and blemished else self.status

    @property
    def compared(self) -> tuple[tuple[Case, Comparison], ...]:
        """The cases that were timed against the incumbent."""
        return tuple((case, case.comparison) for case in self.cases if case.comparison is not None)

    @property
    def band(self) -> float | None:
        """The widest band of all compared cases: what the mean over them is judged by."""
        return max((found.band.half_width for _, found in self.compared), default=None)

    @property
    def ratio_geomean(self) -> float | None:
        """The geometric mean of kgen / incumbent over the compared cases: below 1 kgen is faster."""
        found = [comparison.ratio.median for _, comparison in self.compared]
        return geomean(found) if found else None

    @property
    def verdict(self) -> Verdict | None:
        """How kgen stands to the incumbent over all compared cases."""
        ratio, band = self.ratio_geomean, self.band
        return None if ratio is None or band is None else verdict_of(ratio, band)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return self.model_dump(mode="json")
