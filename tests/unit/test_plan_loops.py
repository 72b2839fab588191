"""Variants of a loop kernel: one for aligned base addresses, one for any, and what each of them asks of its tensors."""

import math

import pytest
import torch
import torch.nn.functional as F
from test_loop_facts import form_of

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.strided.facts import width_of
from kgen.families.strided.form import LoopForm
from kgen.planning.loops import RESOLUTION
from kgen.planning.plan import RUNNERS_UP
from kgen.planning.plan_loops import LoopVariant, plan_loop
from kgen.rules.model import Value
from kgen.target import load_device

H200 = load_device("h200")


def e(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def planned(form: LoopForm, base_align: int = 1, **fixed: Value) -> tuple[LoopVariant, ...]:
    return plan_loop("default", "kernel", form, H200, fixed, base_align)


SOFTMAX = form_of(lambda x: x.softmax(-1), e(4096, 4096))


def test_the_aligned_variant_comes_first_and_names_its_tensors() -> None:
    aligned, other = planned(SOFTMAX)
    assert dict(aligned.guard.base_align) == {"x": 16} and not other.guard.base_align
    assert other.name.endswith("_any") and not aligned.name.endswith("_any")
    assert (aligned.base_align, other.base_align) == (16, 1)
    assert other.choice.candidate.value("vec") == 1 and aligned.choice.candidate.number("vec") > 1
    assert aligned.family == "reduction" and aligned.kernel == other.kernel == "kernel"


def test_where_bases_are_promised_there_is_one_variant() -> None:
    (only,) = planned(SOFTMAX, base_align=16)
    assert only.base_align == 16 and dict(only.guard.base_align) == {"x": 16}


def test_what_has_no_vectors_has_one_variant_for_any_base() -> None:
    (only,) = planned(form_of(lambda x: x[:, :99].relu(), e(4096, 101)))
    assert only.choice.candidate.value("vec") == 1 and not only.guard.base_align


def test_an_empty_result_has_one_variant() -> None:
    (only,) = planned(form_of(lambda x: x.relu(), e(0, 4096)))
    assert only.form.is_empty and not only.guard.base_align


def test_a_guard_names_what_is_read_in_vectors_only() -> None:
    form = form_of(lambda x, w, s: F.layer_norm(x, (4096,), w) * s, e(4096, 4096), e(4096), e(4096, 1))
    aligned, _ = planned(form)
    vec = aligned.choice.candidate.number("vec")
    wide = {a.tensor for a in form.loads if width_of(a, form, vec, 16) > 1}
    assert dict(aligned.guard.base_align) == dict.fromkeys(wide, 16) and wide == {"x", "w"}


def test_runners_up_follow_the_choice() -> None:
    (aligned, _) = planned(SOFTMAX)
    times = [aligned.choice.time_us, *(r.time_us for r in aligned.runners_up)]
    steps = [math.floor(math.log(time / min(times)) / RESOLUTION) for time in times]
    assert len(aligned.runners_up) == RUNNERS_UP and steps == sorted(steps)
    assert planned(SOFTMAX) == planned(SOFTMAX)


def test_fixed_axes_hold_for_both_variants_but_the_vector() -> None:
    aligned, other = planned(SOFTMAX, threads=256, vec=4)
    assert aligned.choice.candidate.value("vec") == 4 and other.choice.candidate.value("vec") == 1
    assert aligned.choice.candidate.value("threads") == other.choice.candidate.value("threads") == 256


def test_a_fixed_axis_without_candidates_is_refused() -> None:
    with pytest.raises(NoLegalCandidateError):
        planned(SOFTMAX, vec=16, threads=32, schedule="scan")
