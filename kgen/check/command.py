"""Run a command to its end or to a time limit, and with it everything that it starts."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO


def run_command(
    command: Sequence[str] | str,
    output: IO[bytes],
    limit_seconds: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int | None:
    """Return the exit status, `None` when time ran out; a text is run by a shell.

    What it prints goes to `output`; its input is empty. It has a process group of its own, which is killed when time
    runs out and when the caller is interrupted: killing the command alone would leave what it started on the GPU.
    """
    process = subprocess.Popen(
        command,
        shell=isinstance(command, str),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def ending_of(status: int) -> str:
    """Return in words how a process ended, from its status as `subprocess` gives it."""
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
