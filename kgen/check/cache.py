"""Evidence of kernels that were compiled before, on disk, keyed by everything that decides it.

An entry is one file: the SHA-256 of its body, a newline, the body. A reader believes only a body that matches its
digest, so an entry torn by a crash, a full disk or another program counts as absent and is written anew. Writers
fill a private file, flush it to disk and rename it: any number of processes may do so at once, and be killed.
"""

import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A private file this old belongs to a process that was killed while writing.
_ABANDONED_AFTER_SECONDS = 3600


def default_cache_dir() -> Path:
    """Return kgen's cache folder: $KGEN_CACHE_DIR, else `kgen` in the user's cache folder."""
    if folder := os.environ.get("KGEN_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kgen"


def digest_of(parts: dict[str, Any]) -> str:
    """Return the key of an entry: the SHA-256 of the canonical JSON of whatever decides its content."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of entries. An unwritable folder is the same as an empty one: checks still work, only slower."""

    folder: Path

    def read(self, key: str) -> Any | None:
        """Return the stored JSON value, or `None` when there is none that can be trusted."""
        try:
            digest, _, body = self._file(key).read_bytes().partition(b"\n")
        except OSError:
            return None
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return None
        return json.loads(body)

    def write(self, key: str, value: Any) -> None:
        """Store a JSON value; the last of several writers wins, and they all write the same."""
        body = json.dumps(value, sort_keys=True).encode()
        file = self._file(key)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(file.parent)
            _replace(file, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    def _file(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _replace(file: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _remove_abandoned(folder: Path) -> None:
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _ABANDONED_AFTER_SECONDS:
                part.unlink()
