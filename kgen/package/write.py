"""Write a package: the end of the compile, and the only place that writes one.

The folder is made complete beside its place, forced to disk and then exchanged, so that a process killed at any
moment leaves the old package or the new one, whole; what it left beside them is removed by the next write.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kgen.errors.package import FolderError, OccupiedFolderError
from kgen.exchange import incoming, locked, put_in_place, recover
from kgen.layout import MEASURED
from kgen.package.folder import (
    KERNEL_FILE,
    compare_package,
    measured_kernel,
    require_file_names,
    require_replaceable,
    text_digest,
)


class Outcome(StrEnum):
    """What a write did to a folder."""

    CREATED = "created"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


class Measurements(StrEnum):
    """What became of `measured/`."""

    NONE = "none"  # there were no measurements
    KEPT = "kept"  # they are of the kernel.py that stands there now
    DROPPED = "dropped"  # they were of another kernel.py


@dataclass(frozen=True, slots=True)
class Written:
    """What `write_package` did."""

    folder: Path
    outcome: Outcome
    measurements: Measurements

    def __str__(self) -> str:
        note = "; measured/ dropped: it was of another kernel.py" if self.measurements is Measurements.DROPPED else ""
        return f"{self.outcome} {self.folder}{note}"


def write_package(files: Mapping[str, str], folder: Path) -> Written:
    """Write a package, whole or not at all.

    Replaces an older package and keeps its `measured/` when that is of the same kernel.py. Raises `OccupiedFolderError`
    or `ForeignFilesError` rather than lose what kgen did not write, and `FolderError` when the system refuses a step.
    """
    require_file_names(files)
    place = folder.resolve()
    if not place.name:
        raise OccupiedFolderError(folder=place, reason="it is the root of the file system")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place):
            recover(place)
            require_replaceable(place)
            return Written(folder, *_write(files, place))
    except OSError as error:
        raise FolderError(folder=folder, reason=error.strerror or error) from error


def _write(files: Mapping[str, str], place: Path) -> tuple[Outcome, Measurements]:
    """Write the files in place of what is there; the caller holds the lock."""
    measurements = _measurements(files, place)
    was_there = place.exists()
    if was_there and measurements is not Measurements.DROPPED and not compare_package(files, place):
        return Outcome.UNCHANGED, measurements
    prepared = incoming(place)
    prepared.mkdir()
    for name, text in files.items():
        path = prepared / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    if measurements is Measurements.KEPT:
        shutil.copytree(place / MEASURED, prepared / MEASURED, symlinks=True)
    put_in_place(place)
    return Outcome.REPLACED if was_there else Outcome.CREATED, measurements


def _measurements(files: Mapping[str, str], place: Path) -> Measurements:
    """Return what is to become of the measurements in a folder."""
    if not (place / MEASURED).is_dir():
        return Measurements.NONE
    kernel = files.get(KERNEL_FILE)
    same = kernel is not None and measured_kernel(place) == text_digest(kernel)
    return Measurements.KEPT if same else Measurements.DROPPED
