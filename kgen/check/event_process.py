"""A subprocess that reads JSON requests and answers with JSON events, a line each; every answer has a time limit.

A DSL, a kernel or a driver can crash or hang the process it runs in: that costs the subprocess, never kgen.
"""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from kgen.check.command import ending_of
from kgen.errors.check import RunnerFailedError

_START_LIMIT_SECONDS = 120.0  # many may start at once, each importing torch


class ProcessEnded(Exception):
    """The subprocess died or ran out of time; `ending` says which."""

    def __init__(self, ending: str) -> None:
        super().__init__(ending)
        self.ending = ending


class EventProcess:
    """One subprocess in a process group of its own. Its first event says that it is up."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], stderr: IO[bytes]) -> None:
        """Start it; `stderr` is an open file that `close` closes."""
        self._program = " ".join(command[1:])
        self._stderr = stderr
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(environment),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._pending = b""

    def wait_until_up(self) -> None:
        """Wait for the first event; raises `RunnerFailedError`, and closes the subprocess, where none comes."""
        try:
            self.next_event(_START_LIMIT_SECONDS)
        except ProcessEnded as error:
            said = self.stderr_tail()
            self.close()
            raise RunnerFailedError(program=self._program, ending=error.ending, stderr=said) from error
        except BaseException:
            self.close()
            raise

    def send(self, request: Mapping[str, Any]) -> None:
        """Send one request; raises `ProcessEnded` when nothing reads it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProcessEnded(self._ending()) from error

    def next_event(self, limit_seconds: float) -> dict[str, Any]:
        """Return the next event; raises `ProcessEnded`."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + limit_seconds
        while b"\n" not in self._pending:
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise ProcessEnded(f"no answer within {limit_seconds:.0f} s")
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise ProcessEnded(self._ending())
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def stderr_tail(self, characters: int = 2000) -> str:
        """Return the end of what the subprocess wrote to its standard error."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace").strip()[-characters:]

    def forget_stderr(self) -> None:
        """Empty what the subprocess wrote to its standard error: the next request's begins there."""
        self._stderr.seek(0)  # the subprocess writes where this file object stands
        self._stderr.truncate()

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

    def _ending(self) -> str:
        return ending_of(self._process.wait())
