"""A parsed YAML document to a checked `SpecDocument`: pydantic's findings, reworded and placed in the text."""

from difflib import get_close_matches
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kgen.errors.base import KgenError
from kgen.errors.spec import MissingKeyError, UnknownKeyError, WrongValueError
from kgen.spec.document import SpecDocument
from kgen.spec.yaml_text import Document, Path


def validate(document: Document) -> SpecDocument:
    """Return the checked document; raise the error that stands first in the text."""
    if not isinstance(document.data, dict):
        found = "an empty file" if document.data is None else repr(document.data)
        raise WrongValueError(
            where=document.where(()), place="the spec", value=found, expected="a mapping of keys to values"
        )
    try:
        return SpecDocument.model_validate(document.data)
    except ValidationError as error:
        errors = [_reworded(detail, document) for detail in error.errors(include_url=False)]
    raise min(errors, key=_rank)


def _rank(error: KgenError) -> tuple[bool, int, int]:
    """Order errors by their place; a missing key comes last, for a misspelt one explains it."""
    where = error.where
    return (isinstance(error, MissingKeyError), where.line if where else 0, where.column if where else 0)


def place_name(path: Path) -> str:
    """Return a path of keys as it is shown in messages, e.g. `inputs.x.shape[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the spec"


def _reworded(detail: ErrorDetails, document: Document) -> KgenError:
    missing = detail["type"] == "missing"
    path, models = _path_in_text(tuple(detail["loc"][:-1] if missing else detail["loc"]), document)
    match detail["type"]:
        case "extra_forbidden":
            key = str(path[-1])
            return UnknownKeyError(
                where=document.where(path, key=True),
                key=key,
                place=place_name(path[:-1]),
                suggestion=suggest(key, _known_keys(models), "key"),
            )
        case "missing":
            key = str(detail["loc"][-1])
            expected = models.model_fields[key].description
            return MissingKeyError(where=document.where(path), place=place_name(path), key=key, expected=expected)
    is_key = detail["loc"][-1] == "[key]"
    return WrongValueError(
        where=document.where(path, key=is_key),
        place=place_name(path),
        value=repr(path[-1] if is_key else detail["input"]),
        expected=_expected(detail),
    )


def _path_in_text(loc: Path, document: Document) -> tuple[Path, type[BaseModel]]:
    """Return the part of pydantic's path that exists in the text, and the innermost model it passes through."""
    path: Path = ()
    model: type[BaseModel] = SpecDocument
    for part in loc:
        if (*path, part) in document.values:
            path = (*path, part)
        model = _model_below(model, part) or model
    return path, model


def _model_below(model: type[BaseModel], part: str | int) -> type[BaseModel] | None:
    field = model.model_fields.get(str(part))
    return next(iter(_models_in(field.annotation)), None) if field else None


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _known_keys(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


def suggest(name: str, known: tuple[str, ...], kind: str) -> str:
    """Return the advice for an unknown name: the nearest known one first, then all of them."""
    near = get_close_matches(name, known, 1, 0.5)
    listed = f"known {kind}s: {', '.join(known)}" if known else f"there are no {kind}s to choose from"
    return f"did you mean {near[0]!r}? {listed}" if near else listed


def _expected(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "kgen_value":
            return detail["msg"]
        case "string_too_short":
            return "some text"
        case "too_short":
            return f"at least {detail['ctx']['min_length']} entries"
        case "too_long":
            return f"at most {detail['ctx']['max_length']} entries"
        case "greater_than_equal":
            return f"a number of at least {detail['ctx']['ge']:g}"
        case "less_than_equal":
            return f"a number of at most {detail['ctx']['le']}"
        case "dict_type" | "model_type":
            return "a mapping of keys to values"
        case "list_type":
            return "a list, e.g. [4096, 4096]"
    text = detail["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    article = "an" if text[:1] in "aeiou" else "a"
    return f"{article} {text}" if "'" not in text and not text.startswith(("greater", "less", "a ")) else text
