"""`kgen diff` on folders and records: packages paired, other versions judged here, what cannot be read refused."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import kgen, kgen_json
from diff_devices import device_file

from kgen import api
from kgen.diff.changes import Level
from kgen.diff.compare import compare_sides
from kgen.diff.explain import PackageDiff, Standing
from kgen.diff.reasons import Cause
from kgen.diff.sides import read_side
from kgen.errors.diff import NoRunError, NoSideError, NotPairedError, PlanUnreadableError
from kgen.records import Kind, Record, Store, bench_record, records_of_package

SPEC = """name: rows
reference: |
  import torch
  def rows(x):
      return torch.softmax(x, dim=-1)
inputs:
  x: {shape: [M, N], dtype: bf16}
extents: {M: 4096, N: 4096}
accepts: {base_alignment: 16}
"""


@contextmanager
def silent(total: int) -> Iterator[Callable[[str], None]]:
    yield lambda title: None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with specs/ and a package of the spec on the H200 and on a device that computes slowly."""
    root = tmp_path_factory.mktemp("diff")
    (root / "specs").mkdir()
    spec = root / "specs" / "rows.yaml"
    spec.write_text(SPEC)
    slow = device_file(root, "slow", compute_units=40, unit_lanes=24)
    api.emit(spec, target="h200", folder=root / "out" / "h200" / "rows")
    api.emit(spec, target=str(slow), folder=root / "out" / "slow" / "rows")
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "here"))


def slow_file(root: Path) -> str:
    return str(root / "of_slow/sm90a/devices/slow.yaml")


def compared(root: Path, a: Path | str, b: Path | str, *devices: str) -> PackageDiff:
    (package,) = compare_sides(str(a), str(b), root / "specs", devices, silent).packages
    return package


def edited(folder: Path, copy: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """Copy a package and change its plan.json."""
    shutil.copytree(folder, copy)
    plan = json.loads((copy / "plan.json").read_text())
    edit(plan)
    (copy / "plan.json").write_text(json.dumps(plan))
    return copy


def take_runner_up(plan: dict[str, Any]) -> None:
    """What another version could have chosen, with a time of its own."""
    variant = plan["variants"][0]
    variant["choice"] = {**variant["runners_up"].pop(0), "time_us": 99.5}


def test_packages_of_two_devices_are_planned_anew(root: Path) -> None:
    package = compared(root, root / "out/h200", root / "out/slow", slow_file(root))
    assert package.standings == (Standing.SAME, Standing.SAME) and not package.note
    assert package.is_turned and all(v.turn is not None and v.reason is not None for v in package.variants)


def test_a_package_carries_the_device_that_is_not_shipped(root: Path) -> None:
    package = compared(root, root / "out/h200", root / "out/slow")
    assert package == compared(root, root / "out/h200", root / "out/slow", slow_file(root))
    assert package.standings == (Standing.SAME, Standing.SAME) and not package.note


def test_a_device_that_is_not_shipped_nor_carried_has_to_be_named(root: Path) -> None:
    (root / "out/slow/rows/device.yaml").unlink()
    package = compared(root, root / "out/h200/rows", root / "out/slow/rows")
    assert package.is_turned and "unknown device 'slow'" in package.note and "--targets" in package.note
    (reason,) = package.reasons
    assert reason.cause is Cause.STATED and "A predicted" in reason.text and "B predicted" in reason.text


def test_a_package_is_equal_to_its_copy(root: Path) -> None:
    copy = shutil.copytree(root / "out/h200/rows", root / "copy")
    assert compared(root, root / "out/h200/rows", copy).is_equal


@pytest.mark.parametrize("other_first", [True, False])
def test_another_versions_choice_is_judged_by_the_compiler_at_hand(root: Path, other_first: bool) -> None:
    here = root / "out/h200/rows"
    other = edited(here, root / "other", take_runner_up)
    sides = (other, here) if other_first else (here, other)
    package = compared(root, *sides)
    assert set(package.standings) == {Standing.SAME, Standing.OTHER}
    (reason,) = package.reasons
    assert reason.cause in (Cause.TERM, Cause.PREFERENCE) and reason.judged is not None
    assert reason.judged.rank == 2 and "predicted 99.50 us" in reason.text
    assert reason.text.startswith("A's" if other_first else "B's")
    assert all(variant.turn is None for variant in package.variants)


def test_of_two_other_versions_only_what_they_state_is_told(root: Path) -> None:
    here = root / "out/h200/rows"

    def take_another(plan: dict[str, Any]) -> None:
        take_runner_up(plan)
        take_runner_up(plan)
        plan["variants"][0]["rejections"].append({"rule": "gone", "place": "x.rules:1", "removed": 1, "because": "why"})

    a, b = edited(here, root / "a", take_runner_up), edited(here, root / "b", take_another)
    package = compared(root, a, b)
    (reason,) = package.reasons
    assert package.standings == (Standing.OTHER, Standing.OTHER) and reason.cause is Cause.STATED
    assert "A had the other choice at rank 2" in reason.text
    assert "only in B these rules removed candidates: gone (x.rules:1: why)" in reason.text


def test_the_same_plan_in_another_text_names_the_template(root: Path) -> None:
    here = root / "out/h200/rows"

    def print_anew(plan: dict[str, Any]) -> None:
        plan["kernel_digest"] = "0" * 64
        plan["templates"] = {**plan["templates"], next(iter(plan["templates"])): "1" * 64}

    package = compared(root, here, edited(here, root / "other", print_anew))
    assert not package.is_equal and not package.is_turned and package.reason is not None
    assert package.reason.cause is Cause.TEXT and ".j2" in package.reason.text


def test_a_package_of_another_input_is_not_explained_by_this_spec(root: Path) -> None:
    here = root / "out/h200/rows"
    other = edited(here, root / "other", lambda plan: plan.update(input_digest="0" * 64))
    package = compared(root, other, here)
    assert package.standings == (Standing.OTHER_INPUT, Standing.SAME) and package.is_equal
    turned = edited(other, root / "turned", take_runner_up)
    (reason,) = compared(root, turned, here).reasons
    assert reason.cause is Cause.INPUT and "fixed axes differ" in reason.text


def test_other_tensors_are_another_input_with_no_spec_at_hand(root: Path) -> None:
    here = root / "out/h200/rows"

    def widen(plan: dict[str, Any]) -> None:
        plan["computation"] = [line.replace("4096,4096", "4096,8192") for line in plan["computation"]]

    (package,) = compare_sides(
        str(here), str(edited(here, root / "wide", widen)), root / "nowhere", [], silent
    ).packages
    (reason,) = package.reasons
    assert reason.cause is Cause.INPUT and "input x: bf16[4096,8192]" in reason.text
    assert "cannot read the spec" in package.note


def test_an_axis_that_another_version_lacks_is_named(root: Path) -> None:
    here = root / "out/h200/rows"

    def forget(plan: dict[str, Any]) -> None:
        del plan["variants"][0]["choice"]["choices"]["cluster"]
        plan["variants"][0]["choice"]["choices"]["depth"] = 3

    (reason,) = compared(root, edited(here, root / "other", forget), here).reasons
    assert reason.cause is Cause.AXIS
    assert reason.text.startswith("sm_90a has no depth; A's choice has no cluster; what both have: A's choice on h200")


def test_packages_of_several_devices_pair_by_device(root: Path) -> None:
    shutil.copytree(root / "out", root / "again")
    shutil.rmtree(root / "again/slow")
    found = compare_sides(str(root / "out"), str(root / "again"), root / "specs", [slow_file(root)], silent)
    assert [(p.pair.name, p.is_equal, p.note) for p in found.packages] == [
        ("rows on h200", True, ""),
        ("rows on slow", False, "only in A"),
    ]


def test_devices_that_share_none_are_refused(root: Path) -> None:
    edited(root / "out/h200/rows", root / "b/x/rows", lambda plan: plan["target"].update(device="x"))
    with pytest.raises(NotPairedError, match="A has packages for h200, slow, B for x"):
        compare_sides(str(root / "out"), str(root / "b"), root / "specs", [], silent)


def recorded(root: Path, kgen: str, at: str, latency_us: float, edit: Callable[[Any], object] | None = None) -> None:
    """Record a run: the package's plan, and one measurement."""
    (emitted,) = (r for r in records_of_package(root / "out/h200/rows") if r.kind is Kind.EMIT)
    variants = json.loads(emitted.plan or "")
    if edit is not None:
        edit({"variants": variants})
    row: Record = replace(emitted, kgen=kgen, at=at, plan=json.dumps(variants))
    fields = ("spec", "spec_digest", "device", "device_digest", "probe", "kernel_digest", "kgen", "host", "gpu", "at")
    kept = {name: getattr(row, name) for name in fields}
    speeds = {"latency_us": latency_us, "ratio": 10 / latency_us}
    intervals = {"ratio_low": 9.9 / latency_us, "ratio_high": 10.1 / latency_us}
    torch = {"toolchain": {"torch": f"2.{kgen[-1]}"}}
    bench = bench_record(
        failure=None, figures={**speeds, **intervals}, case="default", how="a test", plan=None, **torch, **kept
    )
    with Store.open(root / "runs.sqlite") as store:
        store.add([row, bench])


def test_two_runs_of_the_records_differ_in_speed_and_version(root: Path) -> None:
    recorded(root, "kgen 1", "2026-01-02T03:04:05+00:00", 10.0)
    recorded(root, "kgen 2", "2026-02-03T04:05:06+00:00", 12.0)
    runs = root / "runs.sqlite"
    package = compared(root, f"{runs}@kgen 1", f"{runs}@2026-02")
    told = {change.what: (change.a, change.b) for change in package.changes}
    assert told["default: latency_us"] == (10.0, 12.0) and told["torch"] == ("2.1", "2.2")
    assert told["kgen"] == ("kgen 1", "kgen 2")
    assert not package.is_turned and not package.is_equal
    assert compared(root, f"{runs}@kgen 2", runs).is_equal


def test_a_speed_inside_the_noise_is_no_change(root: Path) -> None:
    recorded(root, "kgen 1", "2026-01-02T03:04:05+00:00", 10.0)
    recorded(root, "kgen 2", "2026-02-03T04:05:06+00:00", 10.1)
    package = compared(root, f"{root}/runs.sqlite@kgen 1", f"{root}/runs.sqlite@kgen 2")
    assert {change.level for change in package.changes} == {Level.MADE_BY}


def test_a_choice_of_the_records_is_judged_too(root: Path) -> None:
    recorded(root, "kgen 1", "2026-01-02T03:04:05+00:00", 10.0, take_runner_up)
    package = compared(root, root / "runs.sqlite", root / "out/h200/rows")
    assert package.standings == (Standing.OTHER, Standing.SAME)
    (reason,) = package.reasons
    assert reason.judged is not None and reason.judged.rank == 2


def test_a_run_that_is_not_there_names_those_that_are(root: Path) -> None:
    recorded(root, "kgen 1", "2026-01-02T03:04:05+00:00", 10.0)
    with pytest.raises(NoRunError, match="no plan of 'kgen 9'"):
        read_side(f"{root}/runs.sqlite@kgen 9")
    with pytest.raises(NoRunError, match="2026-01-02, kgen 1"):
        read_side(f"{root}/runs.sqlite@2027")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("nothing", "there is no such file or folder"), ("empty", "holds no plan.json"), ("file", "no database")],
)
def test_what_is_no_side_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    with pytest.raises(NoSideError, match=reason):
        read_side(str(tmp_path / text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "it cannot be read"), ('{"generator": "x"}', "does not say"), ('{"generator": "kgen"}', "no 'evidence'")],
)
def test_a_plan_that_kgen_did_not_write_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(PlanUnreadableError, match=reason):
        read_side(str(tmp_path))


def test_exit_codes_and_json(root: Path) -> None:
    targets = ("--targets", slow_file(root))
    answer = kgen_json(root, "diff", "out/h200", "out/slow", *targets)
    assert answer["exit_code"] == 1 and answer["equal"] is False
    assert answer["counts"] == {"equal": 0, "figures": 0, "turned": 1, "alone": 0}
    (package,) = answer["packages"]
    assert package["a"]["device"] == "h200" and package["b"]["device"] == "slow" and package["turned"]
    (variant,) = package["variants"]
    assert {"cause", "text", "rules", "judged", "fed_by", "times_us"} == variant["reason"].keys()
    assert {"alone", "away", "together"} == variant["turned_by"].keys()
    assert {"level", "what", "a", "b"} == variant["changes"][0].keys()
    assert kgen_json(root, "diff", "out/h200", "out/h200")["exit_code"] == 0
    assert kgen_json(root, "diff", "out/h200", "nowhere")["error"] == "NoSideError"
    assert kgen_json(root, "diff", "out/h200")["error"] == "ArgumentsConflictError"
    both = kgen_json(root, "diff", "out/h200", "--spec", "specs", "--targets", "h200,h20")
    assert both["error"] == "ArgumentsConflictError" and both["exit_code"] == 2


def test_the_table_says_what_changed_and_why(root: Path) -> None:
    done = kgen(root, "diff", "--spec", "specs", "--targets", f"h200,{slow_file(root)}")
    assert done.returncode == 1, done.stderr
    assert "rows: h200 -> slow" in done.stdout and "predicted us" in done.stdout
    assert "on A turned by" in done.stdout and "1 package: 0 equal" in done.stdout
