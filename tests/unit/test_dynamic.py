"""A spec that leaves an extent to run time: its test values, its plan, the kernel.py for all values, refusals."""

import json
import sys
from pathlib import Path
from typing import Any

import emitted_specs
import pytest
from command_line import kgen, kgen_json

from kgen.errors.base import UnsupportedError
from kgen.errors.dynamic import (
    DynamicBackendError,
    DynamicMeaningError,
    DynamicProgramError,
    DynamicResultError,
    DynamicTuneError,
)
from kgen.ir.tensor import ExtentRange
from kgen.pipeline import run
from kgen.planning.plan import Dynamic
from kgen.spec.dynamic import representative
from kgen.spec.load import parse_spec
from kgen.spec.model import Spec
from kgen.target import load_device
from kgen.tune import goal_of


def dynamic_of(name: str) -> Dynamic:
    dynamic = emitted_specs.plan_of(name).dynamic
    assert dynamic is not None
    return dynamic


@pytest.mark.parametrize(
    ("extent", "values"),
    [
        (ExtentRange("M", 1, 64), (1, 4, 13, 16, 49, 64)),
        (ExtentRange("M", 0, 5), (0, 1, 4, 5)),
        (ExtentRange("M", 8, 200, 8), (8, 16, 56, 64, 200)),
        (ExtentRange("M", 100, 101), (100, 101)),
    ],
)
def test_values_that_stand_for_a_range(extent: ExtentRange, values: tuple[int, ...]) -> None:
    assert representative(extent) == values


def test_cases_are_values_of_the_range() -> None:
    spec = emitted_specs.spec_of("dynamic_rows")
    assert [c.id for c in spec.cases] == ["B_4", "B_20", "B_196", "B_256"]  # those of the spec, and two that end it
    assert spec.dynamic is not None and str(spec.dynamic.range) == "B[4..256 step 4]"


def test_a_range_that_cases_bind_is_none_of_run_time() -> None:
    text = emitted_specs.DYNAMIC.replace("  K: 4096\n", "  K: 4096\ncases:\n  few: {M: 8}\n")
    spec = parse_spec(text, Path("specs/dynamic.yaml"))
    assert spec.dynamic is None and [c.id for c in spec.cases] == ["few"]


@pytest.mark.parametrize("name", emitted_specs.OF_RUN_TIME)
def test_the_table_covers_the_range(name: str) -> None:
    dynamic, names = dynamic_of(name), [v.name for v in emitted_specs.plan_of(name).variants]
    assert len(set(names)) == len(names)
    step = dynamic.extent.multiple_of
    assert dynamic.intervals[0].first <= max(dynamic.extent.lo, step)
    assert dynamic.intervals[-1].last == dynamic.extent.hi
    for one, other in zip(dynamic.intervals, dynamic.intervals[1:], strict=False):
        assert other.first == one.last + 1
    assert {n for i in dynamic.intervals for n in i.variants} == set(names)
    assert all(i.because and i.time_us >= i.best_us for i in dynamic.intervals)


def test_what_follows_from_the_extent() -> None:
    rows = dynamic_of("dynamic_rows")
    assert (rows.source, rows.axis, rows.scale, rows.offset) == (("x", 0), "m", 6, 0)
    assert dynamic_of("dynamic").source == ("x", 0)


def test_each_test_case_has_the_variants_of_its_row() -> None:
    plan, dynamic = emitted_specs.plan_of("dynamic"), dynamic_of("dynamic")
    for case in emitted_specs.spec_of("dynamic").cases:
        value = case.value("M")
        row = next(i for i in dynamic.intervals if value <= i.last)
        (kernel,) = plan.kernels_of(case.id)
        found = plan.variants_of(case.id, kernel)
        assert tuple(v.name for v in found) == row.variants
        assert all(value in (v.facts.m, v.form.m, v.form.n) for v in found)  # type: ignore[union-attr]


def test_plan_json_has_the_table_with_its_reasons() -> None:
    document = json.loads(emitted_specs.files_of("dynamic")["plan.json"])
    table = document["dynamic"]["table"]
    assert [row["last"] for row in table][-1] == 1024 and all(row["because"] for row in table)
    assert {v["case"] for v in document["variants"]} == {c.id for c in emitted_specs.spec_of("dynamic").cases}
    assert {p["name"] for p in document["dynamic"]["plans"]} == {e["variant"] for e in document["evidence"]}
    assert "dynamic" not in json.loads(emitted_specs.files_of("plain")["plan.json"])


def test_the_readme_shows_the_table() -> None:
    readme = emitted_specs.files_of("dynamic")["README.md"]
    assert "## Which plan serves which M" in readme
    assert readme.count("| from_") >= len(dynamic_of("dynamic").intervals)
    assert "Which plan" not in emitted_specs.files_of("plain")["README.md"]


def table_of(name: str) -> Any:
    """Return the function of a kernel.py that finds a row by shapes, run without the DSL."""
    text = emitted_specs.files_of(name)["kernel.py"]
    start, end = text.index("PLAN = ("), text.index("def compile_variant")
    scope: dict[str, Any] = {}
    exec(f"from functools import lru_cache\n{text[start:end]}", scope)
    return scope["planned"]


def test_a_call_finds_its_row_by_the_extent() -> None:
    planned, weight = table_of("dynamic"), ((2048, 4096), (2048,))
    rows = dynamic_of("dynamic").intervals
    for value in (1, 2, *(i.last for i in rows), *(i.first for i in rows)):
        shape, stride, variants = planned(((value, 4096), *weight, (value, 2048)))
        assert (shape, stride) == ((value, 2048), (2048, 1))
        assert tuple(variants) == next(i.variants for i in rows if i.first <= value <= i.last)
    assert planned(((0, 4096), *weight, (0, 2048))) == ((0, 2048), (2048, 1), {})


@pytest.mark.parametrize(
    "shapes",
    [
        ((1025, 4096), (2048, 4096), (2048,), (1025, 2048)),
        ((8, 4096), (2048, 4096), (2048,), (9, 2048)),
        ((8, 4095), (2048, 4096), (2048,), (8, 2048)),
        ((8, 4096, 1), (2048, 4096), (2048,), (8, 2048)),
        ((), (2048, 4096), (2048,), (8, 2048)),
    ],
    ids=["beyond the range", "two values", "another k", "an axis more", "a scalar"],
)
def test_other_shapes_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    assert table_of("dynamic")(shapes) is None


def test_a_multiple_is_asked_for() -> None:
    planned = table_of("dynamic_rows")
    assert planned(((8, 6, 100), (99, 100)))[0] == (48, 99)
    assert planned(((6, 6, 100), (99, 100))) is None and planned(((2, 6, 100), (99, 100))) is None
    assert planned(((0, 6, 100), (99, 100)))[2] == {}


def test_no_extent_of_run_time_is_a_constant_of_the_device_code() -> None:
    text = emitted_specs.files_of("dynamic")["kernel.py"]
    assert "extent = x.shape[0]" in text and "v = at_run_time(v, extent)" in text
    assert "(cutlass.BFloat16, (EXTENT, 4096), (4096, 1), 16),  # x" in text
    assert "M from 1 to 1024" in text


def test_two_values_of_a_row_share_what_was_compiled() -> None:
    """The host function asks `compiled` by a variant's name, and the name is all that a row gives it."""
    planned, weight = table_of("dynamic"), ((2048, 4096), (2048,))
    row = max(dynamic_of("dynamic").intervals, key=lambda i: i.last - i.first)
    one, other = (planned(((v, 4096), *weight, (v, 2048)))[2] for v in (row.first, row.last))
    assert one is other


def spec_from(text: str) -> Spec:
    return parse_spec(text, Path("specs/dynamic.yaml"))


def refusal(text: str, device: str = "h200") -> UnsupportedError:
    with pytest.raises(UnsupportedError) as found:
        run(spec_from(text), load_device(device), stop_after="view")
    assert found.value.where is not None and found.value.where.line > 1
    return found.value


def test_cdna_has_no_such_kernel() -> None:
    error = refusal(emitted_specs.DYNAMIC, "mi300x")
    assert isinstance(error, DynamicBackendError)
    assert "M is left to run time" in str(error) and "list cases that bind M" in str(error)


def _reference(body: str, inputs: str, extents: str = "  M: {range: [1, 512]}\n") -> str:
    return f"name: case\nreference: |\n  def f(x, y):\n      return {body}\ninputs:\n{inputs}extents:\n{extents}"


X = "  x: {shape: [M, 64], dtype: bf16}\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (_reference("x.softmax(-1) + y", X + "  y: {shape: [64], dtype: bf16}\n"), DynamicProgramError),
        (_reference("(x @ y).softmax(-1)", X + "  y: {shape: [64, 64], dtype: bf16}\n"), DynamicProgramError),
        (
            _reference("x @ y", X.replace("bf16", "fp32") + "  y: {shape: [64, 64], dtype: fp32}\n"),
            DynamicProgramError,
        ),
        (_reference("x @ x.T + y", X + "  y: {shape: [1], dtype: bf16}\n"), DynamicResultError),
        (_reference("x.T @ y", X + "  y: {shape: [M, 64], dtype: bf16}\n"), DynamicMeaningError),
        (_reference("y @ x.T", X + "  y: {shape: [64, 64], dtype: bf16}\n"), DynamicResultError),
        (
            _reference(
                "x @ y",
                "  x: {shape: [M, 32, 64], dtype: bf16}\n  y: {shape: [M, 64, 64], dtype: bf16}\n",
            ),
            DynamicMeaningError,
        ),
    ],
    ids=["loop", "two kernels", "fp32", "both sides", "k", "columns of the result", "batch"],
)
def test_what_no_kernel_takes_at_run_time(text: str, error: type[UnsupportedError]) -> None:
    assert isinstance(refusal(text), error)


def test_no_value_is_tuned_for_others() -> None:
    with pytest.raises(DynamicTuneError) as found:
        goal_of(spec_from(emitted_specs.DYNAMIC), "h200")
    assert found.value.where is not None and "M is left to run time" in str(found.value)


def test_an_operator_describes_results_of_every_value() -> None:
    made = run(spec_from(f"{emitted_specs.DYNAMIC}operator: mine::linear\n"), load_device("h200")).made["render"]
    text = made["kernel.py"]
    assert "@operator.register_fake" in text and "RESULTS" not in text
    assert "return torch.empty_strided((extent, 2048), (2048, 1), dtype=torch.bfloat16, device=x.device)" in text


def test_solve_shows_the_table(tmp_path: Path) -> None:
    (tmp_path / "dynamic.yaml").write_text(emitted_specs.DYNAMIC)
    asked = ("solve", "dynamic.yaml", "--target", "h200")
    (result,) = kgen_json(tmp_path, *asked)["results"]
    assert result["extent"] == "M" and result["range"] == [1, 1024]
    assert [row["last"] for row in result["table"]] == [i.last for i in dynamic_of("dynamic").intervals]
    assert {v["name"] for v in result["variants"]} == {v.name for v in emitted_specs.plan_of("dynamic").variants}
    shown = kgen(tmp_path, *asked).stdout
    assert "which plan serves which M" in shown and "--case M_1024" in shown
    (ranked,) = kgen_json(tmp_path, *asked, "--case", "M_64", "--top", "1")["results"]
    assert ranked["facts"]["m"] == 64


def test_the_benchmark_compares_with_the_same_product_of_fixed_rows() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import dynamic as benchmark

    spec = benchmark.fixed_at(emitted_specs.spec_of("dynamic"), 64)
    assert spec.dynamic is None and dict(spec.extents) == {"M": 64, "N": 2048, "K": 4096}
    made = run(spec, load_device("h200"), stop_after="plan").made["plan"]
    assert made.dynamic is None and {v.facts.m for v in made.variants} == {64}
