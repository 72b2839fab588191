"""Write axes that a measurement decided into a spec file: the one change that kgen makes to what a user wrote.

Only the lines of `fixed_by_case` are written; remarks among them stay, and so does every other byte of the file. What
was decided by hand is never overwritten, for it was fixed before the search.
"""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from kgen.exchange import write_whole
from kgen.spec.model import FixedAxis

KEY = "fixed_by_case"


def fixed_block(fixed: Sequence[FixedAxis]) -> str:
    """Return the lines that decide these axes in a spec."""
    return _text({KEY: _decided(CommentedMap(), fixed)})


def write_fixed(file: Path, fixed: Sequence[FixedAxis]) -> None:
    """Add the axes to a spec file, in place of those that an earlier measurement decided for the same case."""
    text = file.read_bytes().decode("utf-8")
    newline = "\r\n" if "\r\n" in text else "\n"
    written = _with_fixed(text.replace("\r\n", "\n"), fixed).replace("\n", newline)
    write_whole(file, written.encode())


def _with_fixed(text: str, fixed: Sequence[FixedAxis]) -> str:
    document = _yaml().load(text)
    if document.fa.flow_style():  # one {...}: it has no lines of its own for a key
        document[KEY] = _decided(document.get(KEY) or CommentedMap(), fixed)
        return _text(document)
    lines = text.splitlines(keepends=True)
    if KEY not in document:
        end = "" if text.endswith("\n") else "\n"
        return f"{text}{end}{fixed_block(fixed)}"
    first, last = _lines_of(document, lines)
    block = _yaml().load("".join(lines[first:last]))
    block[KEY] = _decided(block[KEY] or CommentedMap(), fixed)
    return "".join((*lines[:first], _text(block), *lines[last:]))


def _lines_of(document: CommentedMap, lines: Sequence[str]) -> tuple[int, int]:
    """Return the first line of the key and the one after its last; remarks at the margin belong to what comes next."""
    starts = sorted(document.lc.key(name)[0] for name in document)
    first = document.lc.key(KEY)[0]
    last = next((start for start in starts if start > first), len(lines))
    while last > first + 1 and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
        last -= 1
    return first, last


def _decided(cases: CommentedMap, fixed: Sequence[FixedAxis]) -> CommentedMap:
    """Return the cases with these axes in them, changed in place: remarks hang on what is there."""
    for axis in fixed:
        assert axis.case is not None
        if cases.get(axis.case) is None:
            cases[axis.case] = CommentedMap()
        axes = cases[axis.case]
        if axis.axis not in axes:
            axes[axis.axis] = CommentedMap()
            axes[axis.axis].fa.set_flow_style()
        axes[axis.axis].update(value=axis.value, because=axis.because)
    return cases


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _text(document: Any) -> str:
    stream = StringIO()
    _yaml().dump(document, stream)
    return stream.getvalue()
