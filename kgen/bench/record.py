"""`measured/`: everything that a run leaves in a package, put in its place whole or not at all.

report.json          all of it; the other files are made from this one
baseline_report.md   for people
roofline.svg speed.svg
memory/v0.json       for the next optimisation step; files of other versions stay
logs/                what the compiler, the test and the timings said
kernel.sha256        the kernel.py that was measured: `kgen emit` drops the folder when it writes another one
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from kgen.bench.baseline_memory import memory_document
from kgen.bench.charts import roofline_svg, speed_svg
from kgen.bench.measure import comparison_of
from kgen.bench.memory import FOLDER as MEMORY
from kgen.bench.memory import memory_file, read, store, versions
from kgen.bench.report import Case, Report
from kgen.bench.report_text import report_markdown
from kgen.bench.validation import first_problem
from kgen.errors.bench import ChartsMissingError, LogMissingError, ReportInvalidError, ReportMissingError
from kgen.exchange import incoming, locked, put_in_place, recover
from kgen.layout import MEASURED, MEASURED_DIGEST

REPORT, MARKDOWN, LOGS = "report.json", "baseline_report.md", "logs"
CHARTS: dict[str, Callable[[Report], str | None]] = {"roofline.svg": roofline_svg, "speed.svg": speed_svg}


def write_measured(report: Report, folder: Path, logs: Path | None = None) -> Path:
    """Write `folder/measured` from a report and the logs of its run; return it."""
    # Validated again: parts of it may have been put together with `model_copy`, which checks nothing.
    checked = Report.model_validate(report.model_dump())
    place = (folder / MEASURED).resolve()
    with locked(place):
        recover(place)
        prepared = incoming(place)
        prepared.mkdir()
        if (place / MEMORY).is_dir():
            shutil.copytree(place / MEMORY, prepared / MEMORY)
        if logs is not None and logs.is_dir():
            shutil.copytree(logs, prepared / LOGS)
        _keep_logs(checked, place, prepared)
        _fill(checked, prepared)
        put_in_place(place)
    return folder / MEASURED


def render_measured(folder: Path) -> Report:
    """Make the other files anew from `measured/report.json` alone; memory files and logs stay. Return the report."""
    report, place = read_report(folder), folder / MEASURED
    _render(report, place)
    return report


def judge_again(folder: Path) -> Report:
    """Compute bands, ratios and verdicts anew from the samples in the logs, and write what changes with a note.

    For reports that were written before the definition of the band changed: nothing is measured. Raises
    `ReportMissingError`, `ReportInvalidError`, and `LogMissingError` for a compared case without its log.
    """
    report, place = read_report(folder), folder / MEASURED
    cases = tuple(_judged(case, place / LOGS / f"{case.id}.jsonl") for case in report.cases)
    if cases == report.cases:
        return render_measured(folder)
    note = "bands and verdicts were computed anew from the samples in logs/ by a later definition of the band"
    report = report.model_copy(update={"cases": cases, "notes": tuple(dict.fromkeys((*report.notes, note)))})
    write_measured(report, folder, place / LOGS)
    return report


def _judged(case: Case, log: Path) -> Case:
    if case.comparison is None:
        return case
    if not log.is_file():
        raise LogMissingError(file=log, case=case.id)
    return case.model_copy(update={"comparison": comparison_of(log)})


def copy_to(workspace: Path, folder: Path) -> None:
    """Copy the Markdown report and the memory files to a workspace that keeps them at its root."""
    place = folder / MEASURED
    (workspace / MEMORY).mkdir(parents=True, exist_ok=True)
    for name in (MARKDOWN, *CHARTS):
        if (place / name).is_file():
            shutil.copyfile(place / name, workspace / name)
    for name in versions(place):
        store(memory_file(workspace, name), read(place, name, include_masked=True).document)


def require_readable_memory(folder: Path) -> None:
    """Raise what reading raises, unless every memory file that stays beside a new one can be read."""
    for name in versions(folder / MEASURED):
        read(folder / MEASURED, name, include_masked=True)


def read_report(folder: Path) -> Report:
    """Read `measured/report.json`; raises `ReportMissingError` or `ReportInvalidError`."""
    file = folder / MEASURED / REPORT
    try:
        return Report.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportMissingError(file=file, folder=folder) from None
    except UnicodeDecodeError:
        raise ReportInvalidError(file=file, reason="the document: it is not UTF-8 text") from None
    except ValidationError as error:
        raise ReportInvalidError(file=file, reason=first_problem(error)) from None


def _keep_logs(report: Report, place: Path, prepared: Path) -> None:
    """Keep the logs that a report names and its run did not write: a report may be that of an earlier run."""
    for name in report.logs:
        old, new = place / name, prepared / name
        if PurePosixPath(name).parent == PurePosixPath(LOGS) and old.is_file() and not new.exists():
            new.parent.mkdir(exist_ok=True)
            shutil.copyfile(old, new)


def _fill(report: Report, place: Path) -> None:
    text = json.dumps(report.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    (place / REPORT).write_text(f"{text}\n", encoding="utf-8")
    (place / MEASURED_DIGEST).write_text(f"{report.kernel_sha256}\n", encoding="utf-8")
    _render(report, place)
    store(memory_file(place, report.version), memory_document(report, _before(report.version, place)))


def _render(report: Report, place: Path) -> None:
    (place / MARKDOWN).write_text(report_markdown(report), encoding="utf-8")
    for name, draw in CHARTS.items():
        (place / name).unlink(missing_ok=True)
        try:
            drawn = draw(report)
        except ChartsMissingError:
            continue  # `kgen report` draws them where matplotlib is
        if drawn is not None:
            (place / name).write_text(drawn, encoding="utf-8")


def _before(version: str, place: Path) -> dict[str, object] | None:
    """Return the memory document of the version before, if it is there and not masked."""
    older = [name for name in versions(place) if int(name[1:]) < int(version[1:])]
    memories = (read(place, name, include_masked=True) for name in reversed(older))
    return next((memory.document for memory in memories if not memory.masked), None)
