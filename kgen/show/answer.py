"""The answer of one command: the same content as a JSON object and for a terminal, and the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from kgen.errors.base import KgenError


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found. `shown` goes to stdout, `failure` to stderr; with --json `fields` alone goes to stdout."""

    fields: Mapping[str, object]
    shown: RenderableType | None = None
    failure: RenderableType | None = None
    exit_code: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of `--json`."""
        return {"ok": self.exit_code == 0, **self.fields, "exit_code": self.exit_code}


def of_error(error: KgenError, details: str = "") -> Answer:
    """Return the answer that a refusal makes; `details` go before it, to a terminal only."""
    shown = error_text(error.text())
    return Answer(error.to_json(), failure=Group(Text(details), shown) if details else shown, exit_code=error.exit_code)


def of_failure(kind: str, message: str, exit_code: int) -> Answer:
    """Return the answer for what is no error of kgen: a usage error, an interruption."""
    fields = {"error": kind, "message": message, "remedy": None, "where": None}
    return Answer(fields, failure=error_text(message), exit_code=exit_code)


def error_text(message: str) -> Text:
    """Return `error: ...` for a terminal."""
    return Text.assemble(("error: ", "bold red"), message)
