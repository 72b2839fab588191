"""Render one template with one view.

A template sees a single variable, `k`: a frozen dataclass whose fields are printable as they stand. Everything that
needs deciding was decided in Python before; a name the view lacks is an error, and so is printing anything but text
and integers (floats and None have no one spelling in emitted code: the view spells them).
"""

from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined

from kgen.resources import templates_dir


def render(template: str, view: object) -> str:
    """Return the text of a template (named relative to `templates/`) filled from `view`."""
    return environment().get_template(template).render(k=view)


@cache
def environment() -> Environment:
    """Return the environment over `templates/`; without Jinja's globals, so that `k` is all there is."""
    found = Environment(
        loader=FileSystemLoader(templates_dir()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
        finalize=_printable,
    )
    found.globals.clear()
    return found


def template_names() -> tuple[str, ...]:
    """Return the name of every template, sorted."""
    return tuple(sorted(name for name in environment().list_templates() if name.endswith(".j2")))


def template_source(name: str) -> str:
    """Return the text of a template as it is on disk."""
    return (templates_dir() / name).read_text(encoding="utf-8")


def _printable(value: Any) -> Any:
    """Pass on what a template may print; an undefined value passes too, for Jinja then says which name is missing."""
    if isinstance(value, str | int | Undefined):
        return value
    raise TypeError(f"a template prints text and integers, not {type(value).__name__}: {value!r}")
