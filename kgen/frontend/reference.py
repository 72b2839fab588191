"""The text of a package's `reference.py`: the user's own source where it stands alone, else printed from the graph."""

import ast
import sys
from dataclasses import dataclass
from functools import lru_cache

from kgen.frontend.print_graph import print_graph
from kgen.ir.graph import OpGraph
from kgen.spec.model import Reference, ReferenceKind, Spec


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A Python module that defines `entry`; a printed one takes parameters and constants as further arguments."""

    text: str
    entry: str
    is_module: bool
    verbatim: bool


def reference_text(spec: Spec, graph: OpGraph) -> ReferenceText:
    """Return the module that defines the reference and needs nothing but torch and the standard library."""
    reference = spec.reference
    if stands_alone(reference):
        lines = [line.rstrip() for line in reference.source.strip("\n").splitlines()]
        return ReferenceText("\n".join(lines) + "\n", reference.entry, reference.is_module, True)
    return ReferenceText(print_graph(graph, reference.entry), reference.entry, False, False)


def stands_alone(reference: Reference) -> bool:
    """Whether the reference's own text runs where only torch is installed."""
    return reference.kind in (ReferenceKind.INLINE, ReferenceKind.FILE) and _needs_only_torch(reference.source)


@lru_cache(maxsize=16)  # asked for by the trace and by the package of every device
def _needs_only_torch(source: str) -> bool:
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        if any(m.split(".")[0] not in ("torch", *sys.stdlib_module_names) for m in modules):
            return False
    return True


def init_kwargs(reference: Reference) -> dict[str, object] | None:
    """Return the constructor arguments of an nn.Module reference by name, or None for a function."""
    if not reference.is_module:
        return None
    names = _init_names(reference)
    positional = {names[i] if i < len(names) else f"arg{i}": v for i, v in enumerate(reference.init_args)}
    return {**positional, **dict(reference.init_kwargs)}


def _init_names(reference: Reference) -> tuple[str, ...]:
    for statement in ast.parse(reference.source).body:
        if isinstance(statement, ast.ClassDef) and statement.name == reference.entry:
            for method in statement.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    return tuple(a.arg for a in (*method.args.posonlyargs, *method.args.args))[1:]
    return ()
