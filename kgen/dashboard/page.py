"""The page: one file that needs no network: its policy allows its own styles and script, nothing else."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from kgen.dashboard.collect import Collection
from kgen.dashboard.data import block, page_json
from kgen.exchange import write_whole
from kgen.render import render
from kgen.render.environment import template_source

TEMPLATE = "dashboard/page.html.j2"
STYLES = ("tokens.css", "page.css", "filters.css", "table.css", "chart.css", "section.css", "print.css")
# In this order: each sees those before it. `main.js` starts the page.
SCRIPTS = (
    *("start.js", "dom.js", "format.js", "state.js", "theme.js", "filters.js", "lazy.js", "table.js", "matrix.js"),
    *("scales.js", "chart.js", "changes.js", "plan.js", "history.js", "section.js", "main.js"),
)


@dataclass(frozen=True, slots=True)
class PageView:
    """What the template prints."""

    style: str
    style_hash: str  # of the policy
    script: str
    script_hash: str
    data: str


def page_html(collection: Collection) -> str:
    """Return the page."""
    style, script = _joined(STYLES), _joined(SCRIPTS)
    return render(TEMPLATE, PageView(style, _hash(style), script, _hash(script), block(page_json(collection))))


def write_page(file: Path, text: str) -> int:
    """Put the page in place of what is there, whole or not at all, and return its size in bytes."""
    content = text.encode()
    write_whole(file, content)
    return len(content)


def _joined(names: tuple[str, ...]) -> str:
    return "\n" + "\n".join(template_source(f"dashboard/{name}") for name in names)


def _hash(text: str) -> str:
    """Return the source expression of a Content-Security-Policy for an inline element with exactly this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
