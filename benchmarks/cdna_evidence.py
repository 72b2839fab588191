"""kgen's CDNA kernels beside FlyDSL's own, from machine code and simulated counts: nothing here is a timing.

    python benchmarks/cdna_evidence.py --flydsl CHECKOUT              the table, in Markdown
    python benchmarks/cdna_evidence.py --flydsl CHECKOUT --rows gemm  the rows whose names hold one of the words
    python benchmarks/cdna_evidence.py --flydsl CHECKOUT --json FILE  and all the numbers

CHECKOUT is a checkout of ROCm/FlyDSL (its `kernels` package); it is only imported from. Both sides are compiled by the
installed FlyDSL, read by the same readers and run by the same simulator, on the same problem, with products at the same
tile. A row without a kernel of kgen's is a problem that kgen does not emit for that instruction set.

Of a product, numbers are of the steady loop, per flop or per MFMA; of others, of the whole kernel, per element of the
first input. "In flight at waits" are the loads in flight when each wait for them is reached, and how many it leaves. A
number of kgen's that is more than 5 % worse than FlyDSL's is marked with "!".
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from cdna_problems import DEVICES, PROBLEMS, Problem

import kgen
from kgen.check import check_package, simulate_package
from kgen.check.flydsl.stand_ins import hip_stub, rocm_path
from kgen.check.flydsl.toolchain import cross_environment
from kgen.errors.base import KgenError

BAND = 0.05
LANES = 64
COLUMNS = (
    "problem",
    "kernel of",
    "MFMA",
    "others per MFMA, instructions per element",
    "LDS bytes",
    "global bytes",
    "bank conflicts",
    "in flight at waits",
    "waves per SIMD",
    "VGPRs",
    "spills",
    "rel_err",
    "found in the simulator",
)
SHOWN_WAITS = 6


@dataclass(frozen=True)
class Judged:
    """The error against PyTorch, and what is wrong."""

    rel_err: float | None
    findings: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """One kernel of a row: `instructions` are others per MFMA of a product, else executed ones per element."""

    who: str
    mma: str
    instructions: float
    lds_bytes: float
    global_bytes: float
    conflicts: int
    in_flight: tuple[tuple[int, int], ...]
    waves: int
    vgprs: int
    spills: int
    rel_err: float | None
    findings: tuple[str, ...]


def side_of(who: str, problem: Problem, dynamic: dict[str, Any], static: dict[str, Any], judged: Judged) -> Side:
    """Return one kernel of a row from the JSON of its counts and of its evidence."""
    counts = dynamic["steady"] or dynamic["whole"]
    share = dynamic["executed_workgroups"] / dynamic["workgroups"]
    elements = prod(problem.extents[name] for name in ("M", "N")) * share
    per = counts["flops"] or elements
    instructions = counts["others_per_mfma"] if counts["mfma"] else counts["executed"] * LANES / elements
    waits = dict.fromkeys(tuple(pair) for pair in counts["loads_in_flight"])
    wave = static["wave"]
    return Side(
        who=who,
        mma=", ".join(sorted({f"{m['kind']}_{m['shape']}" for m in static["mma"]})) or "none",
        instructions=instructions,
        lds_bytes=counts["lds_bytes"] / per,
        global_bytes=counts["global_bytes"] / per,
        conflicts=counts["bank_conflict_cycles"],
        in_flight=tuple(waits),
        waves=wave["waves_per_simd"],
        vgprs=static["registers"],
        spills=wave["vgpr_spills"] + wave["sgpr_spills"],
        rel_err=judged.rel_err,
        findings=judged.findings,
    )


def peer_side(problem: Problem, isa: str, checkout: Path) -> Side:
    """Return FlyDSL's kernel."""
    environment = dict(os.environ) | cross_environment(isa, rocm_path())
    folders = (str(Path(__file__).parent), environment["PYTHONPATH"])
    arguments = [str(checkout), problem.name, DEVICES[isa], str(hip_stub())]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cdna_peers", *arguments],
        env=environment | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{problem.name} for {isa}: {done.stderr.strip()[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    static = next(k for k in found["static"] if k["kernel"] == found["kernels"][0]["kernel"])
    return side_of("FlyDSL", problem, found["kernels"][0], static, Judged(found["rel_err"], tuple(found["findings"])))


def own_side(problem: Problem, isa: str) -> Side | str:
    """Return kgen's kernel, or why there is none."""
    with tempfile.TemporaryDirectory(prefix="kgen-evidence-") as scratch:
        spec = Path(scratch) / "spec.yaml"
        spec.write_text(problem.spec(isa))
        try:
            folder = kgen.emit(spec, target=DEVICES[isa], folder=Path(scratch) / "package").folder
        except KgenError as error:
            return error.headline
        assert folder is not None
        compiled, simulated = check_package(folder), simulate_package(folder)
        case = simulated.cases[0]
        if not case.kernels:
            return "; ".join([*map(str, compiled.findings), *simulated.failures])[:300]
        best = [k for k in case.kernels if k.variant == case.kernels[0].variant]  # the one for aligned bases
        kernel = max(best, key=lambda k: (k.whole.mfma, k.whole.executed))
        evidence = [k for v in compiled.variants if v.variant == kernel.variant for k in v.kernels]
        static = next(asdict(k) for k in evidence if k.kernel == kernel.kernel)
        findings = (*map(str, compiled.findings), *simulated.failures)
        return side_of("kgen", problem, kernel.to_json(), static, Judged(case.rel_err, findings))


def most_in_flight(side: Side) -> int:
    """Return the most loads in flight when a wait is reached."""
    return max((before for before, _ in side.in_flight), default=0)


def cells(problem: Problem, isa: str, side: Side, peer: Side | None) -> Iterator[str]:
    """Yield the cells of a line; `peer` is what kgen's numbers are compared with."""

    def number(name: str, form: str) -> str:
        value = getattr(side, name)
        worse = peer is not None and value > getattr(peer, name) * (1 + BAND)
        return format(value, form) + (" !" if worse else "")

    yield f"{problem.name}, {isa}" + (f", {problem.tile}" if problem.tile else "")
    yield side.who
    yield side.mma
    yield number("instructions", ".3f")
    yield number("lds_bytes", ".4g")
    yield number("global_bytes", ".4g")
    yield number("conflicts", "d")
    shown = [f"{before} to {left}" for before, left in side.in_flight]
    fewer = peer is not None and most_in_flight(side) * (1 + BAND) < most_in_flight(peer)
    yield ", ".join(shown[:SHOWN_WAITS]) + (", ..." if len(shown) > SHOWN_WAITS else "") + (" !" if fewer else "")
    yield f"{side.waves}" + (" !" if peer is not None and side.waves < peer.waves else "")
    yield str(side.vgprs)
    yield number("spills", "d")
    yield "" if side.rel_err is None else f"{side.rel_err:.1e}"
    more = f" and {len(side.findings) - 1} more" if len(side.findings) > 1 else ""
    yield f"{side.findings[0]}{more}" if side.findings else "nothing"


def rows(problem: Problem, checkout: Path) -> Iterator[dict[str, Any]]:
    """Yield the row of each instruction set, printing its lines."""
    for isa in problem.isas:
        peer, own = peer_side(problem, isa, checkout), own_side(problem, isa)
        print("|", " | ".join(cells(problem, isa, peer, None)), "|", flush=True)
        if isinstance(own, Side):
            print("|", " | ".join(cells(problem, isa, own, peer)), "|", flush=True)
        else:
            print(f"{problem.name} for {isa}: {own}", file=sys.stderr)
        yield {
            "problem": asdict(replace(problem, reference="")),
            "isa": isa,
            "flydsl": asdict(peer),
            "kgen": asdict(own) if isinstance(own, Side) else None,
            "kgen_is_absent": own if isinstance(own, str) else None,
        }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flydsl", type=Path, required=True, metavar="CHECKOUT", help="checkout of ROCm/FlyDSL")
    parser.add_argument("--rows", nargs="*", default=[], metavar="WORD", help="only rows whose names hold one of these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    arguments = parser.parse_args()
    if not (arguments.flydsl / "kernels").is_dir():
        parser.error(f"{arguments.flydsl} has no folder kernels: it is no checkout of ROCm/FlyDSL")
    print("|", " | ".join(COLUMNS), "|")
    print("|" + "---|" * len(COLUMNS))
    chosen = [p for p in PROBLEMS if not arguments.rows or any(word in p.name for word in arguments.rows)]
    found = [row for problem in chosen for row in rows(problem, arguments.flydsl.resolve())]
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
