"""Commits of a measured package: its sources, then what was measured, since a commit cannot hold its own hash."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kgen.errors.bench import GitFailedError


def commit(folder: Path, names: Sequence[str], message: str) -> str:
    """Commit these files of a folder and nothing else; return the hash of the commit that holds them as they are."""
    _git(folder, "add", "--", *names)
    if _git(folder, "status", "--porcelain", "--", *names):
        _git(folder, "commit", "--quiet", "--only", "--message", message, "--", *names)
    found = commit_of(folder, names)
    if found is None:
        raise GitFailedError(command="commit", folder=folder, reason=f"{', '.join(names)}: still not committed")
    return found


def commit_of(folder: Path, names: Sequence[str]) -> str | None:
    """Return the last commit that changed these files, or None where they are not committed as they stand."""
    try:
        if _git(folder, "status", "--porcelain", "--", *names) or not _git(folder, "ls-files", "--", names[0]):
            return None
        return _git(folder, "log", "-1", "--format=%H", "--", *names) or None
    except GitFailedError:
        return None  # no repository here, or no git


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise GitFailedError(command=arguments[0], folder=folder, reason=error.strerror or error) from error
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()[-500:]
        raise GitFailedError(command=arguments[0], folder=folder, reason=reason)
    return done.stdout.strip()
