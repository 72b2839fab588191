"""The commands that run kernels on a GPU and keep what was measured: `kgen bench`, `tune`, `port` and `report`.

`cli` adds them to its app, shows the `Answer` that each returns, and turns refusals into exit codes.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from kgen.errors.cli import ArgumentsConflictError, AxesError
from kgen.show.answer import Answer
from kgen.show.progress import counted, steps

if TYPE_CHECKING:
    from kgen.bench.harness import Mode
    from kgen.rules.model import Value
    from kgen.tune import Goal, Tuned

Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="spec (.yaml) or module (.py)")]
Target = Annotated[str | None, typer.Option("--target", metavar="DEV", help="device; default: the spec's only one")]
Out = Annotated[Path | None, typer.Option("-o", "--out", help="package folder; default: generated/<device>/<name>")]
CaseId = Annotated[str | None, typer.Option("--case", metavar="ID", help="case to iterate on; default: the smallest")]
Cases = Annotated[list[str] | None, typer.Option("--case", metavar="ID", help="case; may be repeated; default: all")]
Turns = Annotated[int | None, typer.Option(min=6, help="A B B A turns per case; default: 40")]
Tries = Annotated[
    list[str] | None, typer.Option("--try", metavar="AXES", help='a variant: "tile_n=192,stages=4"; may be repeated')
]
_WHOLE = re.compile(r"-?[0-9]+")


def bench(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="package folders")],
    mode: Annotated[str, typer.Option(help="build, check or bench: how far to go")] = "bench",
    case: Cases = None,
    gauge: Annotated[bool, typer.Option("--gauge", help="the smallest case only")] = False,
    turns: Turns = None,
    version: Annotated[str, typer.Option("--version", metavar="VN", help="of the memory file")] = "v0",
    profile: Annotated[bool, typer.Option("--profile", help="ncu on the case with the largest gap, if any")] = False,
    again: Annotated[bool, typer.Option("--again", help="even where the same machine code was measured")] = False,
    git: Annotated[bool, typer.Option("--git", help="commit the sources, then the measurement")] = False,
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="also write baseline_report.md and memory/ there")
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Measure packages against their incumbents on the GPU of this machine; writes measured/ in each."""
    from kgen.bench.harness import Asked, selected
    from kgen.bench.harness import bench as bench_package
    from kgen.bench.measure import TURNS
    from kgen.bench.memory import memory_file
    from kgen.bench.record import copy_to
    from kgen.bench.report_table import report_view
    from kgen.bench.subject import open_bench
    from kgen.check.table import check_table, device_table

    memory_file(Path(), version)  # refuses what is no version before anything runs
    if gauge and case:
        raise ArgumentsConflictError(reason="--gauge is the smallest case, --case names others", fix="leave one out")
    asked = Asked(
        mode=_mode(mode),
        cases=tuple(case or ()),
        gauge=gauge,
        turns=turns or TURNS,
        version=version,
        profile=profile,
        again=again,
        git=git,
        command=_command(),
    )
    for folder in folders:
        selected(open_bench(folder), asked)  # so is a folder that is no package, a case, and a GPU that is not here
    results, shown = [], []
    with steps() as progress:
        for folder in folders:
            result = bench_package(folder, asked, progress)
            results.append(result)
            views: list[RenderableType] = [check_table(result.compiled)]
            if result.tested is not None:
                views.append(device_table(result.tested))
            if result.report is not None:
                views = [report_view(result.report)]
                if result.kept:
                    views.append(Text("not measured again: the same machine code was measured before (--again)"))
                if workspace is not None and not result.report.unmeasured_cases:
                    copy_to(workspace, folder)
            shown += views
    failed = not all(result.ok for result in results)
    return Answer({"results": [r.to_json() for r in results]}, Group(*shown), exit_code=int(failed))


def tune(
    spec: SpecFile,
    target: Target = None,
    out: Out = None,
    case: CaseId = None,
    tries: Tries = None,
    sweep: Annotated[int, typer.Option(min=0, metavar="N", help="measure the N best candidates instead")] = 0,
    update_spec: Annotated[bool, typer.Option("--update-spec", help="write a winner's axes into SPEC")] = False,
    as_json: Json = False,
) -> Answer:
    """Measure the first plan and at most three variants of it; deliver the best correct one."""
    from kgen.bench.harness import Asked
    from kgen.sweep import sweep as sweep_candidates
    from kgen.tune import tune as tune_variants

    if sweep and tries:
        reason = "--sweep measures the best candidates, --try names variants"
        raise ArgumentsConflictError(reason=reason, fix="leave one out")
    _require_yaml(spec, update_spec)
    goal = _goal(spec, target, out, case, tries)
    asked = Asked(command=_command())
    if sweep:
        with counted() as step:
            tuned = sweep_candidates(goal, sweep, asked, step=step)
    else:
        with steps() as progress:
            tuned = tune_variants(goal, asked, progress)
    return _tuned(tuned, spec, update_spec)


def port(
    spec: SpecFile,
    incumbent: Annotated[
        str, typer.Option(metavar="NAME", help="the kernel to replace: file.py::fn, or package.module:fn")
    ],
    target: Target = None,
    out: Out = None,
    case: CaseId = None,
    tries: Tries = None,
    falsify: Annotated[bool, typer.Option("--falsify", help="one control: the incumbent against itself")] = False,
    integration: Annotated[
        str | None, typer.Option(metavar="CMD", help="run this once on the final build; $KGEN_PACKAGE is its folder")
    ] = None,
    update_spec: Annotated[bool, typer.Option("--update-spec", help="write a winner's axes into SPEC")] = False,
    as_json: Json = False,
) -> Answer:
    """Replace an existing kernel by a generated one at parity; keeps the incumbent byte for byte beside it."""
    from kgen.bench.harness import Asked
    from kgen.incumbents import incumbent_of
    from kgen.port import Closing
    from kgen.port import port as port_kernel

    _require_yaml(spec, update_spec)
    named = incumbent_of(incumbent)
    goal = _goal(spec, target, out, case, tries)
    with steps() as progress:
        closing = Closing(falsify, integration)
        tuned = port_kernel(goal, named, closing, Asked(command=_command()), progress)
    return _tuned(tuned, spec, update_spec)


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="package folders")],
    from_logs: Annotated[
        bool, typer.Option("--from-logs", help="first compute bands and verdicts anew from the samples in the logs")
    ] = False,
    as_json: Json = False,
) -> Answer:
    """Render the Markdown report and the charts anew from measured/report.json alone."""
    from kgen.bench.record import judge_again, render_measured
    from kgen.bench.report_table import report_view

    found = [judge_again(folder) if from_logs else render_measured(folder) for folder in folders]
    return Answer({"results": [r.to_json() for r in found]}, Group(*(report_view(r) for r in found)))


def _mode(text: str) -> "Mode":
    from kgen.bench.harness import Mode

    if text not in set(Mode):
        raise ArgumentsConflictError(reason=f"--mode {text!r} is none of {', '.join(Mode)}", fix="e.g. --mode check")
    return Mode(text)


def _command() -> str:
    """Return the command line as it is kept in reports: what was typed, without the folder of the program."""
    return " ".join(("kgen", *sys.argv[1:]))


def _require_yaml(spec: Path, update_spec: bool) -> None:
    if update_spec and spec.suffix == ".py":
        reason = f"--update-spec writes axes into a spec (.yaml), and {spec} is a module"
        raise ArgumentsConflictError(reason=reason, fix="leave it out, or write a spec whose reference is the module")


def _goal(spec: Path, target: str | None, out: Path | None, case: str | None, tries: Sequence[str] | None) -> "Goal":
    from kgen.tune import goal_of

    goal = goal_of(spec, target, out, case)
    asked = [_axes(text) for text in tries or ()]
    return replace(goal, tries=tuple(_checked(axes, goal) for axes in asked))


def _axes(text: str) -> dict[str, "Value"]:
    """Return the axes of one --try."""
    pairs = [part.partition("=") for part in text.split(",")]
    bad = next((name for name, equals, value in pairs if not (name.strip() and equals and value.strip())), None)
    if bad is not None:
        raise AxesError(text=text, reason=f"{bad!r} is not axis=value")
    names = [name.strip() for name, _, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise AxesError(text=text, reason=f"{twice!r} is given twice")
    return {name.strip(): _value(value.strip()) for name, _, value in pairs}


def _value(text: str) -> "Value":
    return int(text) if _WHOLE.fullmatch(text) else text


def _checked(axes: "Mapping[str, Value]", goal: "Goal") -> "dict[str, Value]":
    """Return axes of --try that candidates of the device have; raises where one does not exist."""
    from kgen.planning.fixed import fixed_axes
    from kgen.spec.model import FixedAxis
    from kgen.tune import families_of

    asked = tuple(FixedAxis(name, value, "--try") for name, value in axes.items())
    by_family = fixed_axes(asked, families_of(goal), goal.device)
    return {axis: value for found in by_family.values() for axis, value in found.items()}


def _tuned(tuned: "Tuned", spec: Path, update_spec: bool) -> Answer:
    from kgen.bench.report_table import report_view
    from kgen.spec.update import fixed_block, write_fixed

    shown: list[RenderableType] = [report_view(tuned.report)]
    if tuned.fixed:
        if update_spec:
            write_fixed(spec, tuned.fixed)
        said = f"written into {spec}" if update_spec else f"`kgen emit` needs these lines in {spec} to write it again"
        shown.append(Text(f"{said}:\n{fixed_block(tuned.fixed)}"))
    fields = {
        "folder": None if tuned.package.folder is None else str(tuned.package.folder),
        "winner": None if tuned.winner is None else {"name": tuned.winner.name, "change": tuned.winner.change},
        "fixed": [{"case": f.case, "axis": f.axis, "value": f.value, "because": f.because} for f in tuned.fixed],
        "report": tuned.report.to_json(),
    }
    return Answer(fields, Group(*shown), exit_code=int(not tuned.ok))
