"""The command line. The only module that prints or exits.

Each command returns an `Answer`; `main` shows it or, with --json, writes it to stdout as one JSON object whatever
happens: refusals, usage errors, faults and Ctrl-C included. Commands import what they need when they run, so that
`kgen solve --gemm` and `kgen targets` stay free of torch.

Exit codes: 0 good, 1 a check failed, 2 bad input, 3 valid but unsupported or no legal candidate, 4 needs a device that
is not here; 70 a fault in kgen, 130 interrupted.
"""

import gc
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.text import Text

from kgen.cli_bench import memory, utilization
from kgen.cli_dashboard import dashboard
from kgen.cli_diff import diff
from kgen.cli_measure import bench, port, report, tune
from kgen.cli_probe import probe
from kgen.cli_records import records
from kgen.cli_regen import regen
from kgen.errors.base import KgenError
from kgen.errors.cli import ArgumentsConflictError, FaultError, ReferenceExitedError, UnknownStageError
from kgen.show.answer import Answer, of_error, of_failure
from kgen.show.progress import bar

INTERRUPTED = 130  # as shells report SIGINT
_PIPED_WIDTH = 200  # a table in a file or pipe is not cut to the 80 columns of an unknown terminal
# The base of click's errors. Some releases of typer hold click inside, so it cannot be imported by its name.
_UsageError: type[Any] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Generate readable GPU kernels from PyTorch references.",
)

SpecFile = Annotated[Path | None, typer.Argument(metavar="SPEC", help="spec (.yaml) or module (.py)")]
Targets = Annotated[list[str] | None, typer.Option("--target", metavar="DEV", help="device; may be repeated")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]


@app.command()
def emit(
    spec: SpecFile = None,
    target: Targets = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="package folder; with --all, the root")] = None,
    all_specs: Annotated[bool, typer.Option("--all", help="every specs/*.yaml on each of its targets")] = False,
    compare: Annotated[bool, typer.Option("--check", help="compare with what is there, write nothing")] = False,
    stop_after: Annotated[str | None, typer.Option(metavar="STAGE", help="print what a stage makes")] = None,
    as_json: Json = False,
) -> Answer:
    """Write the package of a spec: by default to generated/<device>/<name>."""
    if (spec is None) != all_specs:
        raise ArgumentsConflictError(reason="emit takes a SPEC or --all, one of the two", fix="e.g. kgen emit SPEC")
    if stop_after is not None:
        if spec is None or compare:
            reason = "--stop-after prints what a stage makes of one SPEC"
            raise ArgumentsConflictError(reason=reason, fix="leave out --all and --check")
        return _stop_after(spec, target or [], stop_after)
    return _emit(spec, target or [], out, compare=compare)


def _emit(spec: Path | None, targets: list[str], out: Path | None, *, compare: bool) -> Answer:
    from dataclasses import replace

    from kgen.golden import GENERATED, do_jobs, jobs_of, original, orphans, spec_files
    from kgen.show.packages import failures_view, outcomes_view

    root = (out if spec is None else None) or GENERATED
    jobs = jobs_of(spec_files(Path()) if spec is None else [spec], targets, root)
    if spec is not None and (error := jobs[0].error) is not None:
        raise original(error)
    if spec is not None and out is not None:
        if len(jobs) > 1:
            reason = f"-o names one package folder, and {spec} has the targets {', '.join(j.device for j in jobs)}"
            raise ArgumentsConflictError(reason=reason, fix="pass one --target, or leave -o out")
        jobs = (replace(jobs[0], folder=out),)
    outcomes = []
    with bar(len(jobs)) as advance:
        for outcome in do_jobs(jobs, compare=compare):
            outcomes.append(outcome)
            advance(outcome.job.title)
    if spec is not None and len(outcomes) == 1 and outcomes[0].error is not None:
        raise original(outcomes[0].error)
    alone = orphans(jobs, targets, root) if spec is None and compare else ()
    worst = max([o.exit_code for o in outcomes] + [int(bool(alone))])
    fields = {"results": [o.to_json() for o in outcomes], "orphans": [str(folder) for folder in alone]}
    plans = spec is not None and not compare
    return Answer(fields, outcomes_view(outcomes, alone, plans=plans), failures_view(outcomes), worst)


def _stop_after(file: Path, targets: list[str], stage: str) -> Answer:
    from kgen.api import load_spec
    from kgen.pipeline import run, stage_names
    from kgen.request import as_devices
    from kgen.show.packages import stage_text

    if stage not in stage_names():
        raise UnknownStageError(stage=stage, known=", ".join(stage_names()))
    spec = load_spec(file)
    results = []
    for device in as_devices(spec, targets):
        text = stage_text(stage, run(spec, device, stop_after=stage).made[stage])
        results.append({"device": device.name, "stage": stage, "made": text})
    shown = "\n".join(f"# {r['device']}\n{r['made']}" if len(results) > 1 else r["made"] for r in results)
    return Answer({"results": results}, Text(shown))


@app.command()
def solve(
    spec: SpecFile = None,
    gemm: Annotated[str | None, typer.Option(metavar="M,N,K", help="a product instead of a spec")] = None,
    batch: Annotated[int, typer.Option(min=0, max=10**6, help="products of --gemm")] = 1,
    dtype: Annotated[str, typer.Option(help="element type of A and B of --gemm")] = "bf16",
    out_dtype: Annotated[str | None, typer.Option(help="element type of D of --gemm; default: that of A and B")] = None,
    layout: Annotated[
        str, typer.Option(help="A and B of --gemm as in BLAS: tn both contiguous along k, tt both row-major")
    ] = "tn",
    target: Targets = None,
    case: Annotated[str | None, typer.Option(metavar="ID", help="case of the spec; default: the first")] = None,
    top: Annotated[int, typer.Option(min=1, help="how many candidates to list")] = 10,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="one kernel of the spec; default: all")] = None,
    why: Annotated[
        str | None, typer.Option(metavar="POINT", help='explain one choice, e.g. "128,256,64" or "threads=256,vec=8"')
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Rank the legal candidates of each kernel of a spec, or of a product, and say what removed the others."""
    from kgen.api import load_spec, plan
    from kgen.request import as_devices
    from kgen.show.candidates import solutions_view
    from kgen.solution import Product, product_questions, solve_question, spec_questions

    if gemm is not None and spec is None:
        questions = product_questions(Product(gemm, batch, dtype, out_dtype, layout), target or [])
    elif spec is not None and gemm is None:
        loaded = load_spec(spec)
        if loaded.dynamic is not None and case is None and why is None:
            from kgen.show.dynamic import tables_json, tables_view

            plans = [plan(loaded, device) for device in as_devices(loaded, target or [])]
            return Answer({"results": tables_json(plans)}, tables_view(plans))
        questions = spec_questions(loaded, target or [], case, kernel)
    else:
        reason, fix = (
            "solve takes a SPEC or --gemm, one of the two",
            "e.g. kgen solve --gemm 4096,4096,4096 --target h200",
        )
        raise ArgumentsConflictError(reason=reason, fix=fix)
    solutions = [solve_question(question, top, why) for question in questions]
    return Answer({"results": [s.to_json() for s in solutions]}, solutions_view(solutions))


@app.command()
def check(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="package folders")],
    compile_only: Annotated[bool, typer.Option("--compile-only", help="compile and inspect, run nothing")] = False,
    disasm: Annotated[Path | None, typer.Option(metavar="FILE", help="write the assembly of all variants")] = None,
    as_json: Json = False,
) -> Answer:
    """Compile packages and read their machine code; then run their tests on the GPU, or in the simulator of CDNA."""
    from rich.console import Group

    from kgen.check.table import whole_table
    from kgen.check.whole import check_all

    with bar(len(folders)) as advance:
        results = check_all(folders, compile_only=compile_only, progress=lambda folder: advance(str(folder)))
    if disasm is not None:
        disasm.write_text("".join(result.compiled.listing() for result in results), encoding="utf-8")
    failed = not all(result.ok for result in results)
    shown = Group(*(whole_table(result) for result in results))
    return Answer({"results": [r.to_json() for r in results]}, shown, exit_code=int(failed))


@app.command()
def targets(as_json: Json = False) -> Answer:
    """List the devices, and which families each instruction set has."""
    from kgen.show.targets import targets_view
    from kgen.support import support_matrix
    from kgen.target import all_devices

    devices, matrix = all_devices(), support_matrix()
    fields = {"devices": [d.to_json() for d in devices], "support": [s.to_json() for s in matrix]}
    return Answer(fields, targets_view(devices, matrix))


@app.command()
def schema(as_json: Json = False) -> Answer:
    """Print the JSON Schema of a spec."""
    from kgen.spec.schema import spec_schema

    found = spec_schema()
    return Answer({"schema": found}, Text(json.dumps(found, indent=2)))


@app.command()
def doctor(as_json: Json = False) -> Answer:
    """Say what is installed, which GPU is here, what is missing and how to get it."""
    from kgen.doctor import diagnose, doctor_table

    diagnosis = diagnose(tries_out=True)
    return Answer(diagnosis.to_json(), doctor_table(diagnosis))


def _version(wanted: bool) -> None:
    if wanted:
        from kgen.check.toolchain import installed_version

        typer.echo(f"kgen {installed_version('kgen') or 'from a checkout'}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
) -> None:
    """Generate readable GPU kernels from PyTorch references."""


app.add_typer(memory, name="memory")
app.add_typer(records, name="records")
for command in (bench, tune, port, report, utilization, probe, regen, diff, dashboard):
    app.command()(command)


def main() -> None:
    """Run the command line and exit."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: what is opened next must not take its place
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - as long as the process
    gc.set_threshold(100_000)  # a short-lived process: collecting takes 0.1 of the 0.9 s of `kgen solve --gemm`
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command line, show its answer, and return the exit code."""
    try:
        if "--json" not in arguments:
            return _show(_answer(arguments))
        with _stdout_kept() as stdout:
            answer = _answer(arguments)
            text, code = _json_of(answer)
            stdout.write(f"{text}\n")
        return code
    except (BrokenPipeError, SystemExit):  # the reader of stdout has seen enough; rich makes an exit of it
        _drop_stdout()
        return 0
    except OSError as error:  # e.g. a full disk
        _drop_stdout()
        return _show(of_failure(type(error).__name__, f"cannot write the answer: {error.strerror or error}", 2))


def _drop_stdout() -> None:
    """Send what is still buffered for stdout nowhere: Python would complain again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _answer(arguments: Sequence[str]) -> Answer:
    """Return the answer of a command, whatever happens."""
    try:
        command = typer.main.get_command(app)
        found = command.main(list(arguments), prog_name="kgen", standalone_mode=False)
        if found == INTERRUPTED:  # some releases of typer turn Ctrl-C into an exit code
            raise KeyboardInterrupt
        return found if isinstance(found, Answer) else Answer({}, exit_code=int(found or 0))
    except KgenError as error:
        return of_error(error)
    except (KeyboardInterrupt, typer.Abort):
        return of_failure("Interrupted", "interrupted", INTERRUPTED)
    except BrokenPipeError:
        raise
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer's answer to a reader of --help that left
            raise error.__context__ from None
        return of_error(ReferenceExitedError(status=error.code))
    except _UsageError as error:
        return of_failure("UsageError", error.format_message() or "no command was given", error.exit_code)
    except OSError as error:
        return of_failure(type(error).__name__, str(error), 2)
    except Exception as error:
        fault = FaultError(kind=type(error).__name__, reason=error)
        return of_error(fault, traceback.format_exc())


def _show(answer: Answer) -> int:
    """Show an answer on a terminal."""
    for content, stderr in ((answer.shown, False), (answer.failure, True)):
        if content is not None:
            console = Console(stderr=stderr, highlight=False)
            if not console.is_terminal:
                console.width = _PIPED_WIDTH
            console.print(content, soft_wrap=stderr or isinstance(content, Text))
    return answer.exit_code


def _json_of(answer: Answer) -> tuple[str, int]:
    try:
        return json.dumps(answer.to_json(), allow_nan=False), answer.exit_code
    except (TypeError, ValueError) as error:
        fault = FaultError(kind=type(error).__name__, reason=error)
        return json.dumps(of_error(fault).to_json()), fault.exit_code


@contextmanager
def _stdout_kept() -> Iterator[TextIO]:
    """Yield the real stdout; meanwhile what anything prints there, libraries in C too, goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    with suppress(OSError):
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr), os.fdopen(kept, "w", encoding="utf-8", closefd=False) as stdout:
            yield stdout
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    main()
