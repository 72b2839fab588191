"""`generated/` holds what emission writes today: every spec on each of its targets, byte for byte."""

import json
from functools import cache
from pathlib import Path

import pytest

from kgen.package.folder import GENERATOR, PLAN_FILE, compare_package
from kgen.pipeline import run
from kgen.spec.load import load_spec
from kgen.spec.model import Spec
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "generated"
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
JOBS = [(path, target) for path in SPECS for target in load_spec(path).targets]


@cache
def spec_of(path: Path) -> Spec:
    return load_spec(path)


@pytest.mark.parametrize(("path", "target"), JOBS, ids=[f"{target}-{path.stem}" for path, target in JOBS])
def test_the_package_is_what_emission_writes(path: Path, target: str) -> None:
    device = load_device(target)
    folder = GENERATED / device.name / spec_of(path).name
    differences = compare_package(run(spec_of(path), device).made["render"], folder)
    assert not differences, f"{folder.relative_to(ROOT)} is stale; `kgen emit --all` writes it anew\n{differences}"


def test_every_package_has_its_spec() -> None:
    wanted = {GENERATED / load_device(target).name / spec_of(path).name for path, target in JOBS}
    there = {plan.parent for plan in GENERATED.glob(f"*/*/{PLAN_FILE}")}
    assert there == wanted
    for folder in there:
        assert json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))["generator"] == GENERATOR


def test_there_are_enough_to_read() -> None:
    assert len(JOBS) >= 16 and {target for _, target in JOBS} >= {"h200", "h20"}


def test_h20_is_planned_for_its_own_ridge_point() -> None:
    """With a quarter of the tensor throughput, other tiles win on at least some of the shapes."""

    def choices(device: str) -> dict[str, list[dict[str, object]]]:
        plans = {plan.parent.name: json.loads(plan.read_text()) for plan in (GENERATED / device).glob(f"*/{PLAN_FILE}")}
        return {name: [v["choice"]["choices"] for v in plan["variants"]] for name, plan in plans.items()}

    h200, h20 = choices("h200"), choices("h20")
    assert h20.keys() <= h200.keys()
    assert [name for name in h20 if h200[name] != h20[name]]
