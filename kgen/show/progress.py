"""Progress of long work, on stderr: a bar over things of one kind, or the step that is being done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def bar(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows one more thing as done; it shows nothing for a single one."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=total < 2) as progress:
        task = progress.add_task("", total=total)
        yield lambda title: progress.update(task, advance=1, description=title)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being done; in a file or pipe each step is a line."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda step: console.print(step, markup=False, soft_wrap=True)
        return
    columns = (TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda step: progress.update(task, description=step)


@contextmanager
def counted() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows what was done, how many are, and how many there are; its bar starts anew per kind."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda title, done, total: progress.update(task, completed=done, total=total, description=title)


@contextmanager
def timed() -> Iterator[Callable[[str, float, float], None]]:
    """Yield a function that shows what was done, how much work is and how much there is; with the time that is left."""
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
               TextColumn("{task.description}", markup=False))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda title, done, total: progress.update(task, completed=done, total=total, description=title)
