"""The speed chart: drawn from records, the same bytes every time, and nothing without a record."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "chart.py"


def draw(records: Path, picture: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(records), "--to", str(picture)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_record_gives_the_same_picture_twice(tmp_path: Path) -> None:
    rows = [{"shape": [64, 128, 256], "ratio": [1.1, 1.0, 1.2], "faults": []}]
    rows.append({"shape": [7, 8, 9], "ratio": None, "faults": ["wrong"]})
    (tmp_path / "gemm_bfloat16.json").write_text(json.dumps({"rows": rows}))
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    assert draw(tmp_path, first).returncode == draw(tmp_path, second).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    text = first.read_text()
    assert "64 x 128 x 256" in text and "7 x 8 x 9" not in text


def test_no_record_is_an_error(tmp_path: Path) -> None:
    found = draw(tmp_path, tmp_path / "a.svg")
    assert found.returncode == 2 and "no record" in found.stderr and not (tmp_path / "a.svg").exists()
