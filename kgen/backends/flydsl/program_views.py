"""What the templates of a program's host code on CDNA print: flat, printable values. Made by `program_host.py`."""

from dataclasses import dataclass

from kgen.backends.program.views import EntryView
from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class ProductsView:
    """What the section of products reads: the element types of each variant's launch, as entries of a dict.

    `comment` says of what these are.
    """

    comment: Lines
    pointers: Lines


@dataclass(frozen=True, slots=True)
class LoopsView:
    """What the section of loops reads: the tensors that each variant is compiled for."""

    signatures: tuple[EntryView, ...]


@dataclass(frozen=True, slots=True)
class CdnaCaseView:
    """One case of the host function: its key, what it accepts, the tensors it makes, the variants of each kernel."""

    key: Lines
    accepted: Lines
    allocations: Lines
    launches: Lines


@dataclass(frozen=True, slots=True)
class CdnaProgramHostView:
    """What the template of the host code reads; `calls` are the launches in order, `compile` is an expression."""

    name: str
    isa: str
    tables: Lines
    launches: Lines
    rules: Lines
    cases: tuple[CdnaCaseView, ...]
    sections: Lines
    compile: str
    head: Lines  # of the host function
    tensors: Lines
    first: str
    copied: Lines  # arguments that kernels need on 16 bytes
    allocations: Lines
    calls: tuple[Lines, ...]
    result: str
