"""Bench one package in three processes: the mean ratio of kgen to incumbent must stay inside the stated band.

python tests/gpu/repeatability.py [DIR] --out RECORDS
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from records import write_record

from kgen.bench.statistics import BAND_LIMIT

ROOT = Path(__file__).resolve().parents[2]
RUNS = 3


def benched(folder: Path) -> dict[str, Any]:
    """Return the report of one process."""
    command = [sys.executable, "-m", "kgen.cli", "bench", str(folder), "--again", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout) if done.stdout else {"message": done.stderr[-800:]}
    if done.returncode != 0:
        raise SystemExit(f"kgen bench: exit status {done.returncode}: {answer.get('message')}")
    report: dict[str, Any] = answer["results"][0]["report"]
    return report


def main() -> int:
    """Run it three times; 1 if the means are farther apart than the band, or the band is too wide."""
    from kgen.bench.report import Report

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "generated" / "h200" / "gemm_bf16_small")
    parser.add_argument("--out", type=Path, help="folder for the record")
    arguments = parser.parse_args()
    reports = [Report.model_validate(benched(arguments.folder)) for _ in range(RUNS)]
    found = [report.ratio_geomean for report in reports]
    bands = [report.band for report in reports]
    assert all(ratio is not None for ratio in found) and all(band is not None for band in bands)
    apart = max(found) / min(found) - 1
    narrowest, widest = min(bands), max(bands)
    good = apart <= narrowest and widest <= BAND_LIMIT
    words = ", ".join(f"{ratio:.4f}" for ratio in found)
    print(
        f"{arguments.folder.name}: kgen / incumbent {words}: {apart:.2%} apart, bands {narrowest:.2%} to {widest:.2%}"
    )
    if arguments.out:
        row = {"package": arguments.folder.name, "ratios": found, "bands": bands, "apart": apart, "faults": []}
        row["faults"] = [] if good else ["outside of the band"]
        name = f"repeatability_{arguments.folder.name}"
        write_record(arguments.out, name, {"summary": {"apart": apart, "band": narrowest}, "rows": [row]})
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
