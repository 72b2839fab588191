"""Collections for the tests of the dashboard: the golden packages, and as many as wanted in every state."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from kgen.dashboard.collect import Collection, collect
from kgen.dashboard.plans import PackagePlan
from kgen.dashboard.rows import Row, row_of_package, row_of_records
from kgen.records import Kind, Record, Status, bench_record

GENERATED = Path(__file__).parents[2] / "generated"
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)> & \u2028 ]]> <!-- \"'"
BEFORE, AFTER = "2026-11-28T06:00:00+00:00", "2026-11-29T06:30:00+00:00"
BAND = "interleaved A B B A, 40 rounds of graph, parity band 2.0%, against the reference"


def record(package: PackagePlan, kind: Kind = Kind.CHECK, status: Status = Status.OK, **given: object) -> Record:
    """Return a record of a package's kernel; what is not given is plain."""
    fields: dict[str, object] = {
        "spec": package.facts.name,
        "spec_digest": "5" * 64,
        "device": package.device,
        "device_digest": None,
        "probe": None,
        "kernel_digest": package.kernel_digest,
        "kgen": "templates 0123456789ab",
        "toolchain": {"torch": "2.11.0", "nvidia-cutlass-dsl": "4.8.1"},
        "host": "node-7",
        "gpu": None,
        "status": status,
        "error": None if status is Status.OK else "it does not hold",
        "case": None,
        "how": "compiled",
        "figures": {},
        "plan": None,
        "at": AFTER,
    }
    return Record(kind=kind, **{**fields, **given})  # type: ignore[arg-type]


def bench(package: PackagePlan, ratio: float, *, at: str = AFTER, half: float = 0.004, **given: object) -> Record:
    """Return a measurement of the first case at `ratio` of the incumbent's time, twice what was predicted."""
    case = next(iter(package.facts.work))
    us = 2 * package.facts.predicted_us(case)
    figures = {
        "latency_us": us,
        "ref_latency_us": us / ratio,
        "ratio": ratio,
        "ratio_low": ratio - half,
        "ratio_high": ratio + half,
        "registers": 168.0,
    }
    base = record(
        package, figures={}, at=at, gpu="NVIDIA H200", how=BAND, case=case, kind=Kind.BENCH, status=Status.FAILED
    )
    fields = {name: getattr(base, name) for name in Record.__slots__ if name not in ("kind", "status", "error")}
    return bench_record(failure=None, **{**fields, "figures": figures, **given})


@cache
def golden() -> Collection:
    """Return what is in generated/."""
    return collect([GENERATED], None)


@cache
def packages() -> tuple[PackagePlan, ...]:
    """Return the golden packages with one case, whose mean is that case's."""
    return tuple(row.package for row in golden().rows if row.package and len(row.cases) == 1)


def states(package: PackagePlan) -> tuple[tuple[Record, ...], ...]:
    """Return records of a package that give it each verdict, and changes."""
    return (
        (),
        (record(package),),
        (record(package, how="compiled; simulated, not timed"),),
        (record(package, at=BEFORE), bench(package, 0.8, at=BEFORE), bench(package, 0.9)),
        (bench(package, 1.01),),
        (bench(package, 1.02, at=BEFORE), bench(package, 1.4, half=0.2)),
        (bench(package, 1.2, how=BAND.replace("2.0%", "4.5%")),),
        (
            record(package, at=BEFORE),
            record(package, Kind.CHECK, Status.FAILED, error="rel_err 0.4 > 0.01"),
        ),
        (record(package, Kind.BENCH, Status.ERROR, case="default", error="1 us is less than the 9 us allowed"),),
    )


def many(amount: int) -> Collection:
    """Return a collection of `amount` rows in all states, copies of the golden packages under other names."""
    devices = dict(golden().devices)
    rows: list[Row] = []
    while len(rows) < amount:
        index = len(rows)
        package = packages()[index % len(packages())]
        turn = index // len(packages())
        name = f"{package.facts.name}_{turn:02d}"
        copy = replace(
            package, folder=f"{package.folder}_{turn:02d}", facts=package.facts.model_copy(update={"name": name})
        )
        rows.append(row_of_package(copy, devices[copy.device], states(copy)[(index * 7 + turn) % 9]))
    return replace(golden(), rows=tuple(sorted(rows, key=lambda row: (row.name, row.device))))


def of_states(*more: Row) -> Collection:
    """Return one row of each state, a refusal, and `more`."""
    given = packages()[:9]
    rows = [row_of_package(p, dict(golden().devices)[p.device], states(p)[i]) for i, p in enumerate(given)]
    refused = record(given[0], Kind.EMIT, Status.REFUSED, spec="conv_bf16", kernel_digest=None, error="not covered")
    return with_rows([*rows, row_of_records("conv_bf16", given[0].device, [refused]), *more])


def with_rows(rows: Sequence[Row]) -> Collection:
    """Return the golden collection with other rows."""
    return replace(golden(), rows=tuple(sorted(rows, key=lambda row: (row.name, row.device))))
