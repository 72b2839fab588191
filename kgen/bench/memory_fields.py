"""The schema of memory files: validation, the fields it names, and an empty file.

The schema, memory_schema.json beside this module, is the one home of names, types and enums. memory.py reads and writes
files through here, so that nothing else spells a field to check it.
"""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from kgen.errors.bench import MemoryFieldError, MemoryInvalidError

Schema = Mapping[str, Any]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


@cache
def memory_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of a memory file."""
    text = Path(__file__).with_name("memory_schema.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def validate(document: object, file: Path) -> None:
    """Raise unless a document is what `file` may hold. Unknown fields are named first, with the nearest known one."""
    errors = sorted(_validator().iter_errors(document), key=lambda e: [str(p) for p in e.absolute_path])
    for error in errors:
        if error.validator == "additionalProperties":
            _refuse_unknown(error, file)
    problems = [_problem(error) for error in errors] or [*_contradictions(document, file)]
    if problems:
        raise MemoryInvalidError(file=file, problems="; ".join(dict.fromkeys(problems)))


def empty_document() -> dict[str, Any]:
    """Return a document in which nothing is stated: nulls, empty lists, and the defaults of the schema."""
    document: dict[str, Any] = _empty(memory_schema())
    return document


def schema_of(schema: Schema, name: str) -> Schema | None:
    """Return the schema of one member of an object or list, or None where there is none of that name."""
    if "items" in schema:
        return _followed(schema["items"]) if name.isdecimal() else None
    member = schema.get("properties", {}).get(name) or schema.get("additionalProperties") or None
    return _followed(member) if member else None


def has_free_names(schema: Schema) -> bool:
    """Return whether an object takes any name, as the latencies by shape do."""
    return isinstance(schema.get("additionalProperties"), Mapping)


def admits(schema: Schema, value: object) -> bool:
    """Return whether the type of a value is one that the schema names; its range is not looked at."""
    types = schema["type"]
    names = [types] if isinstance(types, str) else types
    return any(_is_of(value, name) for name in names)


def unknown_field(field: str, file: Path | str) -> MemoryFieldError:
    """Return the refusal of a field that does not exist, with the nearest one that does."""
    return MemoryFieldError(file=file, field=field, nearest=nearest_field(field))


def nearest_field(field: str) -> str:
    """Return the path of the known field that is nearest: among its siblings where its parent exists, else anywhere."""
    known = dict.fromkeys(_paths(memory_schema()))
    named = ".".join(part for part in field.split(".") if not part.isdecimal())
    parent, _, leaf = named.rpartition(".")
    siblings = [path for path in known if path.rpartition(".")[0] == parent] if parent else []
    return max(siblings or known, key=lambda path: _likeness(named, leaf, path))


@cache
def _validator() -> Any:
    return Draft202012Validator(memory_schema())


def _followed(schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    found: Schema = memory_schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    return found


def _empty(schema: Schema) -> Any:
    schema = _followed(schema)
    if "default" in schema:
        return schema["default"]
    if "null" in schema["type"]:
        return None
    match schema["type"]:
        case "object":
            return {name: _empty(member) for name, member in schema.get("properties", {}).items()}
        case "array":
            return []
    return None  # the version and the time, which only the writer knows


def _is_of(value: object, name: str) -> bool:
    if isinstance(value, bool):  # an int to Python, not to JSON
        return name == "boolean"
    return isinstance(value, _TYPES[name]) or (name == "integer" and isinstance(value, float) and value.is_integer())


def _paths(schema: Schema, prefix: str = "") -> Iterator[str]:
    schema = _followed(schema)
    if "items" in schema:
        yield from _paths(schema["items"], prefix)
    for name, member in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from _paths(member, f"{prefix}{name}.")


def _likeness(named: str, leaf: str, path: str) -> float:
    whole = SequenceMatcher(None, named, path).ratio()
    return whole + SequenceMatcher(None, leaf, path.rpartition(".")[2]).ratio()


def _refuse_unknown(error: ValidationError, file: Path) -> None:
    known = error.schema["properties"]
    name = next(name for name in error.instance if name not in known)
    raise unknown_field(".".join([*map(str, error.absolute_path), name]), file)


def _problem(error: ValidationError) -> str:
    """Return one violation in words: the place, what is wrong, and for a rule between fields the rule."""
    place = ".".join(map(str, error.absolute_path)) or "the document"
    rule = list(error.absolute_schema_path)[:2]
    reason = f" ({memory_schema()['allOf'][rule[1]]['$comment']})" if rule[0] == "allOf" else ""
    return f"{place}: {error.message}{reason}"


def _contradictions(document: Any, file: Path) -> Iterator[str]:
    """Yield what a JSON Schema cannot say about a document that satisfies it."""
    if document["version"] != file.stem:
        yield f"version: {document['version']!r} in a file named {file.name}"
    try:
        datetime.fromisoformat(document["timestamp"])
    except ValueError as error:
        yield f"timestamp: {error}"
    experience = document["experience"]
    recorded, made = len(experience["experiments"]), experience["experiment_count"]
    if experience["recorded_experiment_count"] != recorded:
        yield f"experience.recorded_experiment_count: not {recorded}, the number of experiments listed"
    if made is not None and made < recorded:
        yield f"experience.experiment_count: {made} is less than the {recorded} listed"
    for place, value in _leaves(document):
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{place}: {value} is not a number that JSON has"


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    match value:
        case dict():
            members: Any = value.items()
        case list():
            members = enumerate(value)
        case _:
            yield place, value
            return
    for name, member in members:
        yield from _leaves(member, f"{place}.{name}" if place else str(name))
