"""Products with a vector as loops: they mean the same, and are taken where they are predicted much faster."""

from pathlib import Path

import pytest
import torch
from problem_eval import evaluate_program
from test_loop_cuts import lowered

from kgen.families.strided.vectors import as_loop
from kgen.ir.problem import Contract
from kgen.ir.program import Program
from kgen.ir.verify_problem import verify_problem
from kgen.pipeline import run
from kgen.planning.partition import partition
from kgen.planning.plan_program import partition_all
from kgen.spec.load import load_spec
from kgen.target import load_device

H200, MI300X = load_device("h200"), load_device("mi300x")
BF16 = torch.bfloat16


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def is_product(program: Program) -> bool:
    return any(isinstance(s, Contract) for problem in program.problems for s in problem.body)


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (lambda a, x: a @ x, (drawn(5, 8), drawn(8))),
        (lambda a, x, c: torch.relu(a @ x + c), (drawn(5, 8), drawn(8, 1), drawn(5, 1))),
        (lambda x, b: x @ b, (drawn(1, 8), drawn(8, 6))),
        (lambda a, x: torch.bmm(a, x), (drawn(3, 5, 8, dtype=BF16), drawn(3, 8, 1, dtype=BF16))),
        (lambda a, x: a.to(torch.int32) @ x.to(torch.int32), (torch.randint(-9, 9, (5, 8)).to(torch.int8),) * 1 + (
            torch.randint(-9, 9, (8, 1)).to(torch.int8),
        )),
        (lambda a, x: torch.dot(a, x), (drawn(8), drawn(8))),
        (lambda a, x: (a * 2).exp() @ x, (drawn(5, 8), drawn(8))),
    ],
    ids=["mv", "bias and relu", "vm", "bmm", "int8", "dot", "input ops"],
)  # fmt: skip
def test_a_loop_means_what_the_product_means(fn, inputs) -> None:
    program, tensors = lowered(fn, inputs)
    loops = tuple(as_loop(problem) for problem in program.problems)
    for problem in loops:
        verify_problem(problem)
        assert not any(isinstance(s, Contract) for s in problem.body)
        assert all(axis.extent != 1 for axis in problem.axes)
    want = evaluate_program(program, dict(tensors))
    new = Program(**{name: getattr(program, name) for name in program.__slots__} | {"problems": loops})
    for mine, theirs in zip(evaluate_program(new, dict(tensors)), want, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("device", [H200, MI300X], ids=str)
def test_a_large_matrix_times_a_vector_is_a_loop(device) -> None:
    program, _ = lowered(lambda a, x: a @ x, (drawn(64, 16384), drawn(16384, 1)))
    found, reasons = partition(program, device)
    assert not is_product(found)
    assert "a product with a vector, as a loop predicted" in reasons[0] and " us" in reasons[0]


@pytest.mark.parametrize(
    ("a", "b"),
    [((64, 128), (128, 2)), ((1, 512), (512, 512))],
    ids=["two columns", "one row of bf16, which tensor cores do at the speed of memory"],
)
def test_other_products_stay_products(a, b) -> None:
    program, _ = lowered(lambda a, b: a @ b, (drawn(*a, dtype=BF16), drawn(*b, dtype=BF16)))
    found, reasons = partition(program, H200)
    assert is_product(found) and not reasons


def test_cases_are_loops_all_or_none() -> None:
    one, two = (lowered(lambda a, b: a @ b, (drawn(64, 16384), drawn(16384, n)))[0] for n in (1, 2))
    assert not is_product(partition_all({"one": one}, H200)["one"])
    both = partition_all({"one": one, "two": two}, H200)
    assert is_product(both["one"]) and is_product(both["two"]) and not both.reasons
    assert is_product(partition_all({"one": one}, H200, may_loop=False)["one"])


@pytest.mark.parametrize(
    ("fixed", "family"), [("", "reduction"), ("fixed: {tile_n: {value: 16, because: asked}}", "gemm")]
)
def test_axes_of_a_product_that_a_spec_decides_keep_it_one(tmp_path: Path, fixed: str, family: str) -> None:
    text = f"""name: matvec
reference: |
  def matvec(a, x):
      return a @ x
inputs:
  a: {{shape: [64, 16384], dtype: fp32}}
  x: {{shape: [16384], dtype: fp32}}
{fixed}
"""
    (tmp_path / "matvec.yaml").write_text(text)
    plan = run(load_spec(tmp_path / "matvec.yaml"), H200, stop_after="plan").made["plan"]
    assert {v.family for v in plan.variants} == {family}
