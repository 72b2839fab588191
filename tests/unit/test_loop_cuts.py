"""Kernels cut or split in two mean what the one kernel means: both are interpreted, on ties, NaN and infinities too."""

from collections.abc import Iterator

import lower_cases
import pytest
import torch
from problem_eval import Evaluation, evaluate_program

from kgen.families.strided.cuts import (
    Cut,
    can_split,
    cut_after_first_phase,
    split_reduction,
    splittable_axes,
)
from kgen.families.strided.form import levels
from kgen.families.strided.online import online
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.problem import Combine, Contract, Problem, Reduce, TensorRole
from kgen.ir.program import Program
from kgen.ir.verify_problem import verify_problem, verify_program
from kgen.planning import partition as partition_module
from kgen.planning.partition import partition
from kgen.target import load_device

INF, NAN = float("inf"), float("nan")
H200 = load_device("h200")


def lowered(fn, inputs) -> tuple[Program, dict[str, torch.Tensor]]:
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    tensors = {i.name: x.clone() for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden
    return lower(traced.graph, spec), tensors


def names(problem: Problem) -> tuple[str, ...]:
    return tuple(f"{problem.name}.{i}" for i in range(2 * len(problem.body)))


def cuts_of(problem: Problem) -> Iterator[tuple[str, Cut]]:
    """Yield every cut and split of a problem, and what it is."""
    if (cut := cut_after_first_phase(problem, names(problem))) is not None:
        yield "cut after the first phase", cut
    if can_split(problem):
        for axis in splittable_axes(problem):
            extent = problem.axis(axis).extent
            assert isinstance(extent, int)
            for parts in (p for p in range(2, extent + 1) if extent % p == 0):
                yield f"{axis} in {parts} parts", split_reduction(problem, axis, parts, names(problem))


def run(problem: Problem, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    run = Evaluation(problem, {t.name: tensors[t.name] for t in problem.inputs})
    run.run()
    return run.stored


def check(problem: Problem, tensors: dict[str, torch.Tensor], tolerance: float = 1e-5) -> int:
    """Compare all cuts of a problem, also of its online form, with the problem; return how many there are."""
    wanted = run(problem, tensors)
    verify_problem(online(problem))
    for name, value in run(online(problem), tensors).items():
        torch.testing.assert_close(value, wanted[name], rtol=tolerance, atol=tolerance, equal_nan=True, msg="online")
    count = 0
    for what, cut in (*cuts_of(problem), *(cuts_of(online(problem)) if online(problem) != problem else ())):
        count += 1
        verify_problem(cut.first)
        verify_problem(cut.second)
        between = run(cut.first, tensors)
        found = between | run(cut.second, {**tensors, **between})
        assert found.keys() == wanted.keys() | {b.name for b in cut.buffers}, what
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance, equal_nan=True, msg=what)
    return count


# Variances of values around 10^4: the means of parts are rounded to fp32.
TOLERANCE = {"var_cancellation": 5e-3}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", lower_cases.ALL)
def test_cuts_and_splits_of_known_programs(name: str) -> None:
    fn, *inputs = lower_cases.ALL[name]
    program, tensors = lowered(fn, inputs)
    for problem in program.problems:
        if not any(isinstance(s, Contract) for s in problem.body):
            check(problem, tensors, TOLERANCE.get(name, 1e-5))
        tensors |= run(problem, tensors)


def hostile(seed: int, *shape: int) -> torch.Tensor:
    """Return small whole numbers, so that sums of any order are equal and ties are many; some rows hold NaN or inf."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, shape, generator=generator).float()
    special = torch.tensor([NAN, INF, -INF])[torch.randint(0, 3, shape, generator=generator)]
    return torch.where(torch.rand(shape, generator=generator) < seed % 3 * 0.02, special, x)


REFERENCES = {
    "argmax": lambda x: x.argmax(-1),
    "argmin_and_value": lambda x: (x.argmin(-1), x.amin(-1)),
    "argmax_flat": lambda x: x.argmax(),
    "argmax_first_axis": lambda x: x.argmax(0),
    "argmax_of_ints": lambda x: x.nan_to_num(0, 0, 0).to(torch.int32).argmax(-1),
    "position": lambda x: (x * torch.arange(x.shape[-1])).amax(-1),
    "sum": lambda x: x.sum(-1),
    "sum_all": lambda x: x.sum(),
    "moments": lambda x: (x.mean((1, 2)), x.var((1, 2))),
    "var_first_axis": lambda x: x.var(0),
    "var_all": lambda x: x.std(),
    "product": lambda x: x.prod(1),
    "any": lambda x: (x > 1).any(-1),
    "all": lambda x: ((x < 2).all(0), (x < 2).all()),
    "extrema": lambda x: (x.amax(-1), x.amin(-1)),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-2:]),
    "mean_after": lambda x: (x.sum(-1) / 3 + 1).relu(),
    "gathered": lambda x: x[:, torch.tensor([3, 0, 2, 2])].sum(1),
    "padded": lambda x: torch.nn.functional.pad(x, (3, 5)).amax(-1),
    "flipped": lambda x: x.flip(-1).argmax(-1),
    "cross": lambda x: torch.nn.functional.cross_entropy(x[0], torch.arange(x.shape[1]) % x.shape[2]),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", REFERENCES)
def test_cuts_and_splits_on_ties_and_special_values(name: str, seed: int) -> None:
    x = hostile(seed, 4, 6, 24)
    program, tensors = lowered(REFERENCES[name], [x])
    count = 0
    for problem in program.problems:
        count += check(problem, tensors)
        tensors |= run(problem, tensors)
    assert count, "there is a cut to compare"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", lower_cases.ALL)
def test_a_program_cut_wherever_it_can_be_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "GAIN", INF)
    fn, *inputs = lower_cases.ALL[name]
    program, tensors = lowered(fn, inputs)
    cut, reasons = partition(program, H200)
    verify_program(cut)
    assert (len(cut.problems) > len(program.problems)) == bool(reasons)
    assert [b.name for b in cut.buffers] == [f"buffer_{i}" for i in range(len(cut.buffers))]
    wanted = evaluate_program(program, {k: v.clone() for k, v in tensors.items()})
    tolerance = TOLERANCE.get(name, 1e-5)
    for found, value in zip(evaluate_program(cut, tensors), wanted, strict=True):
        torch.testing.assert_close(found, value, rtol=tolerance, atol=tolerance, equal_nan=True)


def one_problem(fn, *inputs: torch.Tensor) -> Problem:
    program, _ = lowered(fn, inputs)
    (problem,) = program.problems
    return problem


X = torch.empty(8, 12)


def test_what_has_nothing_to_cut_is_left_whole() -> None:
    for fn in (lambda x: x.exp(), lambda x: x.sum(-1), lambda x: x.cumsum(-1)):
        problem = one_problem(fn, X)
        assert cut_after_first_phase(problem, names(problem)) is None
    for fn in (lambda x: x.exp(), lambda x: x.softmax(-1), lambda x: x.cumsum(-1), lambda x: x.var(-1) * x.sum()):
        assert not all(can_split(p) for p in lowered(fn, [X])[0].problems)


def test_the_axis_of_a_position_is_split_only_where_it_comes_first() -> None:
    assert splittable_axes(one_problem(lambda x: x.sum(), X)) == ("r", "s")
    assert len(splittable_axes(one_problem(lambda x: x.argmax(), X))) == 1


def test_phases_of_a_softmax() -> None:
    problem = one_problem(lambda x: x.softmax(-1), X)
    phases = levels(problem.body)
    assert sorted(phases[s.result] for s in problem.body if isinstance(s, Reduce)) == [1, 2]
    cut = cut_after_first_phase(problem, names(problem))
    assert cut is not None and [str(b) for b in cut.buffers] == ["buffer case.0: fp32[8]"]
    assert sum(isinstance(s, Reduce) for s in cut.second.body) == 1


def test_an_update_stays_with_the_kernel_that_writes() -> None:
    def fn(x):
        return x.sub_(x.mean(-1, keepdim=True))

    (problem,) = lowered(fn, [X])[0].problems
    cut = cut_after_first_phase(problem, names(problem))
    assert cut is not None
    assert [t.role for t in cut.first.tensors] == [TensorRole.INPUT, TensorRole.OUTPUT]
    assert {t.role for t in cut.second.tensors if t.name == "x"} == {TensorRole.UPDATED}


def test_one_kernel_stays_one_unless_two_are_predicted_faster() -> None:
    program, _ = lowered(lambda x: x.softmax(-1), [torch.empty(4096, 4096)])
    whole, reasons = partition(program, H200)
    assert len(whole.problems) == 1 and not whole.buffers and not reasons
    program, _ = lowered(lambda x: x.sum(), [torch.empty(4096, 4096)])
    cut, (reason,) = partition(program, H200)
    assert len(cut.problems) == 2 and "parts, predicted" in reason and "us in one kernel" in reason
    assert cut == partition(program, H200)[0]


def reductions(program: Program) -> list[Combine]:
    return [s.combine for problem in program.problems for s in problem.body if isinstance(s, Reduce)]


def test_exponentials_are_summed_in_one_pass_where_a_row_is_read_again_or_shared_by_a_cluster() -> None:
    rows, _ = lowered(lambda x: x.softmax(-1), [torch.empty(4096, 4096, dtype=torch.bfloat16)])
    long, _ = lowered(lambda x: x.softmax(-1), [torch.empty(64, 2**19, dtype=torch.bfloat16)])
    for device in (load_device("mi300x"), load_device("mi355x")):
        assert reductions(partition(rows, device)[0]) == [Combine.MAX, Combine.SUM]
        assert reductions(partition(long, device, may_cut=False)[0]) == [Combine.MAX, Combine.SUMEXP]
    assert reductions(partition(rows, H200)[0]) == [Combine.MAX, Combine.SUMEXP]


def test_names_of_cut_kernels_count_in_launch_order() -> None:
    program, _ = lowered(lambda x: (x.sum(), x.mean(0).softmax(-1)), [torch.empty(2048, 2048)])
    cut, _ = partition(program, H200)
    assert [p.name for p in cut.problems] == [f"case_{i}" for i in range(len(cut.problems))]
    assert len({b.name for b in cut.buffers}) == len(cut.buffers)


def test_buffers_of_a_cut_do_not_take_the_name_of_an_input() -> None:
    def fn(buffer_0):
        return buffer_0.sum()

    program, _ = lowered(fn, [torch.empty(4096, 4096)])
    cut, _ = partition(program, H200)
    verify_program(cut)
