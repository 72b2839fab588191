"""Which fields of a view its template reads: a field nobody reads is a fact nobody needed.

Follows the types of the view's fields through loops, macros and imports. A template and its view are a pair; the test
suite runs this over every pair, so that neither outgrows the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from jinja2 import nodes

from kgen.render.environment import environment, template_source

Scope = Mapping[str, Any]  # the type of each name, or a `_Macro`, or the macros of an imported file


@dataclass(frozen=True, slots=True)
class _Macro:
    """A macro and the names it sees beside its arguments."""

    node: nodes.Macro
    scope: dict[str, Any]


@dataclass(slots=True)
class _Reader:
    """The walk over one template: what was read, and which (macro, argument types) were already followed."""

    read: set[tuple[type, str]] = field(default_factory=set)
    followed: set[tuple[int, tuple[Any, ...]]] = field(default_factory=set)

    def visit(self, node: nodes.Node, scope: dict[str, Any]) -> None:
        """Record the fields that a node and all below it read."""
        match node:
            case nodes.Getattr() | nodes.Name():
                self.type_of(node, scope)
            case nodes.For():
                element = element_type(self.type_of(node.iter, scope))
                inner = scope | bindings(node.target, element) | {"loop": None}
                self.visit_all(node.body, inner)
            case nodes.Macro():
                pass  # followed where it is called, with the types it is called with
            case nodes.Call():
                self.call(node, scope)
            case nodes.Include():
                self.visit(parse(constant(node.template)), dict(scope))
            case nodes.Import() | nodes.FromImport():
                pass  # bound by `visit_all`
            case _:
                self.visit_all(list(node.iter_child_nodes()), scope)

    def visit_all(self, body: list[nodes.Node], scope: dict[str, Any]) -> None:
        """Record what a sequence of nodes reads; macros and imports bind names for all of it."""
        scope |= macros_of(body, scope)
        for node in body:
            self.visit(node, scope)

    def call(self, node: nodes.Call, scope: dict[str, Any]) -> None:
        """Follow a macro with the types of its arguments."""
        macro = self.type_of(node.node, scope)
        arguments = [self.type_of(argument, scope) for argument in node.args]
        named = {keyword.key: self.type_of(keyword.value, scope) for keyword in node.kwargs}
        if not isinstance(macro, _Macro):
            return
        names = [argument.name for argument in macro.node.args]
        types = dict.fromkeys(names) | dict(zip(names, arguments, strict=False)) | named
        if (key := (id(macro.node), tuple(types.values()))) not in self.followed:
            self.followed.add(key)
            self.visit_all(macro.node.body, macro.scope | types)

    def type_of(self, node: nodes.Node, scope: Scope) -> Any:
        """Return the type of an expression, recording each field on the way; None when it has no fields."""
        match node:
            case nodes.Name():
                return scope.get(node.name)
            case nodes.Getattr():
                owner = self.type_of(node.node, scope)
                if isinstance(owner, dict):
                    return owner.get(node.attr)
                if owner is None or not is_dataclass(owner):
                    return None
                owner_type = owner if isinstance(owner, type) else type(owner)
                self.read.add((owner_type, node.attr))
                return plain_type(get_type_hints(owner_type).get(node.attr))
            case _:
                self.visit(node, dict(scope))
                return None


def unread_fields(template: str, view: type) -> tuple[str, ...]:
    """Return `Type.field` for every field of a view, and of the views inside it, that the template does not read."""
    reader = _Reader()
    reader.visit(parse(template), {"k": view})
    wanted = {(owner, part.name) for owner in view_types(view) for part in fields(owner)}
    return tuple(sorted(f"{owner.__name__}.{name}" for owner, name in wanted - reader.read))


def view_types(view: type) -> tuple[type, ...]:
    """Return a view type and every dataclass reachable through its fields."""
    found: dict[type, None] = {}
    todo = [view]
    while todo:
        owner = todo.pop()
        if owner in found:
            continue
        found[owner] = None
        for hint in get_type_hints(owner).values():
            todo += [part for part in parts_of(hint) if isinstance(part, type) and is_dataclass(part)]
    return tuple(found)


def parts_of(hint: Any) -> tuple[Any, ...]:
    """Return a type hint and all the hints inside it."""
    return (hint, *(part for argument in get_args(hint) for part in parts_of(argument)))


def plain_type(hint: Any) -> Any:
    """Return the type behind `X | None`, and any other hint as it is."""
    if get_origin(hint) in (Union, UnionType):
        return next((part for part in get_args(hint) if is_dataclass(part)), None)
    return hint


def element_type(hint: Any) -> Any:
    """Return the element type of `tuple[X, ...]`."""
    return plain_type(get_args(hint)[0]) if get_origin(hint) is tuple and get_args(hint) else None


def bindings(target: nodes.Node, element: Any) -> dict[str, Any]:
    """Return the types a loop gives to its target: one name, or the parts of a tuple."""
    if isinstance(target, nodes.Name):
        return {target.name: element}
    types = get_args(element) if get_origin(element) is tuple else ()
    names = [item.name for item in target.find_all(nodes.Name)]
    return dict.fromkeys(names) | dict(zip(names, types, strict=False))


def macros_of(body: list[nodes.Node], scope: dict[str, Any]) -> dict[str, Any]:
    """Return the names that the macros and imports among some nodes bind."""
    found: dict[str, Any] = {}
    for node in body:
        match node:
            case nodes.Macro():
                found[node.name] = _Macro(node, scope)
            case nodes.Import():
                found[node.target] = macros_in_file(node, scope)
            case nodes.FromImport():
                inside = macros_in_file(node, scope)
                pairs = [(name, name) if isinstance(name, str) else name for name in node.names]
                found |= {alias: inside.get(name) for name, alias in pairs}
    return found


def macros_in_file(node: nodes.Import | nodes.FromImport, scope: dict[str, Any]) -> dict[str, Any]:
    """Return the macros of an imported file; they see `k` only when imported with context."""
    inner: dict[str, Any] = {"k": scope.get("k")} if node.with_context else {}
    inner |= macros_of(parse(constant(node.template)).body, inner)
    return inner


def constant(node: nodes.Expr) -> str:
    """Return a literal text."""
    return str(node.as_const())


@cache
def parse(template: str) -> nodes.Template:
    """Return the syntax tree of a template."""
    return environment().parse(template_source(template), name=template)
