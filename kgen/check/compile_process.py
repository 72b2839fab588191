"""The compile subprocess seen from kgen: its environment, and one request to it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.check.event_process import EventProcess

# What kgen decides itself; a user's settings of these must not change what is checked.
_OWN_PREFIXES = ("CUTE_DSL_", "FLYDSL_", "COMPILE_ONLY", "PYTHONWARNINGS")


def users_environment() -> dict[str, str]:
    """Return the user's environment without what kgen decides itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OWN_PREFIXES)}


def kgens_environment() -> dict[str, str]:
    """Return that environment with this kgen importable, for a subprocess that runs a module of it."""
    environment = users_environment()
    home = str(Path(__file__).resolve().parents[2])  # the folder that kgen is imported from
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, (home, environment.get("PYTHONPATH"))))}


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One package to compile: its kernel, a module name of its own, and an empty folder for the results."""

    kernel: Path
    module: str
    out: Path


class CompileProcess(EventProcess):
    """One subprocess that compiles packages one after the other, importing the DSL once."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], scratch: Path) -> None:
        """Start it and wait until it is up; `scratch` is a private folder that the caller removes."""
        super().__init__(command, environment, (scratch / "stderr").open("w+b"))
        self.wait_until_up()

    def compile(self, request: CompileRequest, limit_seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the events of one request; the limit holds for the import and for each variant. May end it."""
        self.send({"kernel": str(request.kernel), "module": request.module, "out": str(request.out)})
        while (event := self.next_event(limit_seconds))["event"] != "done":
            yield event
