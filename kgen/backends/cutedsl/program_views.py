"""What the template of a program's host code on Hopper prints: flat, printable values. Made by `program_host.py`."""

from dataclasses import dataclass

from kgen.backends.program.views import EntryView, ProgramCaseView
from kgen.backends.source.file_views import UnreadView
from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class ProgramHostView:
    """What the template of the host code reads; `calls` are the launches in order."""

    name: str
    tables: Lines
    signatures: tuple[EntryView, ...]
    launches: Lines
    rules: Lines
    persistent: Lines
    accepts: tuple[EntryView, ...]
    cases: tuple[ProgramCaseView, ...]
    head: Lines  # of the host function
    tensors: Lines
    first: str
    unread: tuple[UnreadView, ...]
    copied: Lines  # arguments that are copied where their base address is not on 16 bytes
    allocations: Lines
    calls: tuple[Lines, ...]
    result: str
    may_be_empty: bool
