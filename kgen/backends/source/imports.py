"""The import block of an emitted file, sorted as ruff's isort rules have it."""

import ast
import sys
from collections.abc import Iterable

from kgen.backends.source.lines import LINE


def import_block(statements: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of the block: standard library, blank line, the rest; each plain imports first, then by name."""
    plain: set[str] = set()
    members: dict[str, set[str]] = {}
    for statement in statements:
        for text in bound_by_import(ast.parse(statement).body[0]).values():
            module, _, member = text.removeprefix("from ").partition(" import ")
            if not text.startswith("from ") or " as " in member:
                plain.add(text)
            else:
                members.setdefault(module, set()).add(member)
    lines: list[tuple[str, bool, tuple[str, ...]]]
    lines = [(text.split()[1], text.startswith("from "), (text,)) for text in plain]
    for module, names in members.items():
        lines.append((module, True, bracketed_import(module, names)))
    lines.sort(key=lambda line: (line[1], line[0].lower(), line[2]))
    standard = [t for module, _, text in lines for t in text if module.split(".")[0] in sys.stdlib_module_names]
    other = [t for module, _, text in lines for t in text if module.split(".")[0] not in sys.stdlib_module_names]
    return (*standard, "", *other)


def bracketed_import(module: str, names: set[str]) -> tuple[str, ...]:
    """Return one `from` import; its members are sorted, constants first, then classes, then the rest."""
    ordered = sorted(names, key=lambda n: (2 - n[0].isupper() - (n.isupper() and len(n) > 1), n.lower(), n))
    line = f"from {module} import {', '.join(ordered)}"
    return (line,) if len(line) <= LINE else (f"from {module} import (", *(f"    {n}," for n in ordered), ")")


def bound_by_import(statement: ast.stmt) -> dict[str, str]:
    """Return the names that an import binds, each with the statement that imports it alone; none for another one."""
    match statement:
        case ast.Import(names=aliases):
            return {(a.asname or a.name).split(".")[0]: ast.unparse(ast.Import([a])) for a in aliases}
        case ast.ImportFrom(module=module, names=aliases, level=level):
            return {a.asname or a.name: ast.unparse(ast.ImportFrom(module, [a], level)) for a in aliases}
        case _:
            return {}
