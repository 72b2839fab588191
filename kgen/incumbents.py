"""The incumbent that a command line names: `file.py::name`, or `package.module:name`, as text that is never executed.

Both become the text of a file, so that the package keeps a copy of what it is compared with.
"""

import ast
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from kgen.errors.base import Where
from kgen.errors.cli import IncumbentNameError
from kgen.spec.model import Reference, ReferenceKind
from kgen.spec.reference_source import SourceText, find_entry


def incumbent_of(text: str) -> Reference:
    """Return the function or class that the text names; raises `IncumbentNameError` and those of the spec's loader."""
    place, _, entry = text.rpartition("::") if "::" in text else text.rpartition(":")
    if not place or not entry.isidentifier():
        raise IncumbentNameError(text=text, reason="it is neither file.py::name nor package.module:name")
    path = Path(place) if "::" in text else _module_file(place, text)
    try:
        source = path.read_bytes().decode("utf-8")  # as it stands: the copy is byte for byte the same
    except OSError as error:
        raise IncumbentNameError(text=text, reason=error.strerror or error) from None
    except UnicodeDecodeError:
        raise IncumbentNameError(text=text, reason="it is not UTF-8 text") from None
    definition = find_entry(SourceText(source, path.name), entry, Where(path.name))
    is_module = isinstance(definition, ast.ClassDef)
    return Reference(ReferenceKind.FILE, definition.name, path.name, source, is_module=is_module, path=path)


def _module_file(name: str, text: str) -> Path:
    """Return the file of a module without importing it or its parents."""
    search: list[str] | None = None
    origin = None
    parts = name.split(".")
    for depth, part in enumerate(parts, 1):
        # by its last name: under the whole one a folder without __init__.py asks for its parent's module
        found = PathFinder.find_spec(part, search or ([str(Path.cwd()), *sys.path] if depth == 1 else []))
        if found is None:
            raise IncumbentNameError(text=text, reason=f"there is no module {'.'.join(parts[:depth])}")
        search, origin = list(found.submodule_search_locations or []), found.origin
    if not origin or not origin.endswith(".py"):
        raise IncumbentNameError(text=text, reason=f"{name} is no Python file")
    return Path(origin)
