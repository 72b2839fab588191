"""What templates of several families print: values of a row, rules, arguments that no launch takes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ValueView:
    """A keyword argument or dict entry, with the reason of the choice as a comment."""

    name: str
    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class CheckView:
    """One rule: its words, its condition and its reason, a source line each or wrapped into several."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RulesView:
    """The rules of one variant, or of one load path: what `load_path` names."""

    load_path: str
    derived: tuple[str, ...]
    checks: tuple[CheckView, ...]


@dataclass(frozen=True, slots=True)
class UnreadView:
    """An argument that no launch takes, and its torch type."""

    name: str
    type: str
