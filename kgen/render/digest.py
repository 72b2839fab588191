"""Digests of templates: what a package records to say which texts it was made from."""

import hashlib
from functools import cache

from jinja2.meta import find_referenced_templates

from kgen.render.environment import environment, template_source


@cache  # as the environment, which reads each template once
def template_digests(*names: str) -> tuple[tuple[str, str], ...]:
    """Return (name, SHA-256) of the templates and of all they import or include, sorted by name."""
    found: dict[str, str] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found[name], others = _digest(name)
            todo += others
    return tuple(sorted(found.items()))


@cache
def _digest(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the SHA-256 of one template, and the templates that it names."""
    source = template_source(name)
    others = find_referenced_templates(environment().parse(source))
    return hashlib.sha256(source.encode()).hexdigest(), tuple(other for other in others if other)
