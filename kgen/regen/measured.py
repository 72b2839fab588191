"""Put what was measured elsewhere into a package, whole or not at all."""

from collections.abc import Mapping
from pathlib import Path

from kgen.errors.package import FolderError
from kgen.exchange import incoming, locked, put_in_place, recover
from kgen.layout import MEASURED


def write_measured_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Make these files the `measured/` of a package; raises `FolderError` when the system refuses a step."""
    place = (folder / MEASURED).resolve()
    try:
        with locked(place):
            recover(place)
            prepared = incoming(place)
            for name, content in files.items():
                (prepared / name).parent.mkdir(parents=True, exist_ok=True)
                (prepared / name).write_bytes(content)
            put_in_place(place)
    except OSError as error:
        raise FolderError(folder=place, reason=error.strerror or error) from error
