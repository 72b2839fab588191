"""Write axes that a measurement decided into a spec file: the one change that kgen makes to what a user wrote.

Comments and order of the file stay; what was decided by hand is never overwritten, for it was fixed before the search.
"""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from kgen.spec.model import FixedAxis

KEY = "fixed_by_case"


def fixed_block(fixed: Sequence[FixedAxis]) -> str:
    """Return the lines that decide these axes in a spec."""
    return _text({KEY: _by_case(fixed, {})})


def write_fixed(file: Path, fixed: Sequence[FixedAxis]) -> None:
    """Add the axes to a spec file, in place of those that an earlier measurement decided for the same case."""
    document = _yaml().load(file.read_text(encoding="utf-8"))
    document[KEY] = _by_case(fixed, document.get(KEY) or {})
    part = file.with_name(f".{file.name}.part")
    part.write_text(_text(document), encoding="utf-8")
    part.replace(file)


def _by_case(fixed: Sequence[FixedAxis], known: dict[str, Any]) -> CommentedMap:
    cases = CommentedMap(known)
    for axis in fixed:
        assert axis.case is not None
        entry = CommentedMap(value=axis.value, because=axis.because)
        entry.fa.set_flow_style()
        cases[axis.case] = CommentedMap({**cases.get(axis.case, {}), axis.axis: entry})
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
