"""The commands that work on measurements: `kgen memory ...` and `kgen utilization`.

`cli` adds them to its app, shows the `Answer` that each returns, and turns refusals into exit codes.
"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kgen.errors.cli import ArgumentsConflictError
from kgen.show.answer import Answer

memory = typer.Typer(no_args_is_help=True, help="Keep the record of each optimisation step: memory/v<N>.json.")

Workspace = Annotated[Path, typer.Option("--workspace", metavar="DIR", help="folder that holds memory/")]
Version = Annotated[str, typer.Option("--version", metavar="VN", help="v0 for the baseline, then v1, ...")]
Masked = Annotated[bool, typer.Option("--include-masked", help="masked files too")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
HERE = Path()


@memory.command()
def create(version: Version, workspace: Workspace = HERE, as_json: Json = False) -> Answer:
    """Write the file of a new version: its time, and null or empty for all else."""
    from kgen.bench.memory import create as create_memory

    made = create_memory(workspace, version)
    return Answer({"file": str(made.file), "memory": made.document}, Text(f"created {made.file}"))


@memory.command()
def update(
    version: Version,
    workspace: Workspace = HERE,
    assign: Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="may be repeated")] = None,
    append: Annotated[list[str] | None, typer.Option(metavar="FIELD=JSON", help="one more entry of a list")] = None,
    as_json: Json = False,
) -> Answer:
    """Set fields and append to lists, all or none."""
    from kgen.bench.memory import memory_file, parse_assignment
    from kgen.bench.memory import update as update_memory

    if not assign and not append:
        fix = "e.g. --set correctness.status=PASS"
        raise ArgumentsConflictError(reason="update takes at least one --set or --append", fix=fix)
    changes = [parse_assignment(text) for text in assign or ()]
    changes += [parse_assignment(text, append=True) for text in append or ()]
    made = update_memory(memory_file(workspace, version), changes)
    return Answer({"file": str(made.file), "memory": made.document}, Text(f"updated {made.file}"))


@memory.command()
def read(
    version: Annotated[str, typer.Option("--version", metavar="VN", help="v0, v1, ... or latest")] = "latest",
    workspace: Workspace = HERE,
    field: Annotated[str | None, typer.Option(metavar="FIELD", help="only this, e.g. performance.tflops")] = None,
    include_masked: Masked = False,
    as_json: Json = False,
) -> Answer:
    """Print a version, by default the latest that is not masked."""
    from kgen.bench.memory import read as read_memory

    found = read_memory(workspace, version, include_masked=include_masked)
    value = found.document if field is None else found.value(field)
    shown = Text(json.dumps(value, indent=2, ensure_ascii=False))
    named = {"memory": value} if field is None else {"field": field, "value": value}
    return Answer({"file": str(found.file), "version": found.version, **named}, shown)


@memory.command()
def summary(workspace: Workspace = HERE, include_masked: Masked = False, as_json: Json = False) -> Answer:
    """List the versions with their speed, utilization and verdicts."""
    from kgen.bench.memory import summary as summary_memory
    from kgen.bench.table import SUMMARY, summary_table

    found = summary_memory(workspace, include_masked=include_masked)
    rows = [{"version": m.version, "masked": m.masked, **{f: m.value(f) for f in SUMMARY.values()}} for m in found]
    return Answer({"results": rows}, summary_table(found))


@memory.command()
def mask(version: Version, workspace: Workspace = HERE, as_json: Json = False) -> Answer:
    """Make readers skip a version."""
    from kgen.bench.memory import mask as mask_memory

    made = mask_memory(workspace, version)
    return Answer({"file": str(made.file), "masked": made.masked}, Text(f"masked {made.file}"))


@memory.command()
def unmask(version: Version, workspace: Workspace = HERE, as_json: Json = False) -> Answer:
    """Make readers see a version again."""
    from kgen.bench.memory import unmask as unmask_memory

    made = unmask_memory(workspace, version)
    return Answer({"file": str(made.file), "masked": made.masked}, Text(f"unmasked {made.file}"))


@memory.command()
def schema(as_json: Json = False) -> Answer:
    """Print the JSON Schema of a memory file."""
    from kgen.bench.memory_fields import memory_schema

    found = memory_schema()
    return Answer({"schema": found}, Text(json.dumps(found, indent=2)))


def utilization(
    gpu: Annotated[str, typer.Option(metavar="DEV", help="device, see `kgen targets`")],
    dtype: Annotated[str, typer.Option(help="element type of the products")],
    flops: Annotated[str, typer.Option("--flops", "--flops-expr", metavar="EXPR", help="of the whole problem")],
    moved: Annotated[str, typer.Option("--bytes", "--bytes-expr", metavar="EXPR", help="of the whole problem")],
    time_us: Annotated[float | None, typer.Option(help="measured time in microseconds")] = None,
    time_ms: Annotated[float | None, typer.Option(help="measured time in milliseconds")] = None,
    blocks: Annotated[
        int | None, typer.Option("--blocks", "--grid-blocks", help="CTAs of the grid; tiles of a persistent kernel")
    ] = None,
    blocks_per_unit: Annotated[int, typer.Option(help="CTAs that one compute unit holds at once")] = 1,
    compute_units: Annotated[int | None, typer.Option(help="SMs or CUs; default: the device file's")] = None,
    as_json: Json = False,
) -> Answer:
    """Relate a measured time to the dense peak and the memory bandwidth of a device, for the whole problem."""
    from kgen.bench.expression import amount
    from kgen.bench.table import utilization_view
    from kgen.bench.utilization import Amounts, Grid
    from kgen.bench.utilization import utilization as utilization_of
    from kgen.target import load_device

    if (time_us is None) == (time_ms is None):
        reason = "utilization takes --time-us or --time-ms, one of the two"
        raise ArgumentsConflictError(reason=reason, fix="e.g. --time-us 180.5")
    time = time_us if time_us is not None else (time_ms or 0.0) * 1e3
    amounts = Amounts(amount(flops, "--flops"), amount(moved, "--bytes"), time)
    grid = None if blocks is None else Grid(blocks, blocks_per_unit, compute_units)
    found = utilization_of(load_device(gpu), dtype, amounts, grid)
    return Answer(found.to_json(), utilization_view(found), exit_code=int(not found.ok))
