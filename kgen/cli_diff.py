"""The command `kgen diff`: what changed between two sets of plans, and why.

`cli` adds it to its app, shows the `Answer` that it returns, and turns refusals into exit codes.
"""

from pathlib import Path
from typing import Annotated

import typer

from kgen.errors.cli import ArgumentsConflictError
from kgen.show.answer import Answer
from kgen.show.progress import bar

SPECS = Path("specs")


def diff(
    a: Annotated[
        str | None, typer.Argument(metavar="A", help="package, folder of packages, or records FILE[@RUN]")
    ] = None,
    b: Annotated[str | None, typer.Argument(metavar="B", help="the same")] = None,
    spec: Annotated[
        list[Path] | None, typer.Option("--spec", metavar="SPEC", help="plan it for two devices; a folder: all of it")
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="DEV,DEV", help="the devices of --spec; else files of devices not shipped")
    ] = None,
    specs: Annotated[Path, typer.Option(metavar="DIR", help="where the specs of the packages are")] = SPECS,
    every: Annotated[bool, typer.Option("--all", help="list what differs in figures only, too")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> Answer:
    """Say what changed between two packages, folders of packages, devices or runs, and what turned each choice."""
    from kgen.diff.compare import compare_devices, compare_sides
    from kgen.show.diff import comparison_view

    names = [name for name in (targets or "").split(",") if name]
    if spec:
        if a is not None:
            reason, fix = "diff takes A and B, or --spec with --targets", "leave out A and B"
            raise ArgumentsConflictError(reason=reason, fix=fix)
        found = compare_devices(spec, names, bar)
    elif a is None or b is None:
        fix = "e.g. kgen diff generated/h200 generated/h20, or kgen diff --spec SPEC --targets h200,h20"
        raise ArgumentsConflictError(reason="diff compares two sides", fix=fix)
    else:
        found = compare_sides(a, b, specs, names, bar)
    return Answer(found.to_json(), comparison_view(found, every=every), exit_code=int(not found.is_equal))
