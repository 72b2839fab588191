"""What the templates of programs print on every back-end: flat, printable values."""

from dataclasses import dataclass

from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class PartView:
    """A part of the file: what the comment above it says, and its text."""

    comment: Lines
    text: str


@dataclass(frozen=True, slots=True)
class ProgramFileView:
    """The whole kernel.py; `parts` are what the kernels share and each kernel, `host` the host code.

    `titled`: there are several kernels, and each part has its comment above it, as the host code has.
    """

    title: str
    doc: Lines
    imports: Lines
    parts: tuple[PartView, ...]
    titled: bool
    host: Lines


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry of a dict of the host code: its key, and what it holds, a line each."""

    key: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class ProgramCaseView:
    """One case of the host function: its key, the tensors it makes, and the variants of each kernel."""

    key: Lines
    allocations: Lines
    launches: Lines
