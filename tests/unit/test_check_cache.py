"""The evidence cache under many processes, kills and torn files."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgen.check.cache import Cache, default_cache_dir, digest_of

KEYS = [digest_of({"n": n}) for n in range(4)]
ROOT = Path(__file__).resolve().parents[2]

# Writes and reads the same few keys as fast as it can; exits 1 when a read gives anything but the value or nothing.
HAMMER = """
import sys, time
from pathlib import Path
from kgen.check.cache import Cache
cache, keys, until = Cache(Path(sys.argv[1])), sys.argv[3:], time.monotonic() + float(sys.argv[2])
print("ready", flush=True)
while time.monotonic() < until:
    for key in keys:
        cache.write(key, {"key": key, "filler": key * 4000})
        value = cache.read(key)
        if value is not None and value != {"key": key, "filler": key * 4000}:
            sys.exit(f"wrong value for {key}")
"""


def value_of(key: str) -> dict[str, str]:
    return {"key": key, "filler": key * 4000}


def hammer(folder: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HAMMER, str(folder), str(seconds), *KEYS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_writes_of_many_processes_leave_whole_entries(tmp_path: Path) -> None:
    processes = [hammer(tmp_path, 0.5) for _ in range(4)]
    for process in processes:
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr
    assert [Cache(tmp_path).read(key) for key in KEYS] == [value_of(key) for key in KEYS]
    assert not list(tmp_path.rglob("*.part"))


def test_a_killed_writer_leaves_the_old_entry_or_the_new_one(tmp_path: Path) -> None:
    moments = random.Random(5)
    for _ in range(12):
        process = hammer(tmp_path, 30)
        time.sleep(moments.uniform(0.0, 0.01))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert all(Cache(tmp_path).read(key) in (None, value_of(key)) for key in KEYS)
    cache = Cache(tmp_path)
    for key in KEYS:
        cache.write(key, value_of(key))
        assert cache.read(key) == value_of(key)


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "no digest"])
def test_a_damaged_entry_counts_as_absent_and_is_written_anew(tmp_path: Path, damage: str) -> None:
    cache, key = Cache(tmp_path), KEYS[0]
    cache.write(key, value_of(key))
    (file,) = tmp_path.rglob("*.json")
    content = bytearray(file.read_bytes())
    match damage:
        case "truncated":
            del content[len(content) // 2 :]
        case "empty":
            content.clear()
        case "flipped":
            content[-5] ^= 1
        case "no digest":
            content = bytearray(b"{}")
    file.write_bytes(content)
    assert cache.read(key) is None
    cache.write(key, value_of(key))
    assert cache.read(key) == value_of(key)


def test_files_of_killed_writers_are_removed_once_they_are_old(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path), KEYS[0]
    folder = tmp_path / key[:2]
    folder.mkdir()
    old, young = folder / ".old.part", folder / ".young.part"
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    cache.write(key, 1)
    assert not old.exists()
    assert young.exists()


def test_an_unwritable_folder_is_an_empty_cache(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    cache = Cache(blocker)
    cache.write(KEYS[0], 1)
    assert cache.read(KEYS[0]) is None


def test_the_key_holds_every_part() -> None:
    parts = {"kernel": "a", "versions": {"x": "1", "y": None}}
    assert digest_of(parts) == digest_of(dict(reversed(parts.items())))
    assert digest_of(parts) != digest_of(parts | {"versions": {"x": "1", "y": "2"}})


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "own"))
    assert default_cache_dir() == tmp_path / "own"
    monkeypatch.delenv("KGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "kgen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache_dir() == tmp_path / "home/.cache/kgen"
