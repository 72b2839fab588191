"""The class of a kernel.py whose reference is an nn.Module: the same constructor, the kernel in `forward`.

The constructor stays as the user wrote it, so that parameters are drawn in the same order; what it needs of its class
(bases, attributes, methods) and of its file (imports, constants, functions, classes) comes along. Arguments of
`forward` that have a number as their default are constants of the kernel: they are taken, and have to have that value.
"""

import ast
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

from kgen.backends.source.imports import bound_by_import
from kgen.backends.source.lines import bracketed
from kgen.backends.source.operator import called
from kgen.errors.backend import ModuleNameError
from kgen.ir.graph import InputKind
from kgen.ir.program import Program
from kgen.spec.model import Reference, Spec
from kgen.spec.reference_source import cast_source


@dataclass(frozen=True, slots=True)
class ModuleText:
    """Import statements for the head of the file, and the lines of the class with what its constructor needs."""

    imports: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def module_text(spec: Spec, program: Program, names: dict[str, str]) -> ModuleText:
    """Return the text of the class, or nothing when the reference is a function."""
    reference = spec.reference
    if not reference.is_module or not reference.source:
        return ModuleText()
    reference = replace(reference, source=cast_source(reference))
    tree = ast.parse(reference.source)
    cls = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == reference.entry)
    members = _members(cls)
    needed = _needed([s for s in tree.body if s is not cls], [*cls.bases, *cls.keywords, *members])
    imports = tuple(ast.unparse(n) for n in needed if isinstance(n, ast.Import | ast.ImportFrom))
    kept = [n for n in needed if not isinstance(n, ast.Import | ast.ImportFrom)]
    lines = (
        *_statements(reference, kept),
        *_class(reference, cls, members, called(spec.operator, program), program, names),
        *(("", "", f"Model = {cls.name}") if cls.name != "Model" else ()),
    )
    return ModuleText(imports, lines)


def _statements(reference: Reference, statements: list[ast.stmt]) -> list[str]:
    """Return the statements of the file as they stand there, with blank lines around functions and classes."""
    lines, after = ["", ""], True
    for node in statements:
        is_block = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        lines += ["", ""] if is_block and not after else []
        lines += [*_source(reference, node), *(["", ""] if is_block else [])]
        after = is_block
    return lines if after else [*lines, "", ""]


def require_free_names(module: ModuleText, file: str, own: Iterable[str]) -> None:
    """Raise `ModuleNameError` when the module's text defines a name that kernel.py defines otherwise."""
    if not module.lines:  # the reference is a function, and none of its text is in kernel.py
        return
    made = _defined("\n".join((*module.imports, *module.lines)))
    taken = _defined("\n".join(own), only=frozenset(made))
    for name, texts in made.items():
        if name in taken and taken[name] != texts:
            raise ModuleNameError(name=name, file=file)


def _defined(source: str, only: Container[str] | None = None) -> dict[str, set[str]]:
    """Return the names that the statements of a text bind, each with what binds it; `only` limits the names."""
    found: dict[str, set[str]] = {}
    for statement in ast.parse(source).body:
        bound = bound_by_import(statement)
        names = [name for name in bound or _names_of(statement) if only is None or name in only]
        text = ast.unparse(statement) if names and not bound else ""
        for name in names:
            found.setdefault(name, set()).add(bound[name] if bound else text)
    return found


def _class(
    reference: Reference,
    cls: ast.ClassDef,
    members: list[ast.stmt],
    around: tuple[str, str],
    program: Program,
    names: dict[str, str],
) -> list[str]:
    """Return the lines of the class, indented as the user indents; `around` surrounds the call's arguments."""
    first = reference.source.splitlines()[cls.body[0].lineno - 1]
    pad = first[: len(first) - len(first.lstrip())] or "    "
    users = [names[a.name] for a in program.arguments if a.kind is InputKind.USER]
    call = [names[a.name] if a.kind is InputKind.USER else f"self.{a.path}.detach()" for a in program.arguments]
    heads = ", ".join(ast.unparse(n) for n in (*cls.bases, *cls.keywords))
    lines = [
        f"class {cls.name}({heads}):",
        f'{pad}"""The reference\'s module: the same constructor and parameters, the kernel in place of its forward."""',
        "",
    ]
    for member in members:
        lines += [*([""] if isinstance(member, ast.FunctionDef) and lines[-1] else []), *_source(reference, member)]
        lines += [""] if isinstance(member, ast.FunctionDef) else []
    lines += [*([""] if lines[-1] else []), *(f"{pad}{line}" for line in _forward(cls, users, call, around, pad))]
    return lines


def _forward(cls: ast.ClassDef, users: list[str], call: list[str], around: tuple[str, str], pad: str) -> Iterator[str]:
    """Yield the lines of the method, one level deep; `around` stands before and after the arguments of its call."""
    before, after = around
    constants = _constants(cls, len(users), {*users, "self", "kernel", "operator", "ValueError"})
    taken = ["self", *users, *(f"{name}={value!r}" for name, value in constants)]
    yield from bracketed("def forward(", taken, "):", len(pad))
    for name, value in constants:
        differs = f"{name} is not {value!r}" if value is None or isinstance(value, bool) else f"{name} != {value!r}"
        message = f'f"the kernel was generated for {name} = {value!r}, not {{{name}!r}}"'
        yield f"{pad}if {differs}:"
        yield from (f"{pad * 2}{line}" for line in bracketed("raise ValueError(", [message], ")", 3 * len(pad)))
    yield from (f"{pad}return {before}", *(f"{pad * 2}{argument}," for argument in call), f"{pad}{after}")


def _constants(cls: ast.ClassDef, count: int, taken: Container[str]) -> list[tuple[str, float | None]]:
    """Return the arguments of `forward` behind its first `count` that have a number, or None, as their default."""
    forward = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "forward"), None)
    if forward is None:
        return []
    names = [a.arg for a in (*forward.args.posonlyargs, *forward.args.args)][1:]
    defaults = forward.args.defaults[max(len(forward.args.defaults) - max(len(names) - count, 0), 0) :]
    found: list[tuple[str, float | None]] = []
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        try:
            value = ast.literal_eval(default)
        except ValueError:  # it is computed: the caller leaves it away
            break
        if name in taken or not isinstance(value, float | int | None):
            break
        found.append((name, value))
    return found


def _members(cls: ast.ClassDef) -> list[ast.stmt]:
    """Return the members that the constructor needs, directly or not, in order; `forward` is the kernel's."""
    members = [s for s in cls.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    members = [s for s in members if "forward" not in _names_of(s)]
    return _needed(members, [s for s in members if "__init__" in _names_of(s)], attributes=True)


def _needed(body: list[ast.stmt], roots: Iterable[ast.AST], *, attributes: bool = False) -> list[ast.stmt]:
    """Return the statements of `body` that are roots or that roots use by name, or by attribute, directly or not."""
    stack = list(roots)
    found = {id(root) for root in stack}
    while stack:
        used = _used(stack.pop(), attributes)
        for statement in body:
            if id(statement) not in found and not used.isdisjoint(_names_of(statement)):
                found.add(id(statement))
                stack.append(statement)
    return [s for s in body if id(s) in found]


def _used(root: ast.AST, attributes: bool) -> set[str]:
    used = {n.id for n in ast.walk(root) if isinstance(n, ast.Name)}
    return used | {n.attr for n in ast.walk(root) if isinstance(n, ast.Attribute)} if attributes else used


def _names_of(statement: ast.stmt) -> tuple[str, ...]:
    """Return the names that a statement binds where it stands."""
    match statement:
        case ast.Import() | ast.ImportFrom():
            return tuple(bound_by_import(statement))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case _:
            inner = [n for n in ast.walk(statement) if isinstance(n, ast.stmt) and n is not statement]
            names = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            return (*names, *(name for s in inner for name in _names_of(s)))


def _source(reference: Reference, node: ast.stmt) -> list[str]:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return [line.rstrip() for line in reference.source.splitlines()[first - 1 : node.end_lineno]]
