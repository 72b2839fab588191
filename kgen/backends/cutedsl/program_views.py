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


@dataclass(frozen=True, slots=True)
class AloneCaseView:
    """One case of a host function of one kernel: its key, what it takes, what is made, and its variant or None."""

    key: Lines
    accepts: Lines
    allocations: Lines
    variant: str


@dataclass(frozen=True, slots=True)
class AloneHostView:
    """What the template of the host code of one kernel reads, of which each case has one variant.

    `launch` and `rules` name functions, `grid_example` is what the launch is compiled with behind the tensors, and
    `function` what `compiled` returns.
    """

    name: str
    signatures: tuple[EntryView, ...]
    cases: tuple[AloneCaseView, ...]
    launch: str
    rules: str
    grid_example: str
    compiled_doc: str
    compiled: str
    function: str
    head: Lines  # of the host function
    tensors: Lines
    first: str
    unread: tuple[UnreadView, ...]
    aligned: Lines  # statements that copy arguments where their base address is not on 16 bytes
    allocations: Lines
    call: Lines
    result: str
    may_be_empty: bool
