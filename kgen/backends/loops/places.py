"""Where a thread of a loop kernel stands: its row, clamped to one that exists, and its columns, chunk by chunk."""

from kgen.backends.loops.body import HELD, LoopBody
from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.reads import ReadTime
from kgen.backends.source.lines import Lines


def place_in_row(dialect: LoopDialect) -> Lines:
    """Return the statements that find the row of a thread, where the threads of a row lie along it."""
    return (
        "row, lane, lanes = place_in_row(v)",
        "is_row, at_row = row_of(v, row, 1)",
    )


def place_in_column(body: LoopBody, *, alone: bool) -> Lines:
    """Return the statements that find the rows of a thread, a vector of them, and read what it knows of them.

    A thread is `alone` where it takes all columns of its rows.
    """
    return (
        f"vector, {'_, _' if alone else 'lane, lanes'} = place_in_column(v)",
        "row = vector * v.vec",
        "is_row, at_row = row_of(v, row, v.vec)",
        *body.reads.fragments(ReadTime.ROW, "1"),
        *body.reads.statements(ReadTime.ROW),
    )


def column_of_vector(schedule: str, *, in_rows: bool) -> str:
    """Return the first column of vector `s` of a thread."""
    vector = "s * lanes + lane" if schedule in HELD else "(chunk * v.steps + s) * lanes + lane"
    return f"({vector}) * v.vec" if in_rows else vector


def column_ahead() -> str:
    """Return the first column of the vector that is read `v.ahead` vectors before its turn."""
    return "((s + v.ahead) * lanes + lane) * v.vec"


def column_of_scan(*, in_rows: bool, reverse: bool) -> str:
    """Return the first column of vector `s` of a thread of a scan; a reversed one starts at the end."""
    column = "((chunk * v.steps + s) * lanes + lane) * v.vec" if in_rows else "chunk * v.steps + s"
    return f"prod(v.cols) - {'v.vec' if in_rows else '1'} - ({column})" if reverse else column
