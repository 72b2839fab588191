"""The root of every error kgen raises: what went wrong, where, and what would do.

Each subclass carries its message template on the class, so that a reader finds every text in one place and a test
can show each one. Templates are `str.format` strings over the keyword fields of the constructor.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a text the user wrote: file, 1-based line and column (0 = unknown), and the line itself."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""

    def __str__(self) -> str:
        parts = [self.file] + [str(n) for n in (self.line, self.column) if n]
        return ":".join(parts)

    def excerpt(self) -> str:
        """Return the offending line with a caret below the column, or nothing when the line is unknown."""
        if not self.text.strip():
            return ""
        line = f"    {self.text.rstrip()}"
        return f"{line}\n    {' ' * (self.column - 1)}^" if self.column else line


class KgenError(Exception):
    """Base of all refusals. `exit_code` is what the command line returns for it."""

    message: ClassVar[str] = "{reason}"
    remedy: ClassVar[str] = ""
    exit_code: ClassVar[int] = 2

    def __init__(self, *, where: Where | None = None, **fields: object) -> None:
        self.where = where
        self.fields = fields
        super().__init__(self.text())

    def text(self) -> str:
        """Return the whole message: place, what, what would do, excerpt of the source line."""
        head = f"{self.where}: " if self.where else ""
        lines = [head + self.message.format(**self.fields)]
        if self.remedy:
            lines.append(f"  = {self.remedy.format(**self.fields)}")
        if self.where and (excerpt := self.where.excerpt()):
            lines.append(excerpt)
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """The first line of the message: what is wrong, and where, without what would do."""
        return self.text().splitlines()[0]

    def to_json(self) -> dict[str, object]:
        """Return the error as the JSON object that `--json` prints."""
        place = None
        if self.where:
            place = {"file": self.where.file, "line": self.where.line, "column": self.where.column}
        return {
            "error": type(self).__name__,
            "message": self.message.format(**self.fields),
            "remedy": self.remedy.format(**self.fields) or None,
            "where": place,
            "exit_code": self.exit_code,
        }


class BadInputError(KgenError, ValueError):
    """The input is wrong: the user can mend it (exit code 2)."""

    exit_code = 2


class UnsupportedError(KgenError, NotImplementedError):
    """The input is valid, and kgen does not cover it (exit code 3)."""

    exit_code = 3


class CheckFailedError(KgenError):
    """A check ran and found a fault (exit code 1)."""

    exit_code = 1


class DeviceMissingError(KgenError):
    """The request needs a device that is not in this machine (exit code 4)."""

    exit_code = 4
