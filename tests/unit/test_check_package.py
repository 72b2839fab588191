"""Reading plan.json: what a check needs of it, and every way it can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from kgen.check.package import Expectation, read_package
from kgen.errors.check import NotAPackageError, PlanFileError

PLAN: dict[str, Any] = {
    "name": "gemm",
    "target": {"device": "h200", "arch": "sm_90a"},
    "kernel_digest": "0" * 64,
    "evidence": [{"variant": "tma", "mma": "HGMMA", "threads": 384, "spills": 0}],
}


def write(folder: Path, plan: Any) -> Path:
    (folder / "kernel.py").write_text("VARIANTS = ()\n")
    (folder / "plan.json").write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return folder


def test_reads_what_the_plan_expects(tmp_path: Path) -> None:
    package = read_package(write(tmp_path, PLAN | {"candidates": ["not", "read"]}))
    assert (package.name, package.device, package.arch) == ("gemm", "h200", "sm_90a")
    assert package.expectation("tma") == Expectation("tma", mma="HGMMA", threads=384, spills=0)
    assert package.expectation("other") is None
    assert package.is_edited
    assert not read_package(write(tmp_path, PLAN | {"kernel_digest": package.kernel_digest})).is_edited


@pytest.mark.parametrize("missing", ["kernel.py", "plan.json"])
def test_a_folder_without_its_files_is_no_package(tmp_path: Path, missing: str) -> None:
    write(tmp_path, PLAN)
    (tmp_path / missing).unlink()
    with pytest.raises(NotAPackageError, match=f"{missing} is missing"):
        read_package(tmp_path)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("{", "not valid JSON"),
        ([], "expected a JSON object, found list"),
        ({"name": "x"}, "the field 'target' is missing"),
        (PLAN | {"name": 3}, "'name' must be a str, found 3"),
        (PLAN | {"target": {"device": "h200"}}, "the field 'arch' is missing"),
        (PLAN | {"evidence": [3]}, r"evidence\[0\] must be an object with a 'variant', found 3"),
        (PLAN | {"evidence": [{"variant": "a", "mna": "HGMMA"}]}, r"evidence\[0\] has an unknown field 'mna'; known:"),
        (PLAN | {"evidence": [{"variant": "a", "threads": True}]}, r"evidence\[0\].threads must be a int, found True"),
        (PLAN | {"evidence": [{"variant": "a"}, {"variant": "a"}]}, "evidence names the variant 'a' twice"),
    ],
)
def test_a_wrong_plan_is_refused_with_what_is_wrong(tmp_path: Path, plan: Any, message: str) -> None:
    with pytest.raises(PlanFileError, match=message):
        read_package(write(tmp_path, plan))
