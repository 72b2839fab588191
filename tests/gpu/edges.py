"""Extents at the edge: one, zero, below a tile, odd; each spec of `edges/` emitted, compiled, and tested on the GPU.

python tests/gpu/edges.py --out RECORDS
python tests/gpu/edges.py --dry-run        emitted and compiled; needs no GPU
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from records import write_record

import kgen

SPECS = sorted(Path(__file__).with_name("edges").glob("*.yaml"))


def checked(spec: Path, folder: Path, *, compile_only: bool) -> list[dict[str, Any]]:
    """Emit and check one spec; return a row per case."""
    loaded = kgen.load_spec(spec)
    kgen.emit(loaded, folder=folder)
    result = kgen.check(folder, compile_only=compile_only)
    findings = [str(finding) for finding in result.compiled.findings]
    if result.device is None:
        return [{"case": f"{loaded.name}/{case.id}", "status": "compiled", "faults": findings} for case in loaded.cases]
    return [
        {
            "case": f"{loaded.name}/{case['id']}",
            "status": case["status"],
            "rel_err": case["rel_err"],
            "faults": [*findings, *case["failures"]],
        }
        for case in result.device.report["cases"]
    ]


def main() -> int:
    """Check all of them; 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--dry-run", action="store_true", help="emit and compile only")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for spec in SPECS:
            rows += checked(spec, Path(scratch) / spec.stem, compile_only=arguments.dry_run)
    for row in rows:
        print(f"{row['status']:<12} {row['case']:<26} {row.get('rel_err', '')}  {'; '.join(row['faults'])}")
    wrong = sum(bool(row["faults"]) for row in rows)
    print(f"{len(rows)} cases, {wrong} wrong")
    if arguments.out:
        write_record(arguments.out, "edges", {"summary": {"cases": len(rows), "wrong": wrong}, "rows": rows})
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
