"""`kgen diff` for a terminal: a table of what changed, under each package why, and the counts at the end."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.diff.changes import Change, Level
from kgen.diff.compare import Comparison
from kgen.diff.explain import PackageDiff, Standing, VariantDiff
from kgen.diff.reasons import Reason, Turn

_SHOWN_FED = 4
_SHOWN_SHARE = 0.05  # of a gap, that a figure must move for its line
_SHOWN_DIGEST = 12
# In the table of a package whose plan is another one, of a variant whose choice is the same.
_FIGURES = frozenset({Level.RESOURCE, Level.PREDICTED})


def comparison_view(found: Comparison, *, every: bool) -> RenderableType:
    """Return every package whose plan is another one, with `every` those too whose figures differ; then the counts."""
    parts: list[RenderableType] = [Text(f"A: {found.a}\nB: {found.b}")]
    alone: dict[str, list[str]] = {}
    for package in found.packages:
        if None in (package.pair.a, package.pair.b):
            alone.setdefault(package.note, []).append(package.pair.name)
        elif not package.is_equal and (every or package.is_turned or package.note or _is_news(package)):
            parts += _package(package, every)
    parts += [Text(f"\n{note}: {', '.join(names)}", "yellow") for note, names in alone.items()]
    return Group(*parts, _summary(found))


def _is_news(package: PackageDiff) -> bool:
    """Whether more than predicted figures differ."""
    changes = (*package.changes, *(c for v in package.variants for c in v.changes))
    return any(change.level not in _FIGURES for change in changes)


def _package(package: PackageDiff, every: bool) -> Iterator[RenderableType]:
    sides = [p.device for p in (package.pair.a, package.pair.b) if p is not None]
    yield Text(f"\n{package.pair.name}: {' -> '.join(dict.fromkeys(sides))}", "bold")
    if package.note:
        yield Text(f"  {package.note}", "yellow")
    for side, standing in zip("AB", package.standings, strict=False):
        if standing is not Standing.SAME:
            yield Text(f"  {side}: {standing}", "yellow")
    if package.changes:
        yield _table("", package.changes)
    yield from _why(package.reason, package.turn)
    for variant in package.variants:
        if every or any(change.level not in _FIGURES for change in variant.changes):
            yield _table(_title(variant), variant.changes)
            yield from _why(variant.reason, variant.turn)


def _title(variant: VariantDiff) -> str:
    names = dict.fromkeys(name for name in (variant.a, variant.b) if name is not None)
    return " -> ".join(names)


def _table(title: str, changes: Sequence[Change]) -> Table:
    table = Table("what", "A", "B", title=title or None, title_justify="left", title_style="")
    for change in changes:
        table.add_row(change.what, *(Text(_shown(v)) for v in (change.a, change.b)))
    return table


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, list):
        return "\n".join(value) or "-"
    text = ", ".join(f"{k}: {' '.join(v)}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    return f"{text[:_SHOWN_DIGEST]}..." if len(text) == 64 and " " not in text else text


def _why(reason: Reason | None, turn: Turn | None) -> Iterator[RenderableType]:
    if reason is None:
        return
    yield Text.assemble((f"  {reason.cause}: ", "cyan"), reason.text)
    if reason.fed_by and reason.judged is not None:
        now = reason.judged.gap_us
        gaps = [
            f"{'not legal' if fed.gap_us is None else f'{fed.gap_us:+.2f} us'} with A's {fed.figure.label}"
            for fed in reason.fed_by
            if fed.gap_us is None or abs(fed.gap_us - now) >= _SHOWN_SHARE * abs(now)
        ]
        yield Text(f"    that gap on B would be {', '.join(gaps[:_SHOWN_FED]) or 'as large with any one figure of A'}")
    if turn is not None:
        yield Text(f"    on A {turn}")


def _summary(found: Comparison) -> Text:
    counts, causes, turned = found.counts(), found.causes(), found.turned_by()
    total = len(found.packages)
    kinds = (
        f"{counts['equal']} equal",
        f"{counts['figures']} with the same plan and other figures or text",
        f"{counts['turned']} with another plan",
        f"{counts['alone']} on one side alone",
    )
    lines = [f"\n{total} package{'s' if total != 1 else ''}: {', '.join(kinds)}"]
    if causes:
        lines.append(f"reasons by cause: {', '.join(f'{cause} {count}' for cause, count in causes.items())}")
    if turned:
        named = (f"{name.partition('.')[2]} {count}" for name, count in turned.items())
        lines.append(f"choices that a figure of B's device turns on A's, alone or with others: {', '.join(named)}")
    return Text("\n".join(lines), "" if found.is_equal else "bold")
