"""The compile subprocess seen from kgen: start it, ask, read its answers under a time limit, end it."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kgen.errors.check import RunnerFailedError

RUNNER = Path(__file__).with_name("compile_runner.py")

# What kgen decides itself; a user's settings of these must not change what is checked.
_OWN_PREFIXES = ("CUTE_DSL_", "PYTHONWARNINGS")
# What can change the code and stays the user's: part of every cache key.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CUDA_TOOLKIT_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
_START_LIMIT_SECONDS = 60.0


class ProcessEnded(Exception):
    """The subprocess died or ran out of time; `ending` says which."""

    def __init__(self, ending: str) -> None:
        super().__init__(ending)
        self.ending = ending


def environment(arch: str, scratch: Path) -> dict[str, str]:
    """Return the environment of a compile subprocess: the same on a machine with a GPU and on one without."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_PREFIXES)}
    return kept | {
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


class CompileProcess:
    """One subprocess that compiles packages one after the other, importing the DSL once."""

    def __init__(self, arch: str, scratch: Path) -> None:
        """Start it; `scratch` is a private folder that the caller removes."""
        self._stderr: IO[bytes] = (scratch / "stderr").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(RUNNER)],  # -P: the modules beside the runner must not shadow others
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment(arch, scratch),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._pending = b""
        try:
            self._next_event(time.monotonic() + _START_LIMIT_SECONDS)
        except ProcessEnded as error:
            stderr = self.stderr_tail()
            self.close()
            raise RunnerFailedError(ending=error.ending, stderr=stderr) from error
        except BaseException:
            self.close()
            raise

    def compile(self, request: CompileRequest, limit_seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the events of one request; the limit holds for the import and for each variant. May end it."""
        assert self._process.stdin is not None
        line = {"kernel": str(request.kernel), "module": request.module, "out": str(request.out)}
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProcessEnded(self._ending()) from error
        while True:
            event = self._next_event(time.monotonic() + limit_seconds)
            if event["event"] == "done":
                return
            yield event

    def stderr_tail(self) -> str:
        """Return the end of what the subprocess wrote to its standard error."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace").strip()[-2000:]

    def kill(self) -> None:
        """End the subprocess and whatever it started; a reader in another thread then sees the end."""
        if self._process.returncode is None:  # else the id may belong to another process by now
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the subprocess and free what belongs to it."""
        self.kill()
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _next_event(self, deadline: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        limit = deadline - time.monotonic()
        while b"\n" not in self._pending:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise ProcessEnded(f"no answer within {limit:.0f} s")
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise ProcessEnded(self._ending())
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def _ending(self) -> str:
        status = self._process.wait()
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
