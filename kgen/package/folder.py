"""What a package folder holds: its mark, its file names, what was measured in it, and how it compares with a text.

Read-only; `kgen.package.write` is the only writer.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kgen.errors.package import FileNameError, ForeignFilesError, OccupiedFolderError
from kgen.layout import MEASURED, MEASURED_DIGEST

PLAN_FILE = "plan.json"
KERNEL_FILE = "kernel.py"
GENERATOR = "kgen"  # the value of "generator" in plan.json: the mark of a package
_IGNORED = frozenset({"__pycache__", ".pytest_cache"})


@dataclass(frozen=True, slots=True)
class Differences:
    """How a folder differs from the files it should hold; measurements are not compared."""

    missing: tuple[str, ...]
    extra: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed)

    def __str__(self) -> str:
        kinds = (("missing", self.missing), ("extra", self.extra), ("changed", self.changed))
        return "\n".join(f"{kind} {name}" for kind, names in kinds for name in names)


def compare_package(files: Mapping[str, str], folder: Path) -> Differences:
    """Compare a folder with the files it should hold, byte for byte, leaving out what was measured."""
    there = file_names(folder)
    return Differences(
        missing=tuple(sorted(files.keys() - there)),
        extra=tuple(sorted(there - files.keys())),
        changed=tuple(n for n in sorted(files.keys() & there) if (folder / n).read_bytes() != files[n].encode()),
    )


def file_names(folder: Path) -> frozenset[str]:
    """Return the names of all files in a folder except measurements and what running Python leaves behind."""
    names = set()
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_measured = name.parts[0] == MEASURED or name.parts[0].startswith(f".{MEASURED}.kgen-")
        if not is_measured and not _IGNORED.intersection(name.parts) and not path.is_dir():
            names.add(name.as_posix())
    return frozenset(names)


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text as it is written to a file."""
    return hashlib.sha256(text.encode()).hexdigest()


def measured_kernel(folder: Path) -> str | None:
    """Return the digest of the kernel.py that `measured/` was made with, or None when nothing says so."""
    try:
        return (folder / MEASURED / MEASURED_DIGEST).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def require_replaceable(folder: Path) -> None:
    """Raise unless a folder may be replaced: it is absent, empty, or a package with nothing foreign inside."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        names = _names_in_plan(folder)
        foreign = sorted(file_names(folder) - names)
        if foreign:
            raise ForeignFilesError(folder=folder, names=", ".join(foreign))


def require_file_names(files: Mapping[str, str]) -> None:
    """Raise unless every name stays inside the package and out of `measured/`."""
    for name in files:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or path.as_posix() != name or "\\" in name:
            raise FileNameError(name=name, reason="it is not a plain relative path")
        if path.parts[0] == MEASURED:
            raise FileNameError(name=name, reason=f"{MEASURED}/ is kept for what runs measure")


def _names_in_plan(folder: Path) -> frozenset[str]:
    """Return the file names that a package's plan.json lists; raise when the folder is no package."""
    if not folder.is_dir():
        raise OccupiedFolderError(folder=folder, reason="it is a file")
    try:
        plan = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OccupiedFolderError(folder=folder, reason=f"it has no readable {PLAN_FILE}") from error
    if not isinstance(plan, dict) or plan.get("generator") != GENERATOR:
        raise OccupiedFolderError(folder=folder, reason=f'{PLAN_FILE} does not say "generator": "{GENERATOR}"')
    names = plan.get("files", [])
    return frozenset(n for n in names if isinstance(n, str)) | {PLAN_FILE}
