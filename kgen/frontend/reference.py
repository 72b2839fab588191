"""The text of a package's `reference.py`: the user's own source where it stands alone, else printed from the graph."""

import ast
from dataclasses import dataclass

from kgen.frontend.print_graph import print_graph
from kgen.ir.graph import OpGraph
from kgen.spec.model import Reference, Spec
from kgen.spec.reference_source import cast_source, stands_alone


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
        lines = [line.rstrip() for line in cast_source(reference).strip("\n").splitlines()]
        return ReferenceText("\n".join(lines) + "\n", reference.entry, reference.is_module, True)
    return ReferenceText(print_graph(graph, reference.entry), reference.entry, False, False)


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
