"""`kgen emit` for a terminal: what was written, how a folder differs from what would be written, a stage's result."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from kgen.golden import Outcome


def outcomes_view(outcomes: Sequence[Outcome], orphans: Sequence[Path], *, plans: bool) -> RenderableType:
    """Return a line per package, its plan if asked for, and a last line that counts."""
    parts: list[RenderableType] = []
    for outcome in outcomes:
        parts += _outcome(outcome, plans)
    parts += [Text(f"stale    {folder}: no spec makes it", "red") for folder in orphans]
    return Group(*parts, _summary(outcomes, orphans))


def failures_view(outcomes: Sequence[Outcome]) -> RenderableType | None:
    """Return the errors, or None when there are none."""
    errors = [(o.job.title, o.error) for o in outcomes if o.error is not None]
    if not errors:
        return None
    return Group(*(Text.assemble(("error: ", "bold red"), f"{title}: {e.text()}") for title, e in errors))


def stage_text(stage: str, made: object) -> str:
    """Return what a stage made: its text, by case or file where there are several."""
    if stage == "render" or not isinstance(made, Mapping):
        return (
            "\n".join(f"--- {name}\n{text}" for name, text in made.items()) if isinstance(made, Mapping) else str(made)
        )
    if len(made) == 1:
        return str(next(iter(made.values())))
    return "\n".join(f"case {case}:\n{value}" for case, value in made.items())


def _outcome(outcome: Outcome, plans: bool) -> list[RenderableType]:
    package, folder = outcome.package, outcome.job.folder
    if package is None:
        return [Text(f"failed   {outcome.job.title}", "red")]
    parts: list[RenderableType] = [Text(str(package.plan))] if plans else []
    if outcome.differences is not None:
        if not outcome.differences:
            return [*parts, Text(f"current  {folder}")]
        lines = str(outcome.differences).replace("\n", "\n    ")
        return [*parts, Text(f"stale    {folder}\n    {lines}", "red")]
    return [*parts, Text(str(package.written))]


def _summary(outcomes: Sequence[Outcome], orphans: Sequence[Path]) -> Text:
    stale = len(orphans) + sum(bool(o.differences) for o in outcomes)
    failed = sum(o.error is not None for o in outcomes)
    noun = "package" if len(outcomes) == 1 else "packages"
    text = f"{len(outcomes)} {noun}, {stale} stale, {failed} failed"
    return Text(text, "red" if stale or failed else "green")
