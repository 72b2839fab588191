"""What the steps of a run found -> parts of the report: speeds, geometry, instruction targets, the plan's facts."""

import json
from pathlib import Path
from typing import Any

import bench_reports as made_up
import pytest
from bench_machine import emitted, kernel

from kgen.bench.assemble import case_of, code_of, isa_targets, peaks_of, sources_of
from kgen.bench.geometry import geometry_of
from kgen.bench.measure import Measured
from kgen.bench.plan_facts import PlanFacts, read_plan, read_shapes
from kgen.bench.report import Agreement, Gpu, IsaTarget, Machine
from kgen.check.evidence import MmaSites
from kgen.check.package import Expectation
from kgen.check.result import VariantEvidence
from kgen.errors.check import NotAPackageError, PlanFileError
from kgen.target import Device, load_device

H200, H20 = load_device("h200"), load_device("h20")
FLOPS, READ, WRITTEN = 2 * 4096**3, 2 * 4096**2 * 2, 4096**2 * 2
PASS = {"status": "PASS", "failures": [], "rel_err": 2e-3, "max_abs_err": 0.5, "max_rel_err": 0.01}


def choice(ctas: int = 512, ctas_per_unit: int = 1) -> dict[str, Any]:
    derived = {"threads": 384, "smem_bytes": 200_000, "ctas_per_unit": ctas_per_unit, "acc_regs": 128}
    return {"choices": {"tile_m": 128}, "derived": derived, "time_us": 200.0, "bound_by": "mma", "ctas": ctas}


def facts(**fields: Any) -> PlanFacts:
    """Return the plan of one case, of 4096^3 in bf16; `ctas` and `ctas_per_unit` are its grid."""
    grid = {name: fields.pop(name) for name in ("ctas", "ctas_per_unit") if name in fields}
    work = {"flops": FLOPS, "bytes_read": READ, "bytes_written": WRITTEN}
    named = {
        "name": "made_up",
        "family": "gemm",
        "computation": ["a @ b"],
        "files": ["kernel.py"],
        "tolerance": {"rel_err": 0.01, "atol": None},
        "product_dtype": "bf16",
        "outputs": [{"name": "out", "dtype": "bf16"}],
        "work": {"one": work},
        "incumbent": None,
        "constraints": [],
        "variants": [
            {"name": "one_tma", "case": "one", "kernel": "made_up", "choice": choice(**grid), "runners_up": [choice()]}
        ],
    }
    return PlanFacts.model_validate(named | fields)


def measured(us: float, incumbent_us: float | None = None, units: int = 132, **fields: Any) -> Measured:
    gpu = Gpu(name="Made-up GPU", isa="sm_90", compute_units=units, l2_bytes=None, driver=None)
    incumbent = made_up.arm(us if incumbent_us is None else incumbent_us)
    comparison = made_up.comparison(1.0, kgen_us=us, incumbent=incumbent)
    agreement = Agreement(rel_err=0.0, limit=0.01, operand_scale=1.0, decides=False)
    machine = Machine(gpu=gpu, python="3.11", versions={})
    return Measured(**{**_named(machine, agreement, comparison), **fields})


def _named(machine: Machine, agreement: Agreement, comparison: Any) -> dict[str, Any]:
    parts = {"machine": machine, "agreement": agreement, "comparison": comparison}
    return {**parts, "cubins": {}, "libraries": ()}


def case(latency_us: float | None, found: Measured | None = None, device: Device = H200, **tested: Any) -> Any:
    return case_of(facts(), device, "one", {**PASS, "latency_us": latency_us, **tested}, found, "")


def test_speeds_follow_from_the_work_of_the_whole_problem() -> None:
    found = case(200.0, latency_us_p10=195.0, latency_us_p90=210.0, ref_latency_us=220.0)
    speed = found.speed
    assert speed.latency_us == 200.0 and (speed.latency_us_p10, speed.latency_us_p90) == (195.0, 210.0)
    assert speed.tflops == pytest.approx(FLOPS / 200e-6 / 1e12)
    assert speed.bandwidth_gbps == pytest.approx((READ + WRITTEN) / 200e-6 / 1e9)
    assert speed.tflops_peak_utilization_pct == pytest.approx(100 * FLOPS / 200e-6 / 989e12)
    assert speed.bandwidth_peak_utilization_pct == pytest.approx(100 * (READ + WRITTEN) / 200e-6 / 4.8e12)
    assert speed.roofline_us == pytest.approx(FLOPS / 989e12 * 1e6) and speed.bound == "compute_bound"
    assert speed.ref_latency_us == 220.0 and found.measurement_error is None and found.note is None
    assert (found.flops, found.bytes_read, found.bytes_written) == (FLOPS, READ, WRITTEN)


def test_more_than_all_of_a_peak_that_nobody_vouches_for_is_no_utilization() -> None:
    speed = case(200.0, device=H20).speed  # 687 TFLOP/s, where the device file doubts that it has 148
    assert speed.tflops == pytest.approx(687.2, abs=0.1)
    assert speed.tflops_peak_utilization_pct is None and speed.bound is None
    assert 0 < speed.bandwidth_peak_utilization_pct < 100


def test_more_than_all_of_a_trusted_peak_is_a_measurement_error() -> None:
    found = case(100.0, measured(200.0))
    assert found.speed is None and found.comparison is None
    assert found.measurement_error.startswith("test_kernel.py: 139 % of the dense bf16 peak (989 TFLOP/s")


@pytest.mark.parametrize(("kgen_us", "incumbent_us", "arm"), [(100.0, 200.0, "kgen"), (200.0, 100.0, "incumbent")])
def test_an_impossible_time_of_either_arm_takes_all_speeds(kgen_us: float, incumbent_us: float, arm: str) -> None:
    found = case(200.0, measured(kgen_us, incumbent_us))
    assert found.speed is None and found.comparison is None and found.agreement is not None
    assert found.measurement_error.startswith(f"{arm}: 139 % of") and ";" not in found.measurement_error


def test_an_error_that_the_test_found_is_passed_on() -> None:
    found = case(None, measurement_error="50 us is above the roofline")
    assert found.speed is None and found.measurement_error == "50 us is above the roofline"


def test_what_fails_or_was_not_timed_has_no_speed() -> None:
    assert case(None).speed is None and case(None).measurement_error is None
    failed = case(200.0, status="FAIL", failures=["one: wrong", 3], rel_err=0.5)
    assert failed.speed is None and failed.correctness.failures == ("one: wrong", "3")
    assert case(200.0, measured(200.0, comparison=None)).speed is None  # the arms disagree, and that decides
    assert case_of(facts(), H200, "one", PASS, None, "not timed").note == "not timed"


def test_units_are_those_of_the_measured_device() -> None:
    assert case(200.0, measured(200.0, units=78)).geometry.compute_units == 78
    assert case(200.0).geometry.compute_units == 132


ROOM = "run at once on the 132 units read from the device"


@pytest.mark.parametrize(
    ("ctas", "per_unit", "waves", "last", "statement"),
    [
        (99, 1, 1, 99, f"99 CTAs, 132 {ROOM}: one grid wave, 75.0% full; 25.0% of the units idle"),
        (132, 1, 1, 132, f"132 CTAs, 132 {ROOM}: one grid wave, 100.0% full; 0.0% of the units idle"),
        (
            512,
            1,
            4,
            116,
            f"512 CTAs, 132 {ROOM}: 512 / 132 = 4 grid waves, the last with 116; wave quantization explains at most "
            "3.0% of the time",
        ),
        (528, 2, 2, 264, f"528 CTAs, 264 {ROOM}: 528 / 264 = 2 grid waves, the last with 264; no wave quantization"),
        (
            265,
            2,
            2,
            1,
            f"265 CTAs, 264 {ROOM}: 265 / 264 = 2 grid waves, the last with 1; wave quantization explains at most "
            "49.8% of the time",
        ),
    ],
)
def test_grid_waves_in_words(ctas: int, per_unit: int, waves: int, last: int, statement: str) -> None:
    found = geometry_of(facts(ctas=ctas, ctas_per_unit=per_unit), "one", H200, 132)
    assert found is not None and (found.waves, found.last_wave) == (waves, last)
    assert found.statement == statement and found.variant == "one_tma"
    assert found.slots == 132 * per_unit and found.efficiency == pytest.approx(ctas / (waves * found.slots))


def test_nothing_launched_has_no_geometry() -> None:
    assert geometry_of(facts(ctas=0), "one", H200, 132) is None


def targets(kernels: tuple[Any, ...], **expected: Any) -> dict[str, IsaTarget]:
    rows = isa_targets([Expectation("one_tma", **expected)], [VariantEvidence("one_tma", kernels=kernels)])
    assert all(row.metric.startswith("one_tma: ") for row in rows)
    return {row.metric.removeprefix("one_tma: "): row for row in rows}


PLANNED = {"mma": "HGMMA", "tma_loads": True, "tma_stores": True, "multicast": True, "spills": 0}


def test_instruction_targets_that_are_met() -> None:
    found = targets((kernel(),), **PLANNED)
    assert {name: (row.target, row.current) for name, row in found.items()} == {
        "tensor-core instructions": ("HGMMA", "HGMMA"),
        "TMA loads": ("at least 1", "2"),
        "TMA stores": ("at least 1", "1"),
        "TMA multicast loads": ("at least 1", "2"),
        "spills": ("at most 0", "0"),
    }
    assert all(row.met for row in found.values())
    staged = kernel(mma=(), tma_loads=0, tma_stores=0, tma_multicasts=0)
    nothing = {"mma": "none", "tma_loads": False, "tma_stores": False, "multicast": False, "spills": 2}
    assert all(row.met for row in targets((staged,), **nothing).values())
    assert targets((kernel(),)) == {}  # what is not stated is no target


@pytest.mark.parametrize(
    ("fields", "metric", "current"),
    [
        ({"mma": ()}, "tensor-core instructions", "none"),
        ({"mma": (MmaSites("HMMA", "16x8x16", 4),)}, "tensor-core instructions", "HMMA"),
        (
            {"mma": (MmaSites("HMMA", "16x8x16", 4), MmaSites("HGMMA", "64x256x16", 4))},
            "tensor-core instructions",
            "HGMMA, HMMA",
        ),
        ({"tma_loads": 0}, "TMA loads", "0"),
        ({"tma_stores": 0}, "TMA stores", "0"),
        ({"tma_multicasts": 0}, "TMA multicast loads", "0"),
        ({"spill_loads": 2, "spill_stores": 1}, "spills", "3"),
    ],
)
def test_an_instruction_target_that_is_missed(fields: dict[str, Any], metric: str, current: str) -> None:
    found = targets((kernel(**fields),), **PLANNED)
    assert [name for name, row in found.items() if not row.met] == [metric]
    assert found[metric].current == current


def test_a_variant_that_was_not_compiled_meets_nothing() -> None:
    assert not any(row.met for row in targets((), mma="none", tma_loads=False, spills=0).values())


def test_peaks_and_their_sources() -> None:
    peaks = peaks_of(H200, "bf16")
    assert [(p.name, p.value, p.confidence) for p in peaks][:2] == [
        ("dense peak bf16", 989, "medium"),
        ("memory bandwidth", 4.8, "medium"),
    ]
    assert [s.id for s in sources_of(peaks)] == ["uw_h200", "aiwiki_h200", "h200_driver"]
    assert [p.name for p in peaks_of(H200, "fp4")] == ["memory bandwidth", "compute units"]
    code = code_of([VariantEvidence("one_tma", arch="sm_90a", kernels=(kernel(),)), VariantEvidence("lost")])
    assert [(c.arm, c.origin) for c in code] == [("kgen", "one_tma")]
    assert code[0].kernels[0].mma == {"HGMMA.64x256x16.F32.BF16": 4}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emitted(tmp_path_factory.mktemp("package"))


def test_the_facts_of_an_emitted_package(package: Path) -> None:
    plan = read_plan(package)
    assert plan.product_dtype == "bf16" and plan.work["small"].flops == 2 * 512 * 1024 * 512
    (variant,) = plan.variants_of("large")
    assert variant.case == "large" and "384 threads" in variant.words
    assert plan.slowest_of("large") == variant and plan.predicted_us("large") == variant.choice.time_us
    assert list(read_shapes(package)) == ["small", "large", "empty"]


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("name",), None, "name: Field required"),
        (("work", "small", "bytes_read"), None, r"work\.small\.bytes_read: Field required"),
        (("variants", 0, "choice", "time_us"), "soon", r"variants\.0\.choice\.time_us: Input should be a valid number"),
        (
            ("variants", 0, "choice", "derived", "ctas_per_unit"),
            None,
            r"variants\.0\.choice\.derived\.ctas_per_unit: F",
        ),
        ((), [], "the document: Input should be a valid dictionary"),
    ],
)
def test_a_field_that_is_wrong_is_named(package: Path, tmp_path: Path, path: Any, value: Any, reason: str) -> None:
    plan = json.loads((package / "plan.json").read_text())
    holder = plan
    for name in path[:-1]:
        holder = holder[name]
    if not path:
        plan = value
    elif value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(PlanFileError, match=rf"plan\.json: {reason}"):
        read_plan(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotAPackageError, match=r"is not a kgen package: plan\.json is missing"):
        read_plan(tmp_path)
    with pytest.raises(NotAPackageError, match=r"shapes\.json is missing"):
        read_shapes(tmp_path)
    for text in (b"{", b"\xff"):
        (tmp_path / "shapes.json").write_bytes(text)
        with pytest.raises(PlanFileError, match=r"shapes\.json: not valid JSON"):
            read_shapes(tmp_path)
