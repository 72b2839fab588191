"""What a template may contain: names, loops, bare flags, macros. Everything else is a decision and belongs in Python.

Run over every template by the test suite. The rule is an allow-list of syntax nodes, so that a construct nobody
thought of is refused too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import nodes

from kgen.render.environment import environment, template_source

MOST_IFS = 3  # of one template or macro: beyond that, two templates and a shared macro read better
FILTERS = frozenset({"indent", "join"})

_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Getattr,
    nodes.Const,
    nodes.For,
    nodes.Tuple,
    nodes.If,
    nodes.Filter,
    nodes.Keyword,
    nodes.Macro,
    nodes.Call,
    nodes.Import,
    nodes.FromImport,
    nodes.Include,
    nodes.Operand,  # part of a comparison, which is refused itself
    nodes.Pair,  # part of a dict, which is refused itself
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A construct a template may not contain."""

    template: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.template}:{self.line}: {self.problem}"


def lint(template: str) -> tuple[Violation, ...]:
    """Return what the template of that name may not contain."""
    return lint_text(template, template_source(template))


def lint_text(template: str, source: str) -> tuple[Violation, ...]:
    """Return what a template text may not contain, in the order of its lines."""
    tree = environment().parse(source, name=template)
    macros = _macro_roots(tree)
    found = [Violation(template, node.lineno, problem) for node in _walk(tree) if (problem := _problem(node, macros))]
    for owner in (tree, *tree.find_all(nodes.Macro)):
        ifs = [node for node in _walk(owner, into_macros=False) if isinstance(node, nodes.If)]
        if len(ifs) > MOST_IFS:
            found.append(Violation(template, ifs[MOST_IFS].lineno, f"{len(ifs)} ifs: make two templates and a macro"))
    return tuple(sorted(found, key=lambda violation: violation.line))


def _walk(node: nodes.Node, into_macros: bool = True) -> Iterator[nodes.Node]:
    """Yield a node and all below it; a macro is counted on its own unless `into_macros`."""
    yield node
    for child in node.iter_child_nodes():
        if into_macros or not isinstance(child, nodes.Macro):
            yield from _walk(child, into_macros)


def _macro_roots(tree: nodes.Template) -> frozenset[str]:
    """Return the names a call may start with: macros of the file, imported macros, imported macro files."""
    roots = {macro.name for macro in tree.find_all(nodes.Macro)}
    roots |= {item.target for item in tree.find_all(nodes.Import)}
    for item in tree.find_all(nodes.FromImport):
        roots |= {name if isinstance(name, str) else name[1] for name in item.names}
    return frozenset(roots)


def _problem(node: nodes.Node, macros: frozenset[str]) -> str | None:
    """Return why a node may not stand in a template, or None."""
    if not isinstance(node, _ALLOWED):
        return f"{type(node).__name__} is not allowed"
    match node:
        case nodes.If() if not _is_path(node.test):
            return "an if tests one bare name"
        case nodes.For() if node.test or node.recursive or node.else_ or not _is_path(node.iter):
            return "a for walks one bare name"
        case nodes.Filter() if node.name not in FILTERS:
            return f"the filter {node.name} is not allowed"
        case nodes.Call() if node.dyn_args or node.dyn_kwargs or _root(node.node) not in macros:
            return "a call names a macro"
        case nodes.Import() | nodes.FromImport() | nodes.Include() if not isinstance(node.template, nodes.Const):
            return "an import or include names its template"
        case nodes.Tuple() if node.ctx == "load":
            return "a tuple is built in Python"
    return None


def _is_path(node: nodes.Node) -> bool:
    """Whether a node is `name` or `name.field.field`."""
    return _root(node) is not None


def _root(node: nodes.Node) -> str | None:
    """Return the first name of `name.field.field`, or None for anything else."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return node.name if isinstance(node, nodes.Name) else None
