"""Digests of templates: what a package records to say which texts it was made from."""

import hashlib

from jinja2.meta import find_referenced_templates

from kgen.render.environment import environment, template_source


def template_digests(*names: str) -> tuple[tuple[str, str], ...]:
    """Return (name, SHA-256) of the templates and of all they import or include, sorted by name."""
    found: dict[str, str] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        source = template_source(name)
        found[name] = hashlib.sha256(source.encode()).hexdigest()
        todo += [other for other in find_referenced_templates(environment().parse(source)) if other]
    return tuple(sorted(found.items()))
