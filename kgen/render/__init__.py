"""Templates to text: the only place that knows Jinja. A view goes in, a string comes out."""

from kgen.render.environment import render
from kgen.render.page import Page

__all__ = ["Page", "render"]
