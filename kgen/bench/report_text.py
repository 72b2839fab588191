"""`baseline_report.md` of a report: every word and figure of it comes from the report, so the same report gives the
same bytes.

What was not measured is `-` or said in words. Fills the views of `kgen.bench.report_view`; the template has the order.
"""

import re
from collections.abc import Iterable, Iterator
from statistics import fmean

from kgen.bench.charts import has_roofline, has_speed
from kgen.bench.report import VARIANT_BUDGET, Arm, Case, Code, Comparison, Constraint, Release, Report, Speed
from kgen.bench.report_view import (
    AgreementRow,
    BandRow,
    CodeRow,
    ComparisonRow,
    ConstraintRow,
    CorrectnessRow,
    HeadView,
    IsaTargetRow,
    LaunchRow,
    LedgerView,
    MetricRow,
    OrderView,
    PeakRow,
    ReleaseRow,
    ReportView,
    SourceRow,
    SpeedRow,
    SweepRowView,
)
from kgen.bench.report_words import (
    ABSENT,
    band_text,
    correctness_sentence,
    error,
    exceptions,
    incumbent_name,
    micros,
    micros_interval,
    number,
    percent,
    ratio_interval,
    speed_sentence,
)
from kgen.bench.statistics import geomean
from kgen.render import render

_TEMPLATE = "package/baseline_report.md.j2"
_MARKS = re.compile(r"[|<*]")  # would end a table cell, open a tag, or start emphasis


def report_markdown(report: Report) -> str:
    """Return the Markdown text of a report."""
    return render(_TEMPLATE, _view(report))


def plain(text: object) -> str:
    """Return a text for one table cell or line of Markdown; ABSENT for None."""
    return ABSENT if text is None else _MARKS.sub(r"\\\g<0>", " ".join(str(text).split()))


def verbatim(text: str) -> str:
    """Return a text as a code span of a line."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"


def code_cell(text: str | None) -> str:
    """Return a text as a code span of a table cell, where a bar needs a backslash too; ABSENT for None."""
    return ABSENT if text is None else verbatim(text).replace("|", r"\|")


def _view(report: Report) -> ReportView:
    """Return what the template prints of a report."""
    return ReportView(
        head=_head(report),
        order=_order(report),
        tolerance=f"{report.tolerance:g}",
        correctness=tuple(map(_correctness, report.cases)),
        failures=tuple(map(plain, _failures(report))),
        agreement=tuple(_agreement(report)),
        speeds=(*(_speed(code_cell(case.id), case.speed) for case in report.cases), *_means(report)),
        measurement_errors=tuple(plain(f"{c.id}: {c.measurement_error}") for c in report.cases if c.measurement_error),
        ledger=tuple(_ledger(report)),
        no_ledger="No variant was tried.",
        sweep_title=plain(_sweep_title(report)),
        sweep=tuple(_sweep(report)),
        runners_up=tuple(map(plain, report.runners_up)),
        has_constraints=bool(report.constraints),
        fixed=tuple(_constraint(row) for row in report.constraints if row.fixed),
        free=tuple(_constraint(row) for row in report.constraints if not row.fixed),
        profile=plain(_profile(report)),
        metrics=tuple(_metrics(report)),
        control=plain(_control(report)),
        integration=_integration(report),
        peaks=tuple(_peaks(report)),
        sources=tuple(_sources(report)),
        charts=tuple(_charts(report)),
        notes=tuple(map(plain, report.notes)),
        logs=tuple(map(verbatim, report.logs)),
    )


def _head(report: Report) -> HeadView:
    """Return the verdict and the setting."""
    return HeadView(
        title=plain(f"Baseline report: {report.name} {report.version} for the {report.target}"),
        verdict=plain(f"{correctness_sentence(report)} {speed_sentence(report)}"),
        exceptions=tuple(map(plain, exceptions(report))),
        kernel_path="kernel.py",
        test_path="test_kernel.py",
        reference=plain(report.reference),
        incumbent=_incumbent(report),
        setting=tuple(_setting(report)),
        versions=(("Python", plain(report.machine.python)), *_versions(report)),
        configuration=tuple((code_cell(name), plain(words)) for name, words in report.configuration),
    )


def _order(report: Report) -> OrderView:
    """Return the measurement in its order."""
    return OrderView(
        bands=tuple(_bands(report)),
        comparisons=tuple(_comparison(case, found) for case, found in report.compared),
        not_compared=tuple(map(plain, _not_compared(report))),
        units=f"The device has {report.machine.gpu.compute_units} compute units, as read from it.",
        geometry=tuple(_geometry(report)),
        launches=tuple(_launches(report)),
        code=tuple(row for code in report.code for row in _code(code)),
        code_findings=tuple(map(plain, _code_findings(report))),
        isa_targets=tuple(_isa_targets(report)),
        release=tuple(map(_release, report.release)),
    )


def _incumbent(report: Report) -> str:
    digest = "" if report.incumbent.sha256 is None else f", SHA-256 {verbatim(report.incumbent.sha256)}"
    return f"{plain(incumbent_name(report))}; entry {verbatim(report.incumbent.entry)}{digest}"


def _setting(report: Report) -> Iterator[tuple[str, str]]:
    gpu = report.machine.gpu
    yield "device", plain(f"{gpu.name} ({gpu.isa}), {gpu.compute_units} compute units, {gpu.l2_bytes} bytes of L2")
    yield "driver", "not known" if gpu.driver is None else plain(gpu.driver)
    yield "date", plain(report.date)
    yield "command", code_cell(report.command)
    yield "kernel.py, SHA-256", code_cell(report.kernel_sha256)
    yield "machine code", "not read" if report.code_digest is None else code_cell(report.code_digest)
    yield "git commit", "not committed" if report.git_commit is None else code_cell(report.git_commit)
    yield "representative case", code_cell(report.gauge)


def _versions(report: Report) -> Iterator[tuple[str, str]]:
    for name, version in report.machine.versions.items():
        yield plain(name), "not installed" if version is None else plain(version)


def _correctness(case: Case) -> CorrectnessRow:
    found = case.correctness
    errors = (error(value) for value in (found.max_rel_err, found.rel_err, found.max_abs_err))
    return CorrectnessRow(code_cell(case.id), case.status, *errors)


def _failures(report: Report) -> Iterator[str]:
    """Yield what went wrong, with the case in front where the text does not name it."""
    for case in report.cases:
        disagreements = case.agreement.failures if case.agreement is not None else ()
        texts = (*case.correctness.failures, *(f"against the incumbent: {text}" for text in disagreements))
        for text in texts:
            yield text if text.startswith(case.id) else f"{case.id}: {text}"


def _agreement(report: Report) -> Iterator[AgreementRow]:
    for case in report.cases:
        if (found := case.agreement) is not None:
            role = "yes: the output format is lossy" if found.decides else "no: the reference does"
            scale = f"{found.operand_scale:g}"
            yield AgreementRow(code_cell(case.id), error(found.rel_err), f"{found.limit:g}", scale, role)


def _bands(report: Report) -> Iterator[BandRow]:
    for case, comparison in report.compared:
        band = comparison.band
        turns = f"{band.turns}" if band.series == 1 else f"{band.turns} (series {band.series})"
        yield BandRow(code_cell(case.id), band_text(band.half_width), str(band.ratio), turns, plain(band.fixed_at))


def _comparison(case: Case, found: Comparison) -> ComparisonRow:
    kgen, incumbent = found.kgen, found.incumbent
    return ComparisonRow(
        case=code_cell(case.id),
        kgen_us=micros_interval(kgen.device_us),
        incumbent_us=micros_interval(incumbent.device_us),
        ratio=str(found.ratio),
        band=band_text(found.band.half_width),
        verdict=str(found.verdict),
        spreads=f"{percent(kgen.spread)}, {percent(incumbent.spread)}",
        sets=found.sets,
        method={"graph": "CUDA graph replays", "loop": "calls from the host"}[found.method],
        turns=plain(f"{found.turns} x {found.order}"),
        host_us=f"{micros(kgen.host_us)}, {micros(incumbent.host_us)}",
        measured_at=plain(found.measured_at),
    )


def _not_compared(report: Report) -> Iterator[str]:
    for case in report.cases:
        if case.note is not None:
            yield f"{case.id}: {case.note}"
    if report.unmeasured_cases:
        yield f"not measured in this run: {', '.join(report.unmeasured_cases)}"


def _geometry(report: Report) -> Iterator[str]:
    for case in report.cases:
        if (found := case.geometry) is not None:
            yield f"{verbatim(case.id)}, variant {verbatim(found.variant)}: {plain(found.statement)}"


def _launches(report: Report) -> Iterator[LaunchRow]:
    for case, found in report.compared:
        yield from _arm_launches(case.id, "kgen", found.kgen)
        yield from _arm_launches(case.id, "incumbent", found.incumbent)


def _arm_launches(case: str, name: str, arm: Arm) -> Iterator[LaunchRow]:
    if not arm.launches:
        words = "not shown by the driver" if arm.launches is None else "none"
        yield LaunchRow(code_cell(case), name, words, *[ABSENT] * 5)
    for launch in arm.launches or ():
        grid, block = (" x ".join(map(str, extents)) for extents in (launch.grid, launch.block))
        counts = (launch.ctas, launch.registers, launch.smem_bytes)
        yield LaunchRow(code_cell(case), name, code_cell(launch.kernel), grid, block, *map(plain, counts))


def _code(code: Code) -> Iterator[CodeRow]:
    origin = " ".join(plain(part) for part in (code.origin, code.arch, code.digest) if part is not None)
    if not code.kernels:
        yield CodeRow(code.arm, "none found", origin, *[ABSENT] * 6)
    for kernel in code.kernels:
        counts = (kernel.bulk_loads, kernel.bulk_stores, kernel.spills, kernel.registers, kernel.instructions)
        mma = ", ".join(f"{plain(name)}: {sites}" for name, sites in kernel.mma.items()) or "none"
        yield CodeRow(code.arm, code_cell(kernel.kernel), origin, mma, *map(str, counts))


def _code_findings(report: Report) -> Iterator[str]:
    yield from (f"finding: {text}" for text in report.code_findings)
    if report.code and not report.code_findings:
        yield "no finding: the machine code is the planned one"


def _isa_targets(report: Report) -> Iterator[IsaTargetRow]:
    for row in report.isa_targets:
        yield IsaTargetRow(plain(row.metric), plain(row.target), plain(row.current), "yes" if row.met else "no")


def _release(row: Release) -> ReleaseRow:
    asserts = {True: "off", False: "ON", None: "not known"}[row.asserts_off]
    target, level = ("not known" if value is None else plain(value) for value in (row.target, row.optimization))
    return ReleaseRow(row.arm, target, level, asserts, _joined(row.evidence), _joined(row.problems))


def _joined(texts: Iterable[str]) -> str:
    return plain("; ".join(texts)) or "none"


def _speed(name: str, found: Speed | None) -> SpeedRow:
    if found is None:
        return SpeedRow(name, *[ABSENT] * 7)
    return SpeedRow(
        case=name,
        latency_us=micros(found.latency_us),
        tflops=number(found.tflops, 1),
        bandwidth=number(found.bandwidth_gbps, 0),
        tflops_percent=number(found.tflops_peak_utilization_pct, 1),
        bandwidth_percent=number(found.bandwidth_peak_utilization_pct, 1),
        bound="not decided" if found.bound is None else found.bound.replace("_", " "),
        roofline_us=micros(found.roofline_us),
    )


def _means(report: Report) -> Iterator[SpeedRow]:
    """Yield both means of the latency; a case that failed leaves none."""
    found = [case.speed.latency_us for case in report.cases if case.speed is not None]
    failed = report.status != "PASS" or any(case.measurement_error for case in report.cases)
    everything = len(report.cases) + len(report.unmeasured_cases)
    count = "" if failed or len(found) in (0, everything) else f", {len(found)} of {everything} cases"
    for name, mean in (("geometric mean", geomean), ("arithmetic mean", fmean)):
        value = None if failed or not found else mean(found)
        yield SpeedRow(f"{name}{count}", micros(value), *[ABSENT] * 6)


def _ledger(report: Report) -> Iterator[LedgerView]:
    for row in report.ledger:
        yield LedgerView(
            count=f"{row.count} of {VARIANT_BUDGET}",
            name=plain(row.name),
            change=plain(row.change),
            digest=code_cell(row.code_digest),
            ratio=ratio_interval(row.ratio),
            verdict=plain(row.verdict),
            result=plain(row.result),
        )


def _sweep_title(report: Report) -> str:
    found = report.sweep
    if found is None:
        return ""
    return f"Sweep of case {found.case}, in the order of the predicted time; candidate {found.winner}: {found.because}."


def _sweep(report: Report) -> Iterator[SweepRowView]:
    for row in () if report.sweep is None else report.sweep.rows:
        yield SweepRowView(
            rank=str(row.rank),
            plan=plain(row.plan),
            predicted_us=micros(row.predicted_us),
            us=micros(row.us),
            ratio=ratio_interval(row.ratio),
            verdict=plain(row.verdict),
            result=plain(row.result),
        )


def _constraint(row: Constraint) -> ConstraintRow:
    return ConstraintRow(plain(row.name), plain(row.value), plain(row.because))


def _profile(report: Report) -> str:
    found = report.profile
    if found is None:
        return "Not run."
    about = f"{found.tool}, case {found.case}"
    if found.failure is not None:
        return f"{about}: no figures. {found.failure}"
    return f"{about}, kernel {found.kernel or 'not named'}. Profiled times are no measurement of speed."


def _metrics(report: Report) -> Iterator[MetricRow]:
    for row in () if report.profile is None else report.profile.metrics:
        value = f"{row.value:.6g}" if isinstance(row.value, float) else plain(row.value)
        yield MetricRow(code_cell(row.name), value, plain(row.unit), plain(row.meaning))


def _control(report: Report) -> str:
    found = report.control
    if found is None:
        return "Not run."
    what = (
        f"The incumbent against a second load of itself, case {found.case}: {found.ratio}, band {band_text(found.band)}"
    )
    verdict = "inside, as it must be" if found.holds else "OUTSIDE: the harness sees a difference where there is none"
    return f"{what}: {verdict}."


def _integration(report: Report) -> str:
    found = report.integration
    if found is None:
        return "Not run."
    ended = "did not end" if found.exit_status is None else f"exit status {found.exit_status}"
    return f"{verbatim(found.command)}: {ended}, {number(found.seconds, 1)} s, log {verbatim(found.log)}."


def _peaks(report: Report) -> Iterator[PeakRow]:
    for row in report.peaks:
        yield PeakRow(plain(row.name), f"{row.value:g}", plain(row.unit), code_cell(row.source), plain(row.confidence))


def _sources(report: Report) -> Iterator[SourceRow]:
    for row in report.sources:
        yield SourceRow(code_cell(row.id), *map(plain, (row.document, row.revision, row.date, row.evidence)))


def _charts(report: Report) -> Iterator[tuple[str, str]]:
    if has_speed(report):
        yield "kgen / incumbent, case by case", "speed.svg"
    if has_roofline(report):
        yield "roofline", "roofline.svg"
