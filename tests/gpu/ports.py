"""Port kernels of three kinds on the GPU: the vendor library's, one hand-written in CuTe DSL, a PyTorch extension.

    python tests/gpu/ports.py --out RECORDS [--keep FOLDER]
    python tests/gpu/ports.py --dry-run              the packages with their constraints; needs no GPU

Each port must be correct, with the incumbent byte for byte in the package, its launches and machine code in the report,
the harness at parity with itself, and no more than three variants in the ledger. The verdict is printed, not judged.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records import write_record

import kgen
from kgen.bench.record import read_report
from kgen.bench.report import Report

FOLDER = Path(__file__).with_name("incumbents")
SPEC = FOLDER / "port.yaml"


@dataclass(frozen=True, slots=True)
class Incumbent:
    """One kernel to replace, and what its machine code must be found in: nothing for a closed library."""

    file: str
    entry: str
    code: str  # start of the origin of its machine code
    mma: str  # class of its tensor-core instructions

    @property
    def name(self) -> str:
        """As the command line takes it."""
        return f"{FOLDER / self.file}::{self.entry}"


INCUMBENTS = (
    Incumbent("torch_matmul.py", "matmul", "", ""),
    Incumbent("hopper_gemm.py", "gemm", "cubin", "HGMMA"),
    Incumbent("extension_gemm.py", "gemm", "kgen_extension_gemm", ""),
)


def ported(incumbent: Incumbent, folder: Path) -> dict[str, Any]:
    """Port one kernel; return a row of the record."""
    command = f"test -f $KGEN_PACKAGE/kernel.py && echo {incumbent.entry}"
    tuned = kgen.port(SPEC, incumbent.name, folder=folder, falsify=True, integration=command, progress=say)
    report = read_report(folder)
    assert report == tuned.report, "report.json is not what was returned"
    return {"incumbent": incumbent.file, **summary(report), "faults": list(faults(incumbent, report, folder))}


def faults(incumbent: Incumbent, report: Report, folder: Path) -> Iterator[str]:
    """Yield what is not as a port must leave it."""
    if report.gate != "PASS":
        yield f"the gate is {report.gate}"
    if (folder / "incumbent.py").read_bytes() != (FOLDER / incumbent.file).read_bytes():
        yield "the copy of the incumbent differs"
    if len(report.compared) != 2 or any(found.incumbent.launches is None for _, found in report.compared):
        yield "a case was not compared, or its launches are not known"
    if report.control is None or not report.control.holds:
        yield f"the control does not hold: {report.control}"
    if report.integration is None or report.integration.exit_status != 0:
        yield f"the integration failed: {report.integration}"
    if not {"scheduling", "thread interface", "epilogue", "precision", "call"} <= {c.name for c in report.constraints}:
        yield "a constraint is missing"
    code = [c for c in report.code if c.arm == "incumbent" and c.origin.startswith(incumbent.code)]
    kinds = {kind.partition(".")[0] for c in code for kernel in c.kernels for kind in kernel.mma}
    if incumbent.code and not any(c.kernels for c in code):
        yield "no machine code of the incumbent"
    if incumbent.mma and incumbent.mma not in kinds:
        yield f"no {incumbent.mma} in the incumbent: {sorted(kinds)}"
    if report.ledger and report.ledger[-1].count > 3:
        yield "the ledger went over its budget"


def summary(report: Report) -> dict[str, Any]:
    """Return what is kept of a port."""
    return {
        "ratio": report.ratio_geomean,
        "band": report.band,
        "verdict": report.verdict,
        "variants": report.ledger[-1].count if report.ledger else 0,
        "control": None if report.control is None else report.control.ratio.median,
        "cases": {case.id: str(found.ratio) for case, found in report.compared},
    }


def say(step: str) -> None:
    """Print a step."""
    print(f"  {step}", flush=True)


def main() -> int:
    """Port all of them; 1 if one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--keep", type=Path, help="folder for the packages")
    parser.add_argument("--only", action="append", metavar="FILE", help="incumbent to port; may be repeated")
    parser.add_argument("--dry-run", action="store_true", help="emit the packages only; needs no GPU")
    arguments = parser.parse_args()
    chosen = [i for i in INCUMBENTS if not arguments.only or i.file in arguments.only]
    with tempfile.TemporaryDirectory() as scratch:
        root = arguments.keep or Path(scratch)
        if arguments.dry_run:
            return dry_run(chosen, root)
        rows = []
        for incumbent in chosen:
            print(incumbent.file, flush=True)
            rows.append(ported(incumbent, root / Path(incumbent.file).stem))
    for row in rows:
        mark = "FAIL" if row["faults"] else "ok"
        print(
            f"{row['incumbent']:<20} {row['verdict']:<9} kgen / incumbent {row['ratio']:.3f} (band {row['band']:.3f})",
            end="",
        )
        print(
            f"  {row['variants']} variants  control {row['control']:.3f}  {row['cases']}  {mark} {row['faults'] or ''}"
        )
    if arguments.out:
        wrong = sum(bool(row["faults"]) for row in rows)
        write_record(arguments.out, "ports", {"summary": {"ports": len(rows), "wrong": wrong}, "rows": rows})
    return 1 if any(row["faults"] for row in rows) else 0


def dry_run(chosen: list[Incumbent], root: Path) -> int:
    """Emit each package with its copy of the incumbent and its constraints."""
    from dataclasses import replace

    from kgen.incumbents import incumbent_of

    spec = kgen.load_spec(SPEC)
    for incumbent in chosen:
        package = kgen.emit(replace(spec, incumbent=incumbent_of(incumbent.name)), folder=root / incumbent.file)
        assert package.files["incumbent.py"].encode() == (FOLDER / incumbent.file).read_bytes()
        print(
            f"{incumbent.file}: {len(package.files)} files, plans/port.md {len(package.files['plans/port.md'])} bytes"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
