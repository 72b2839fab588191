"""The command that brings the packages of many specs and devices up to date: `kgen regen`.

`cli` adds it to its app, shows the `Answer` that it returns, and turns refusals into exit codes.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgen.cli_records import DEFAULT, File
from kgen.show.answer import Answer
from kgen.show.progress import timed

if TYPE_CHECKING:
    from kgen.regen.engine import Engine


def regen(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="[SPEC...]", help="default: specs/*.yaml")] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="devices, or device files; default: those of each spec")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="compile, read the machine code, simulate or test")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="measure where the device is here")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="root of the packages")] = Path("generated"),
    records: File = DEFAULT,
    engine: Annotated[str, typer.Option(help="pool, ray, or ray://HOST:PORT")] = "pool",
    processes: Annotated[int | None, typer.Option(min=1, help="of the pool; default: the cores there are")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> Answer:
    """Bring the packages of all specs on all devices up to date: only what is not finished is done."""
    from kgen.golden import spec_files
    from kgen.records import Store
    from kgen.regen.run import Asked, devices_of, regenerate
    from kgen.show.regen import failures_view, summary_view

    asked = Asked(
        specs=tuple(specs or spec_files(Path())),
        targets=() if targets is None else devices_of(targets),
        out=out,
        check=check,
        measure=measure,
    )
    with Store.open(records) as store, _engine(engine, processes) as found, timed() as progress:
        summary = regenerate(asked, found, store, progress)
    fields = {**summary.to_json(), "out": str(out), "records": str(records)}
    return Answer(fields, summary_view(summary, out, records), failures_view(summary), summary.exit_code)


@contextmanager
def _engine(text: str, processes: int | None) -> "Iterator[Engine]":
    """Yield the engine of that name, and end its work."""
    from kgen.check.compile import usable_cores
    from kgen.errors.regen import UnknownEngineError

    name, _, address = text.partition("://")
    if name == "ray":
        from kgen.regen.cluster import Cluster

        with closing(Cluster(address or None)) as cluster:
            yield cluster
    elif text == "pool":
        from kgen.regen.pool import Pool

        with (
            tempfile.TemporaryDirectory(prefix="kgen-regen-", ignore_cleanup_errors=True) as scratch,
            closing(Pool(processes or usable_cores(), Path(scratch))) as pool,
        ):
            yield pool
    else:
        raise UnknownEngineError(text=text)
