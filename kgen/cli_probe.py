"""The command that describes the GPU of this machine: `kgen probe`."""

from pathlib import Path
from typing import Annotated

import typer

from kgen.show.answer import Answer
from kgen.show.progress import steps


def probe(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="device file to write: FILE names the device")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> Answer:
    """Describe the GPU that is here as a device file, from its driver and from measurements of less than a minute."""
    from kgen.probe.probe import probe as probe_gpu
    from kgen.show.probe import probe_view

    with steps() as progress:
        probed = probe_gpu(out, progress)
    return Answer(probed.to_json(), probe_view(probed))
