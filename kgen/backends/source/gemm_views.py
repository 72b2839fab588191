"""What the kernel.py of a product holds on every back-end: fields, cases and rows of variants, sections, host code."""

from dataclasses import dataclass

from kgen.backends.source.file_views import RulesView, ValueView


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of the emitted dataclass `Variant`; `comment` starts with two spaces and a hash, or is empty."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class CaseView:
    """The extents and strides of one case."""

    constant: str
    comment: str
    values: tuple[ValueView, ...]


@dataclass(frozen=True, slots=True)
class RowView:
    """One row of VARIANTS."""

    name: str
    constant: str
    reasons: tuple[str, ...]
    values: tuple[ValueView, ...]


@dataclass(frozen=True, slots=True)
class KernelView:
    """The whole kernel.py; `sections` are the device code, `host` the host code, rendered before."""

    title: str
    doc: tuple[str, ...]
    imports: tuple[str, ...]
    constants: tuple[str, ...]
    fields: tuple[FieldView, ...]
    cases: tuple[CaseView, ...]
    rows: tuple[RowView, ...]
    rules: tuple[RulesView, ...]
    sections: tuple[str, ...]
    host: tuple[str, ...]
