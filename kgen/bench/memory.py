"""Memory files: `memory/v<N>.json` of a workspace, the record of one optimisation step each.

Every file is validated when it is read and before it is written. A write fills a private file, flushes it to disk and
renames it while the folder is locked: readers see the old file or the new one, and of two writers none is lost.
"""

import fcntl
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kgen.bench.memory_fields import (
    Schema,
    admits,
    empty_document,
    has_free_names,
    memory_schema,
    schema_of,
    unknown_field,
)
from kgen.bench.memory_fields import validate as validate_memory
from kgen.errors.bench import (
    AssignmentError,
    MemoryExistsError,
    MemoryInvalidError,
    MemoryMaskedError,
    MemoryMissingError,
    MemorySyntaxError,
    MemoryVersionError,
    NoMemoryError,
)

FOLDER = "memory"
LATEST = "latest"
_EXPERIMENTS = "experience.experiments"
_VERSION = re.compile(r"v(0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Memory:
    """A valid memory file: where it is, and its content."""

    file: Path
    document: dict[str, Any]

    @property
    def version(self) -> str:
        """The version, v0 for the baseline."""
        return self.file.stem

    @property
    def masked(self) -> bool:
        """Whether readers skip it."""
        return bool(self.document["masked"])

    def value(self, field: str) -> Any:
        """Return the value of a field such as `performance.tflops`."""
        holder, key = _holder(self.document, field, self.file)
        if isinstance(holder, dict) and key not in holder:  # a shape that was not measured
            raise AssignmentError(text=field, reason=f"it has {', '.join(holder) or 'no entry'}")
        return holder[key]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A field and the JSON value that it gets, or that is appended to the list it is."""

    field: str
    value: Any
    append: bool = False


def memory_file(workspace: Path, version: str) -> Path:
    """Return where a version of a workspace is kept."""
    if not _VERSION.fullmatch(version):
        raise MemoryVersionError(version=version)
    return workspace / FOLDER / f"{version}.json"


def create(workspace: Path, version: str) -> Memory:
    """Write a new memory file that states nothing but its version and the time: all else is null or empty."""
    file = memory_file(workspace, version)
    file.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with _locked(file.parent):
        if file.exists():
            raise MemoryExistsError(file=file)
        return _write(file, {**empty_document(), "version": version, "timestamp": now})


def store(file: Path, document: dict[str, Any]) -> Memory:
    """Write a whole document in place of what a memory file holds, or raise and leave it as it was."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _locked(file.parent):
        return _write(file, document)


def update(file: Path, assignments: Sequence[Assignment]) -> Memory:
    """Carry out all assignments and write the file, or raise and leave it as it was."""

    def assigned(document: dict[str, Any]) -> None:
        for assignment in assignments:
            _assign(document, assignment, file)
        experience = document["experience"]
        if any(a.field.startswith(_EXPERIMENTS) for a in assignments) and isinstance(experience["experiments"], list):
            experience["recorded_experiment_count"] = len(experience["experiments"])

    return _changed(file, assigned)


def mask(workspace: Path, version: str) -> Memory:
    """Make readers skip a version."""
    return update(memory_file(workspace, version), [Assignment("masked", True)])


def unmask(workspace: Path, version: str) -> Memory:
    """Make readers see a version again."""
    return update(memory_file(workspace, version), [Assignment("masked", False)])


def versions(workspace: Path) -> tuple[str, ...]:
    """Return the versions of a workspace, the oldest first, masked ones too."""
    found = [p.stem for p in (workspace / FOLDER).glob("v*.json") if _VERSION.fullmatch(p.stem)]
    return tuple(sorted(found, key=lambda version: int(version[1:])))


def read(workspace: Path, version: str = LATEST, *, include_masked: bool = False) -> Memory:
    """Return a version, or the latest one; masked files are skipped, and refused when asked for by their version."""
    if version != LATEST:
        memory = _read(memory_file(workspace, version))
        if memory.masked and not include_masked:
            raise MemoryMaskedError(file=memory.file)
        return memory
    for name in reversed(versions(workspace)):
        memory = _read(memory_file(workspace, name))
        if include_masked or not memory.masked:
            return memory
    raise NoMemoryError(folder=workspace / FOLDER, masked=len(versions(workspace)))


def summary(workspace: Path, *, include_masked: bool = False) -> tuple[Memory, ...]:
    """Return all versions, the oldest first; masked ones are skipped unless they are asked for."""
    memories = (_read(memory_file(workspace, version)) for version in versions(workspace))
    return tuple(memory for memory in memories if include_masked or not memory.masked)


def parse_assignment(text: str, *, append: bool = False) -> Assignment:
    """Return the assignment of `field=value`. The value is JSON where the field takes that type, else plain text."""
    field, equals, value = text.partition("=")
    field = field.strip()
    if not equals or not field:
        raise AssignmentError(text=text, reason="not of the form field=value")
    schema = _schema_at(field, text)
    if append:
        if "items" not in schema:
            raise AssignmentError(text=text, reason=f"{field} is not a list")
        schema = schema_of(schema, "0") or schema
    return Assignment(field, _typed(value, schema, text), append)


def _typed(value: str, schema: Schema, text: str) -> Any:
    try:
        found = _parsed(value)
    except ValueError as error:
        if not admits(schema, value):
            reason = f"{value!r} is not JSON ({error}), and the field takes {schema['type']}"
            raise AssignmentError(text=text, reason=reason) from None
        return value
    # A commit hash of digits only, say, is JSON of the wrong type and a good text.
    if not admits(schema, found) and admits(schema, value):
        return value
    return found


def _parts(field: str) -> Iterator[str]:
    """Yield the names of a path; in an object of free names the whole rest is one name, dots and all."""
    schema = memory_schema()
    while field:
        if has_free_names(schema):
            yield field
            return
        name, _, field = field.partition(".")
        yield name
        schema = schema_of(schema, name) or {}


def _holder(document: Any, field: str, file: Path) -> tuple[Any, Any]:
    """Return the object or list that a field is in, and its name or index there."""
    _schema_at(field, file)
    *path, last = _parts(field)
    holder = document
    for name in path:
        holder = holder[_key(holder, name, field)]
        if not isinstance(holder, dict | list):
            raise AssignmentError(text=field, reason=f"{name} was set to {holder!r} before")
    return holder, _key(holder, last, field)


def _key(holder: Any, name: str, field: str) -> Any:
    """Return what a list or an object holds a member by."""
    if isinstance(holder, dict):
        return name
    if int(name) >= len(holder):
        raise AssignmentError(text=field, reason=f"there is no entry {name} in a list of {len(holder)}")
    return int(name)


def _schema_at(field: str, file: Path | str) -> Schema:
    """Return the schema of a field, or raise and name the nearest one."""
    schema = memory_schema()
    for name in _parts(field):
        member = schema_of(schema, name)
        if member is None:
            raise unknown_field(field, file)
        schema = member
    return schema


def _assign(document: dict[str, Any], assignment: Assignment, file: Path) -> None:
    holder, key = _holder(document, assignment.field, file)
    if not assignment.append:
        holder[key] = assignment.value
    elif isinstance(holder, dict) and isinstance(holder.get(key), list):
        holder[key].append(assignment.value)
    else:
        raise AssignmentError(text=assignment.field, reason="not a list")


def _changed(file: Path, change: Callable[[dict[str, Any]], None]) -> Memory:
    if not file.parent.is_dir():
        raise _missing(file)
    with _locked(file.parent):
        document = _read(file).document
        change(document)
        return _write(file, document)


def _missing(file: Path) -> MemoryMissingError:
    known = ", ".join(versions(file.parent.parent)) or "none"
    return MemoryMissingError(file=file, known=known)


def _read(file: Path) -> Memory:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(file) from None
    except UnicodeDecodeError as error:
        raise MemorySyntaxError(file=file, reason=error) from None
    try:
        document = _parsed(text)
    except ValueError as error:
        raise MemorySyntaxError(file=file, reason=error) from None
    validate_memory(document, file)
    return Memory(file, document)


def _parsed(text: str) -> Any:
    """Return a JSON value; NaN, numbers that no float holds, and names given twice are errors."""
    try:
        return json.loads(text, parse_constant=_number, parse_float=_number, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def _write(file: Path, document: dict[str, Any]) -> Memory:
    validate_memory(document, file)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    part = file.with_name(f".{file.name}.part")  # one name suffices: the folder is locked
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:  # an argument of the command line that is not UTF-8
        raise MemoryInvalidError(file=file, problems=error) from None
    with part.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)
    return Memory(file, document)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for one writer; leaving flushes its entries, and with them the rename, to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
