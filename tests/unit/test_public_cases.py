"""The public cases against the front end, with no GPU: all are emitted, or refused as the case allows."""

import sys
from pathlib import Path

import pytest

import kgen
from kgen.errors.base import UnsupportedError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import case_checking
import cases_public

CASES = {case["id"]: case for case in cases_public.CASES if not case.get("big")}
RAISING = {name for name, case in CASES.items() if "raises" in case}
OPTIONAL = {name for name, case in CASES.items() if case.get("accept") == "match_or_refuse"}
TAKEN = sorted(CASES.keys() - RAISING - OPTIONAL)


def emit(case, make):
    return kgen.emit(case["fn"], make(), target="h200")


@pytest.mark.parametrize("name", TAKEN)
def test_a_case_is_emitted_for_every_input_set(name):
    for _, make, _ in case_checking.input_sets(CASES[name]):
        compile(emit(CASES[name], make).files["kernel.py"], name, "exec")


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_a_case_that_may_be_refused_is_emitted_or_refused_with_its_line(name):
    for _, make, _ in case_checking.input_sets(CASES[name]):
        try:
            compile(emit(CASES[name], make).files["kernel.py"], name, "exec")
        except UnsupportedError as error:
            assert error.where is not None and error.where.line > 0


@pytest.mark.parametrize("name", sorted(RAISING))
def test_what_eager_refuses_is_refused_with_the_same_kind_of_error(name):
    _, make, _ = next(iter(case_checking.input_sets(CASES[name])))
    with pytest.raises(CASES[name]["raises"], match=r"(float|fp)16.*(float|fp)32"):
        emit(CASES[name], make)
