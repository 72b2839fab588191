"""The public cases against the front end, with no GPU: products are emitted, everything else is refused by name."""

import sys
from pathlib import Path

import pytest

import kgen
from kgen.errors.base import UnsupportedError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import case_checking
import cases_public

PRODUCTS = {
    "gemm-odd-mk",
    "linear-k-zero",
    "bmm-batch-over-65535",
    "bf16-cast-inside-epilogue",
    "fp32-gemm-not-tf32",
    "module-params-buffer-kwarg",
    "square-gemm-column-bias",
}
RAISING = {case["id"] for case in cases_public.CASES if "raises" in case}
CASES = {case["id"]: case for case in cases_public.CASES if not case.get("big")}
REFUSED = sorted(CASES.keys() - PRODUCTS - RAISING)


def emit(case, make):
    return kgen.emit(case["fn"], make(), target="h200")


@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_a_product_is_emitted_for_every_input_set(name):
    for _, make, _ in case_checking.input_sets(CASES[name]):
        compile(emit(CASES[name], make).files["kernel.py"], name, "exec")


@pytest.mark.parametrize("name", sorted(RAISING))
def test_what_eager_refuses_is_refused_with_the_same_kind_of_error(name):
    _, make, _ = next(iter(case_checking.input_sets(CASES[name])))
    with pytest.raises(CASES[name]["raises"], match=r"(float|fp)16.*(float|fp)32"):
        emit(CASES[name], make)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_product_is_refused_by_name(name):
    _, make, _ = next(iter(case_checking.input_sets(CASES[name])))
    with pytest.raises(UnsupportedError) as caught:
        emit(CASES[name], make)
    message = str(caught.value)
    assert any(word in message for word in ("aten.", "the reference returns", "reads the value of a tensor"))
    assert caught.value.where is not None and caught.value.where.line > 0


def test_the_refusal_of_an_attention_names_it_and_its_line():
    case = CASES["gqa-head-map"]
    _, make, _ = next(iter(case_checking.input_sets(case)))
    with pytest.raises(UnsupportedError, match=r"cases_public\.py:\d+: aten\.scaled_dot_product_attention"):
        emit(case, make)
