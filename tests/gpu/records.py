"""Records of a run on a device: who measured what, where, when and with which command, as one JSON file per script.

`benchmarks/report.py` turns them into docs/measurements.md.
"""

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DISTRIBUTIONS = ("torch", "nvidia-cutlass-dsl", "apache-tvm-ffi")
_SMI_FIELDS = "name,driver_version,memory.total,clocks.max.sm"


def machine() -> dict[str, Any]:
    """Return the GPU, its driver, and the versions of what compiles and launches; the GPU is None without one."""
    import torch

    gpu: dict[str, Any] | None = None
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        gpu = {
            "name": found.name,
            "multiprocessors": found.multi_processor_count,
            "l2_bytes": found.L2_cache_size,
            "cuda": torch.version.cuda,
            "driver": _nvidia_smi(),
        }
    return {"gpu": gpu, "python": sys.version.split()[0], **{name: _version(name) for name in DISTRIBUTIONS}}


def write_record(folder: Path, name: str, body: dict[str, Any]) -> Path:
    """Write `folder/name.json` with the body, the machine, the command and the date."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "name": name,
        "command": shlex.join(["python", *_shown(sys.argv)]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        **body,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def _shown(arguments: list[str]) -> list[str]:
    """Return the command's words with its script relative to the checkout, without the place of records and folders."""
    script = Path(arguments[0]).resolve()
    root = Path(__file__).resolve().parents[2]
    words = [script.relative_to(root).as_posix() if script.is_relative_to(root) else script.name, *arguments[1:]]
    if "--out" in words:
        place = words.index("--out")
        del words[place : place + 2]
    return [Path(word).name if Path(word).is_absolute() else word for word in words]


def _nvidia_smi() -> str | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={_SMI_FIELDS}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(dict.fromkeys(done.stdout.strip().splitlines()))  # a line a GPU, most often alike


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
