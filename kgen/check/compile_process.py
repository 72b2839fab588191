"""The compile subprocess seen from kgen: its environment, and one request to it."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.check.event_process import EventProcess

RUNNER = Path(__file__).with_name("compile_runner.py")

# What kgen decides itself; a user's settings of these must not change what is checked.
_OWN_PREFIXES = ("CUTE_DSL_", "PYTHONWARNINGS")
# What can change the code and stays the user's: part of every cache key.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CUDA_TOOLKIT_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")


def users_environment() -> dict[str, str]:
    """Return the user's environment without what kgen decides itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OWN_PREFIXES)}


def environment(arch: str, scratch: Path) -> dict[str, str]:
    """Return the environment of a compile subprocess: the same on a machine with a GPU and on one without."""
    return users_environment() | {
        "CUTE_DSL_ARCH": arch,
        "CUTE_DSL_KEEP": "cubin",
        "CUTE_DSL_DUMP_DIR": str(scratch),  # private: the DSL cuts long file names, so two kernels may share one
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",
    }


def inherited_environment() -> dict[str, str | None]:
    """Return the user's variables that may change what the compiler makes."""
    return {name: os.environ.get(name) for name in _INHERITED}


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One package to compile: its kernel, a module name of its own, and an empty folder for the results."""

    kernel: Path
    module: str
    out: Path


class CompileProcess(EventProcess):
    """One subprocess that compiles packages one after the other, importing the DSL once."""

    def __init__(self, arch: str, scratch: Path) -> None:
        """Start it and wait until it is up; `scratch` is a private folder that the caller removes."""
        # -P: the modules beside the runner must not shadow others
        command = [sys.executable, "-P", str(RUNNER)]
        super().__init__(command, environment(arch, scratch), (scratch / "stderr").open("w+b"))
        self.wait_until_up()

    def compile(self, request: CompileRequest, limit_seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the events of one request; the limit holds for the import and for each variant. May end it."""
        self.send({"kernel": str(request.kernel), "module": request.module, "out": str(request.out)})
        while (event := self.next_event(limit_seconds))["event"] != "done":
            yield event
