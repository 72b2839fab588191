"""The texts of packages without a product: least work, ranges of indices, limits by element type, evidence."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kgen.frontend.importers import spec_from_callable
from kgen.package.input_ranges import index_extents
from kgen.package.input_text import input_text
from kgen.package.limits import element_factor, rel_errs
from kgen.package.parts import PackageParts, expected_evidence
from kgen.package.plan_json import plan_text
from kgen.package.readme import readme_view
from kgen.package.work import work_of
from kgen.pipeline import run
from kgen.spec.load import parse_spec
from kgen.spec.model import Spec
from kgen.target import load_device

BF16, FP32, INT64 = torch.bfloat16, torch.float32, torch.int64


SPEC = """
name: made_up
reference: |
  def reference(p, k, x):
      return p * x + k
inputs:
  p: {shape: [N], dtype: fp32, values: [0, 1]}
  k: {shape: [N], dtype: int32, values: [3, 6]}
  x: {shape: [N], dtype: fp32}
extents: {N: 4096}
"""


def parts_of(fn, *inputs: torch.Tensor) -> PackageParts:
    return parts_from(spec_from_callable(fn, inputs, "made_up"))


def parts_from(spec: Spec) -> PackageParts:
    made = run(spec, load_device("h200"), stop_after="plan").made
    return PackageParts(
        spec=spec,
        programs=tuple(made["partition"].items()),
        plan=made["plan"],
        kernel="VARIANTS = {}\n",
        kernel_template="package/test_kernel.py.j2",
        reference="",
        is_module=False,
        init_kwargs=(),
        evidence=expected_evidence(made["plan"]),
    )


def e(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def bytes_of(fn, *inputs: torch.Tensor) -> tuple[int, int]:
    (work,) = work_of(parts_of(fn, *inputs))
    return work.bytes_read, work.bytes_written


def test_inputs_are_read_once_and_results_written_once() -> None:
    x, y = e(64, 128), e(64, 128)
    assert bytes_of(lambda x: x.softmax(-1), x) == (2 * 64 * 128, 2 * 64 * 128)
    assert bytes_of(lambda x, y: (x + y, x.sum(-1)), x, y) == (2 * 2 * 64 * 128, 2 * 64 * 128 + 2 * 64)
    assert bytes_of(lambda x: x[:, :16].relu(), x) == (2 * 64 * 16, 2 * 64 * 16)
    assert bytes_of(lambda x: x.add_(1.0), x)[0] == 2 * 64 * 128


def test_rows_that_an_index_picks_count_as_often_as_they_are_expected() -> None:
    read, written = bytes_of(lambda i, w: w[i], e(100, dtype=INT64), e(1000, 32))
    distinct = int(1000 * (1 - (1 - 1 / 1000) ** 100) * 32)
    assert read == 8 * 100 + 2 * distinct and written == 2 * 100 * 32
    read, _ = bytes_of(lambda i, w: w[i], e(10**5, dtype=INT64), e(10, 32))
    assert read == 8 * 10**5 + 2 * 10 * 32


@pytest.mark.parametrize(
    ("fn", "inputs", "extents"),
    [
        (lambda i, w: w[i], (e(100, dtype=INT64), e(1000, 32)), {"i": "1000"}),
        (F.cross_entropy, (e(64, 100, dtype=FP32), e(64, dtype=INT64)), {"t": "100"}),
        (lambda x, k: x * k, (e(64), e(64, dtype=INT64)), {}),
        (lambda x, n: torch.where(torch.arange(32) < n[:, None], x, 0.0), (e(8, 32), e(8, dtype=INT64)), {"n": "32"}),
    ],
)
def test_indices_stay_inside_of_what_they_index(fn, inputs, extents) -> None:
    assert sorted(index_extents(parts_of(fn, *inputs)).values()) == sorted(extents.values())


def test_a_result_of_a_coarser_type_has_the_limit_of_that_type() -> None:
    parts = parts_of(lambda x: (x * 2, (x * 3).to(BF16), x > 0), e(64, 64, dtype=FP32))
    assert {str(d): limit for d, limit in rel_errs(parts).items()} == {"fp32": 1e-5, "bf16": 0.01}
    assert element_factor(parts)[0] == "10"  # the comparison is of the reference's own values
    assert element_factor(parts_of(lambda x: (x.exp() > 2) * x, e(64, dtype=FP32)))[0] == "math.inf"


def test_evidence_names_the_widest_access() -> None:
    plan = parts_of(lambda x: x.softmax(-1), e(4096, 4096)).evidence
    assert plan[0].access_bytes in (8, 16) and plan[0].mma == "none" and not plan[0].tma_loads
    assert plan[-1].access_bytes == 2  # any base address


def test_a_plan_of_several_kernels_is_told_whole() -> None:
    parts = parts_of(F.cross_entropy, e(4096, 1000, dtype=FP32), e(4096, dtype=INT64))
    told = json.loads(plan_text(parts, ()))
    assert told["variants"][0]["kernel"] == parts.problems[0].name
    assert len({v["kernel"] for v in told["variants"]}) == len(parts.problems)
    assert len(told["buffers"]) == len(parts.problems) - 1
    assert sum(line.startswith("problem ") for line in told["computation"]) == len(parts.problems)
    assert told["outputs"] == [{"name": "out", "dtype": "fp32"}] and told["family"] == parts.plan.family
    readme = readme_view(parts)
    assert readme.roofline[0].bound == "memory" and "arithmetic" in readme.ridge


def test_a_stated_range_is_drawn_from() -> None:
    parts = parts_from(parse_spec(SPEC, Path("made_up.yaml")))
    names: dict[str, Any] = {}
    exec(input_text(parts), names)
    drawn = names["_make_inputs"](N=4096, device="cpu")
    assert 0 <= drawn["p"].min() < 0.1 and 0.9 < drawn["p"].max() < 1
    assert set(drawn["k"].unique().tolist()) == {3, 4, 5}
    assert drawn["x"].min() < -1 and drawn["x"].max() > 1
