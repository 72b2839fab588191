"""A page: a template and the view that fills it. What a back-end hands over as its kernel.py."""

from dataclasses import dataclass

from kgen.render.environment import render


@dataclass(frozen=True, slots=True)
class Page:
    """A template's name relative to `templates/`, and its view."""

    template: str
    view: object

    def render(self) -> str:
        """Return the text."""
        return render(self.template, self.view)
