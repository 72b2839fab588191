"""Put a finished folder, or file, in the place of another in one step, and mend what a killed process left behind.

On Linux `renameat2(RENAME_EXCHANGE)` swaps two folders atomically. Where that is missing, the old folder steps aside
under a known name first; a process killed between the two renames leaves it there, whole, and `recover` puts it back.
"""

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})  # no such call, or not on this file system


def write_whole(file: Path, content: bytes) -> None:
    """Put a file in place of what is there, whole or not at all; several processes may do so at once."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def incoming(folder: Path) -> Path:
    """Return where the new content of a folder is prepared, and where the old one is deleted."""
    return folder.with_name(f".{folder.name}.kgen-new")


def aside(folder: Path) -> Path:
    """Return where the old content waits between two renames; it exists only when a process died just there."""
    return folder.with_name(f".{folder.name}.kgen-old")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the right to write a folder; a killed holder loses it at once."""
    path = folder.with_name(f".{folder.name}.kgen-lock")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_still(path, descriptor):  # else its last holder removed the file while this one waited
            break
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink()
        os.close(descriptor)


def recover(folder: Path) -> None:
    """Mend what a killed writer left: put an old folder back that has no successor, delete unfinished ones."""
    if aside(folder).exists() and not folder.exists():
        aside(folder).rename(folder)
    for leftover in (incoming(folder), aside(folder)):
        if leftover.exists():
            shutil.rmtree(leftover)


def put_in_place(folder: Path) -> None:
    """Force the prepared content to disk, make it the content of `folder`, and delete what was there."""
    prepared = incoming(folder)
    for parent, _, names in os.walk(prepared):
        for path in (Path(parent), *(Path(parent, name) for name in names)):
            if not path.is_symlink():
                sync(path)
    if not folder.exists():
        prepared.rename(folder)
        sync(folder.parent)
        return
    if not exchange(prepared, folder):
        folder.rename(aside(folder))
        prepared.rename(folder)
        aside(folder).rename(prepared)  # it has a successor now: a half deleted one must not be put back
    sync(folder.parent)
    shutil.rmtree(prepared)


def exchange(one: Path, other: Path) -> bool:
    """Swap two paths atomically; False where the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_HERE:
        return False
    raise OSError(code, os.strerror(code), str(other))


def sync(path: Path) -> None:
    """Force a file or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether a path names the file that is open under a descriptor."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
