"""Programs of several kernels: which variants a plan has, in what order, and which fixed axes bind which kernel."""

from dataclasses import replace

import pytest
import torch

from kgen.errors.cli import KernelNotNamedError, NoKernelError
from kgen.errors.rules import OutsideDomainError, UnknownAxisError
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import gemm_plan
from kgen.planning.plan_program import Partition, partition_all
from kgen.solution import kernel_questions, point_of, question_of, shares, solve_question
from kgen.spec.model import FixedAxis, Spec
from kgen.target import load_device

H200 = load_device("h200")
A, B = torch.empty(512, 256, dtype=torch.bfloat16), torch.empty(256, 512, dtype=torch.bfloat16)


def attention_scores(a, b):
    return (a @ b).softmax(-1)


def spec_of(*fixed: tuple[str, int | str]) -> Spec:
    spec = spec_from_callable(attention_scores, [A, B], "scores")
    return replace(spec, fixed=tuple(FixedAxis(axis, value, "under test") for axis, value in fixed))


def plan_of(*fixed: tuple[str, int | str]) -> Plan:
    plan = run(spec_of(*fixed), H200, stop_after="plan").made["plan"]
    assert isinstance(plan, Plan)
    return plan


def test_kernels_follow_one_another_in_launch_order() -> None:
    plan = plan_of()
    assert plan.family == "gemm+reduction" and plan.kernels_of("default") == ("scores_0", "scores_1")
    assert [v.kernel for v in plan.variants] == sorted(v.kernel for v in plan.variants)
    names = [v.name for v in plan.variants]
    assert len(set(names)) == len(names)
    for kernel, mark in (("scores_0", "default_0_"), ("scores_1", "default_1_")):
        found = plan.variants_of("default", kernel)
        assert found and all(v.name.startswith(mark) for v in found)
    assert {v.kernel for v in gemm_plan(plan).variants} == {"scores_0"}
    assert plan.family in str(plan)


def test_a_fixed_axis_binds_the_kernels_that_have_it() -> None:
    plan = plan_of(("tile_m", 128), ("row_threads", 32))
    product, rows = (plan.variants_of("default", k)[0].choice.candidate for k in ("scores_0", "scores_1"))
    assert product.value("tile_m") == 128 and rows.value("row_threads") == 32


@pytest.mark.parametrize(
    ("axis", "value", "error"), [("tile_x", 1, UnknownAxisError), ("row_threads", 33, OutsideDomainError)]
)
def test_an_axis_that_no_kernel_has_is_refused(axis: str, value: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=axis):
        plan_of((axis, value))


def test_reasons_that_cases_share_are_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program = run(spec_of(), H200, stop_after="lower").made["lower"]["default"]
    reasons = {"small": ("kept whole",), "large": ("kept whole",)}
    monkeypatch.setattr("kgen.planning.plan_program.partition", lambda p, device, **_: (p, reasons[p.name]))
    programs = {case: replace(program, name=case) for case in reasons}
    found = partition_all(programs, H200)
    assert isinstance(found, Partition) and dict(found) == programs and found.reasons == ("kept whole",)
    reasons["large"] = ("cut in two",)
    assert partition_all(programs, H200).reasons == ("case small: kept whole", "case large: cut in two")


def test_each_kernel_is_solved_and_explained() -> None:
    spec = spec_of()
    asked = kernel_questions(spec, H200, None)
    assert [q.kernel for q in asked] == ["scores_0", "scores_1"]
    for question in asked:
        found = solve_question(question, 3)
        assert found.to_json()["kernel"] == question.kernel
        for ranked in found.candidates.ranked:
            assert sum(shares(ranked).values()) == pytest.approx(ranked.time_us, rel=1e-2)
    rows = question_of(spec, asked, "scores_1")
    first = solve_question(rows, 2).candidates.ranked[0]
    point = ",".join(f"{axis}={value}" for axis, value in first.candidate.choices)
    why = solve_question(rows, 2, point).why
    assert why is not None and why.rank == 1 and why.behind == ()


def test_a_kernel_is_named_where_there_are_several() -> None:
    spec = spec_of()
    asked = kernel_questions(spec, H200, None)
    with pytest.raises(KernelNotNamedError, match="scores_0, scores_1"):
        question_of(spec, asked, None)
    with pytest.raises(NoKernelError, match="no kernel 'scores_2'"):
        question_of(spec, asked, "scores_2")
    assert question_of(spec, asked[:1], None) is asked[0]


def test_the_axes_of_a_loop_have_names_only() -> None:
    assert point_of("threads=256, vec=8", "reduction") == {"threads": 256, "vec": 8}
    with pytest.raises(Exception, match="'128' names no axis"):
        point_of("128,256,64", "reduction")
