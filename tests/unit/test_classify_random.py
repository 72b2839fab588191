"""Random Problems, classified, computed through the form's strides and compared with the interpreter."""

from dataclasses import dataclass, field, replace

import torch
from form_eval import evaluate_form
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from problem_eval import evaluate

from kgen.errors.family import TooManyBatchAxesError, UnfoldableAxesError
from kgen.families.gemm.classify import classify_gemm
from kgen.ir.access import Access, Affine
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Axis, Contract, Load, Map, Problem, ProblemTensor, Statement, Store, TensorRole
from kgen.ir.tensor import TensorType
from kgen.ir.verify_problem import verify_problem

ROWS, COLUMNS, BATCH, SUMMED = ("m0", "m1"), ("n0", "n1"), ("b0", "b1"), ("k0", "k1")
ALL = (*ROWS, *COLUMNS, *BATCH, *SUMMED)


@dataclass
class Built:
    """A Problem and the tensors to evaluate it on."""

    problem: Problem
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


def laid_out(draw, extents: tuple[int, ...], dense: bool) -> tuple[int, ...]:
    """Return strides of a random nesting of the axes; each step may be padded unless `dense`."""
    strides = [0] * len(extents)
    step = 1
    for position in draw(st.permutations(range(len(extents)))):
        strides[position] = step
        step *= max(extents[position], 1)
        if not dense:
            step += draw(st.sampled_from((0, 0, 0, 1, 3)))
    return tuple(strides)


def filled(type_: TensorType) -> torch.Tensor:
    """Return a tensor of that type; small whole numbers, so that sums in any order are equal."""
    count = 1 + sum(max(n - 1, 0) * s for n, s in zip(type_.static_shape, type_.strides, strict=True))
    values = (torch.arange(count, dtype=torch.float32) * 7919 % 11) - 5
    return values.as_strided(type_.static_shape, type_.strides)


@st.composite
def problems(draw: st.DrawFn) -> Built:
    count = {"m": draw(st.integers(0, 2)), "n": draw(st.integers(0, 2)), "b": draw(st.integers(0, 2))}
    count["k"] = draw(st.sampled_from((1, 1, 1, 2)))
    names = [x for x in ALL if int(x[1]) < count[x[0]]]
    extents = {name: draw(st.sampled_from((1, 2, 3, 4, 5))) for name in names}
    extents |= {name: 0 for name in names if name[0] in draw(st.sampled_from(("", "", "", "", "", "k", "m")))}
    batch = [x for x in names if x[0] == "b"]
    shared = {"a": draw(st.sets(st.sampled_from(batch))) if batch else (), "b": ()}
    shared["b"] = draw(st.sets(st.sampled_from(batch))) if batch else ()
    wanted = {
        "a": [x for x in names if x[0] in "mk" or x in shared["a"]],
        "b": [x for x in names if x[0] in "nk" or x in shared["b"]],
        "out": [x for x in names if x[0] != "k"],
    }
    tail = draw(st.booleans())
    if tail:
        out = wanted["out"]
        wanted["c"] = [x for x in out if draw(st.booleans())]
    tensors: list[ProblemTensor] = []
    accesses: dict[str, Access] = {}
    for name, axes in wanted.items():
        order = draw(st.permutations(axes))
        offset = draw(st.sampled_from((0, 0, 0, 2))) if order and name != "out" else 0
        shape = [extents[x] for x in order]
        if offset:
            shape[0] += offset
        strides = laid_out(draw, tuple(shape), dense=name == "out" or draw(st.booleans()))
        role = TensorRole.OUTPUT if name == "out" else TensorRole.INPUT
        tensors.append(ProblemTensor(name, TensorType(DType.FP32, tuple(shape), strides), role))
        indices = [Affine(((x, 1),), offset if i == 0 else 0) for i, x in enumerate(order)]
        accesses[name] = Access(name, tuple(indices))
    body: list[Statement] = [Load(f"{x}_value", accesses[x], DType.FP32) for x in ("a", "b")]
    summed = tuple(x for x in names if x[0] == "k")
    body.append(Contract("acc", "a_value", "b_value", summed, DType.FP32))
    if tail:
        body.append(Load("c_value", accesses["c"], DType.FP32))
        body.append(Map("sum", PointwiseOp.ADD, ("acc", "c_value"), DType.FP32))
    body.append(Store("sum" if tail else "acc", accesses["out"]))
    axes = tuple(Axis(x, extents[x]) for x in names)
    problem = Problem("random", axes, tuple(tensors), tuple(body))
    return Built(problem, {t.name: filled(t.type) for t in tensors if t.role is TensorRole.INPUT})


@settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(problems())
def test_strides_reach_what_the_problem_means(built: Built) -> None:
    verify_problem(built.problem)
    try:
        form = classify_gemm(built.problem)
    except (TooManyBatchAxesError, UnfoldableAxesError):
        assume(False)
    expected = evaluate(built.problem, built.tensors)
    found = evaluate_form(form, built.problem, built.tensors)
    assert torch.equal(found, expected), f"{built.problem}\n{form}"


def test_the_comparison_can_fail() -> None:
    """A form with one stride off is told from the right one."""
    shape = TensorType.contiguous(DType.FP32, (3, 4))
    axes = (Axis("m0", 3), Axis("n0", 3), Axis("k0", 4))
    operand = {"a": ("m0", "k0"), "b": ("n0", "k0")}
    accesses = {name: Access(name, tuple(Affine.of(x) for x in axes)) for name, axes in operand.items()}
    out = ProblemTensor("out", TensorType.contiguous(DType.FP32, (3, 3)), TensorRole.OUTPUT)
    problem = Problem(
        "plain",
        axes,
        (ProblemTensor("a", shape, TensorRole.INPUT), ProblemTensor("b", shape, TensorRole.INPUT), out),
        (
            Load("a_value", accesses["a"], DType.FP32),
            Load("b_value", accesses["b"], DType.FP32),
            Contract("acc", "a_value", "b_value", ("k0",), DType.FP32),
            Store("acc", Access("out", (Affine.of("m0"), Affine.of("n0")))),
        ),
    )
    tensors = {name: filled(shape) for name in operand}
    form = classify_gemm(problem)
    assert torch.equal(evaluate_form(form, problem, tensors), evaluate(problem, tensors))
    wrong = replace(form, a=replace(form.a, outer=3))
    assert not torch.equal(evaluate_form(wrong, problem, tensors), evaluate(problem, tensors))
