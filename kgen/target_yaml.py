"""A YAML file of `targets/` as nodes, each with its place, for errors that say where."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from kgen.errors.base import Where
from kgen.errors.target import TargetFieldError, TargetSyntaxError
from kgen.resources import resource_root


class YamlFile:
    """A YAML file as composed nodes: nothing is constructed, so a tag can run nothing, and every node has its place."""

    def __init__(self, path: Path) -> None:
        inside = path.is_relative_to(resource_root())
        self.name = path.relative_to(resource_root()).as_posix() if inside else path.name
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        try:
            self.root: Node = YAML(typ="safe", pure=True).compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark
            where = self.where(mark) if mark else Where(self.name)
            raise TargetSyntaxError(where=where, reason=error.problem or error.context or "unreadable") from None
        except ReaderError as error:  # which has no mark
            raise TargetSyntaxError(where=Where(self.name), reason=error.reason) from None

    def fields(
        self, node: Node, required: tuple[str, ...] = (), optional: tuple[str, ...] | None = None
    ) -> dict[str, Node]:
        """Return a mapping's fields; names are checked where `required` or `optional` name them."""
        if not isinstance(node, MappingNode):
            raise self.error(node, "this value", "not a mapping", "write `name: value` lines")
        found: dict[str, Node] = {}
        known = (*required, *(optional or ()))
        for key, value in node.value:
            name = self.text(key)
            if known and name not in known:
                close = get_close_matches(name, known, n=1, cutoff=0)
                raise self.error(key, name, "unknown field", f"nearest known: {close[0]}")
            if name in found:
                raise self.error(key, name, "given twice", "remove one")
            found[name] = value
        for name in required:
            if name not in found:
                raise self.error(node, name, "missing", f"required here: {', '.join(required)}")
        return found

    def items(self, node: Node) -> Iterator[Node]:
        """Iterate over a sequence."""
        if not isinstance(node, SequenceNode):
            raise self.error(node, "this value", "not a list", "write `[a, b]` or `- a` lines")
        yield from node.value

    def text(self, node: Node) -> str:
        """Return a scalar as text."""
        if not isinstance(node, ScalarNode):
            raise self.error(node, "this value", "not a text", "write one word or a quoted text")
        return str(node.value)

    def texts(self, node: Node) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(self.text(item) for item in self.items(node))

    def number(self, node: Node) -> int | float:
        """Return a scalar as a number."""
        text = self.text(node)
        try:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise self.error(node, text, "not a number", "write digits, e.g. 132 or 4.8") from None

    def where(self, mark: StreamMark) -> Where:
        """Return a place in the file."""
        text = self.lines[mark.line] if mark.line < len(self.lines) else ""
        return Where(self.name, mark.line + 1, mark.column + 1, text)

    def error(self, node: Node, field: str, problem: str, valid: str) -> TargetFieldError:
        """Return the error of a node: what is wrong with which field, and what would do."""
        return TargetFieldError(where=self.where(node.start_mark), field=field, problem=problem, valid=valid)
