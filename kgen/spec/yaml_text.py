"""YAML text to plain values and the place of each: the first step of loading a spec.

ruamel's round-trip loader constructs no objects and keeps line and column; tags are refused here.
"""

import datetime
from dataclasses import dataclass

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from kgen.errors.base import Where
from kgen.errors.spec import UnsafeTagError, YamlSyntaxError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values of a YAML text, with the 0-based place of each key and value by its path."""

    file: str
    lines: tuple[str, ...]
    data: object
    values: dict[Path, tuple[int, int]]
    keys: dict[Path, tuple[int, int]]
    literal: frozenset[Path]

    def where(self, path: Path, *, key: bool = False) -> Where:
        """Return the place of the value at a path (or of its key), or of the nearest enclosing value."""
        places = self.keys if key else self.values
        while path and path not in places:
            path, places = path[:-1], self.values
        return self.place(*places.get(path, (0, 0)))

    def place(self, line: int, column: int) -> Where:
        """Return a `Where` from a 0-based line and column."""
        text = self.lines[line] if line < len(self.lines) else ""
        return Where(self.file, line + 1, column + 1, text)


def parse_yaml(text: str, file: str) -> Document:
    """Parse a YAML text; raise `YamlSyntaxError` or `UnsafeTagError` with the place."""
    document = Document(file, tuple(text.splitlines()), None, {}, {}, frozenset())
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = document.place(mark.line, mark.column) if mark else Where(file)
        raise YamlSyntaxError(where=where, problem=_one_line(error.problem or error.context or "")) from None
    except YAMLError as error:
        raise YamlSyntaxError(where=Where(file), problem=_one_line(str(error))) from None
    reader = _Reader(document)
    data = reader.plain(tree, (), ())
    return Document(file, document.lines, data, document.values, document.keys, frozenset(reader.literal))


def _one_line(problem: str) -> str:
    return " ".join(problem.split())


class _Reader:
    """Turns ruamel's nodes into plain values, filling the document's tables of places."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.literal: set[Path] = set()

    def plain(self, node: object, path: Path, parents: tuple[int, ...]) -> object:
        if tag := _foreign_tag(node):
            raise UnsafeTagError(where=self.document.where(path), tag=tag)
        if id(node) in parents:
            where = self.document.where(path)
            raise YamlSyntaxError(where=where, problem="an alias that contains itself")
        match node:
            case CommentedMap():
                return {
                    key: self.plain(node[name], self.enter(path, key, node.lc.value(name), node.lc.key(name)), inner)
                    for name, inner in ((n, (*parents, id(node))) for n in node)
                    for key in (self.key(name, path, node),)
                }
            case CommentedSeq():
                inner = (*parents, id(node))
                return [
                    self.plain(item, self.enter(path, i, node.lc.item(i), node.lc.item(i)), inner)
                    for i, item in enumerate(node)
                ]
            case LiteralScalarString():
                self.literal.add(path)
                return str(node)
            case bool() | None:
                return node
            case int():
                return int(node)
            case float():
                return float(node)
            case datetime.date():
                return node.isoformat()
        return str(node)

    def key(self, name: object, path: Path, node: CommentedMap) -> str:
        if not isinstance(name, str):
            where = self.document.place(*node.lc.key(name))
            raise YamlSyntaxError(where=where, problem=f"the key {name!r} is not a string")
        return str(name)

    def enter(self, path: Path, key: str | int, value: tuple[int, int], place: tuple[int, int]) -> Path:
        inner = (*path, key)
        self.document.values[inner] = value
        self.document.keys[inner] = place
        return inner


def _foreign_tag(node: object) -> str:
    if not isinstance(node, CommentedMap | CommentedSeq | TaggedScalar):
        return ""
    tag = node.tag.value if node.tag else None
    return str(tag).replace("tag:yaml.org,2002:", "!!") if tag else ""
