"""Gates in many spellings: one Problem of two products, one form, one kernel; and what is none stays in several."""

import pytest
import torch
import torch.nn.functional as F
from form_eval import evaluate_form
from problem_eval import evaluate_program
from spellings import t

import kgen
from kgen.errors.family import NotOneProductError
from kgen.families.attention.classify import classify_attention
from kgen.families.classify import classify
from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.facts import facts_of
from kgen.families.gemm.form import GemmForm
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.gated import is_gated
from kgen.ir.verify_problem import verify_program
from kgen.planning.fused import with_fused
from kgen.target import load_device

BF16, INT8 = torch.bfloat16, torch.int8
X, W, W1, W3 = t(6, 8), t(10, 8, seed=1), t(5, 8, seed=2), t(5, 8, seed=3)
COLUMNS, BIAS, ROWS = t(8, 10, seed=4), t(10, seed=5), t(6, 5, seed=6)


def lowered(fn, inputs):
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    return lower(traced.graph, spec), {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden


def chunked(x, w):
    gate, up = (x @ w.T).chunk(2, -1)
    return F.silu(gate) * up


def sliced_with_bias(x, w, b):
    h = F.linear(x, w, b)
    return F.gelu(h[:, :5], approximate="tanh") * h[:, 5:]


def bias_added_after(x, w, b):
    h = x @ w.T + b
    return torch.sigmoid(h[..., 5:]) * h[..., :5]


def interleaved(x, w):
    h = F.linear(x, w)
    return F.relu(h[:, 0::2]) * h[:, 1::2]


def pairs(x, w):
    gate, up = (x @ w.T).view(6, 5, 2).unbind(-1)
    return torch.tanh(gate) + up


def with_residual(x, w, r):
    gate, up = torch.split(x @ w.T, 5, dim=1)
    return (F.silu(gate.float()) * up.float()).to(BF16) + r


def both_sides(x, w1, w3):
    return (x @ w1.T) * (x @ w3.T) - 0.5


def batched(x, w):
    gate, up = F.linear(x.view(2, 3, 8), w).chunk(2, -1)
    return F.silu(gate) * up


GATES = {
    "chunk": (chunked, X, W),
    "slices": (sliced_with_bias, X, W, BIAS),
    "bias_after": (bias_added_after, X, W, BIAS),
    "interleaved": (interleaved, X, W),
    "pairs": (pairs, X, W),
    "columns": (lambda x, w: F.silu((x @ w)[:, :5]) * (x @ w)[:, 5:], X, COLUMNS),
    "glu": (lambda x, w: F.glu(F.linear(x, w)), X, W),
    "residual": (with_residual, X, W, ROWS),
    "two_weights": (lambda x, w1, w3: F.silu(x @ w1.T) * F.linear(x, w3), X, W1, W3),
    "both_sides": (both_sides, X, W1, W3),
    "batched": (batched, X, W),
    "weight_first": (lambda x, w1, w3: (F.silu(w1 @ x.T) * (w3 @ x.T)).T.contiguous(), X, W1, W3),
}


@pytest.mark.parametrize("name", GATES)
def test_a_spelling_is_one_gate_that_means_what_torch_computes(name: str) -> None:
    fn, *inputs = GATES[name]
    program, tensors = lowered(fn, tuple(x.to(BF16) for x in inputs))
    tensors = {key: x.to(BF16) for key, x in tensors.items()}
    verify_program(program)
    (problem,) = program.problems
    assert is_gated(problem), program
    form = classify_gemm(problem)
    assert (form.m, form.n, form.k, form.products) == (6, 5, 8, 2)
    wanted = fn(*(x.to(BF16).float() for x in inputs))
    (evaluated,) = evaluate_program(program, dict(tensors))
    for found in (evaluated, evaluate_form(form, problem, dict(tensors)).view(wanted.shape)):
        torch.testing.assert_close(found.float(), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", GATES)
def test_without_the_gate_the_program_means_the_same(name: str) -> None:
    fn, *inputs = GATES[name]
    program, tensors = lowered(fn, tuple(inputs))
    assert program.plain is not None and not any(is_gated(p) for p in program.plain.problems)
    verify_program(program.plain)
    (found,) = evaluate_program(program.plain, dict(tensors))
    torch.testing.assert_close(found.float(), fn(*inputs).float(), rtol=2e-2, atol=2e-2)


def rotated(x, w):
    h = x @ w.T
    return torch.cat([-h[:, 5:], h[:, :5]], -1) * h


NO_GATES = {
    "three_parts": lambda x, w: (h := (x @ w.T))[:, :3] * h[:, 3:6] + h[:, 6:9],
    "products_returned": lambda x, w: (h := x @ w.T, F.silu(h[:, :5]) * h[:, 5:]),
    "parts_returned": lambda x, w: (x @ w.T).chunk(2, -1),
    "row_sum_of_a_part": lambda x, w: (h := x @ w.T)[:, :5] * h[:, 5:].sum(-1, keepdim=True),
    "rotated": rotated,
    "the_same_part_twice": lambda x, w: F.silu((x @ w.T)[:, :5]) * (x @ w.T)[:, :5],
}


@pytest.mark.parametrize("name", NO_GATES)
def test_what_is_no_gate_stays_in_kernels_of_one_product(name: str) -> None:
    fn = NO_GATES[name]
    program, tensors = lowered(fn, (X, W))
    assert program.plain is None and not any(is_gated(p) for p in program.problems)
    wanted = fn(X, W)
    for found, want in zip(evaluate_program(program, dict(tensors)), _tupled(wanted), strict=True):
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)


def _tupled(result):
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def test_products_that_share_the_columns_of_the_result_stay_apart() -> None:
    program, _ = lowered(lambda x, y, w: F.silu(x @ w.T) * (y @ w.T), (X, t(6, 8, seed=9), W))
    assert program.plain is None and len(program.problems) > 1


def test_a_gate_inside_of_a_network_is_one_of_its_kernels() -> None:
    def mlp(x, w1, w3, w2):
        return (F.silu(x @ w1.T) * (x @ w3.T)) @ w2.T

    program, tensors = lowered(mlp, (X, W1, W3, t(8, 5, seed=7)))
    assert [is_gated(p) for p in program.problems] == [True, False]
    (found,) = evaluate_program(program, dict(tensors))
    torch.testing.assert_close(found, mlp(X, W1, W3, t(8, 5, seed=7)), rtol=1e-4, atol=1e-4)


def test_weights_with_other_strides_are_no_gate() -> None:
    w3 = torch.empty(5, 16)[:, :8]
    program, _ = lowered(lambda x, w1, w3: F.silu(x @ w1.T) * (x @ w3.T), (X, W1, w3))
    with pytest.raises(NotOneProductError, match="read with different strides, types or operations"):
        classify_gemm(program.problems[0])


def test_weights_that_are_scaled_otherwise_are_no_gate() -> None:
    program, _ = lowered(lambda x, w1, w3: F.silu(x @ (w1 * 2).T) * (x @ (w3 * 3).T), (X, W1, W3))
    with pytest.raises(NotOneProductError, match="read with different strides, types or operations"):
        classify_gemm(program.problems[0])


def test_facts_count_the_rows_of_both_weights() -> None:
    program, _ = lowered(chunked, (X.to(BF16), W.to(BF16)))
    form = classify_gemm(program.problems[0])
    facts = facts_of(form, 16)
    assert (facts.m, facts.n, facts.k, facts.products) == (6, 10, 8, 2)
    assert form.flops == 2 * 6 * 10 * 8 and form.bytes == 2 * (6 * 8 + 10 * 8 + 6 * 5)


def large(dtype=BF16, n=4096):
    x, w = torch.empty(4096, 4096, dtype=dtype), torch.empty(2 * n, 4096, dtype=dtype)
    if dtype is INT8:
        return lowered(lambda x, w: (h := (x.int() @ w.int().T).float())[:, :n] * h[:, n:], (x, w))[0]
    return lowered(chunked, (x, w))[0]


@pytest.mark.parametrize("dtype", [BF16, torch.float16, INT8])
def test_hopper_runs_a_gate_in_one_kernel(dtype: torch.dtype) -> None:
    device = load_device("h200")
    chosen, reasons = with_fused({"default": large(dtype)}, device)
    (problem,) = chosen["default"].problems
    form = classify(problem, device)
    assert isinstance(form, GemmForm) and form.products == 2 and reasons == ()


@pytest.mark.parametrize(
    ("dtype", "device", "rule"),
    [
        (torch.float32, "h200", "printed_products_fp32"),
        (BF16, "mi300x", "printed_products"),
        (BF16, "mi355x", "printed_products"),
    ],
)
def test_elsewhere_a_gate_is_several_kernels_for_a_rule(dtype: torch.dtype, device: str, rule: str) -> None:
    chosen, reasons = with_fused({"default": large(dtype)}, load_device(device))
    assert len(chosen["default"].problems) > 1 and chosen["default"].plain is None
    (reason,) = reasons
    assert "its products and what is made of them in kernels of their own" in reason and rule in reason


def test_a_gate_that_is_predicted_slower_is_several_kernels() -> None:
    x, w = torch.empty(1, 14336, dtype=BF16), torch.empty(256, 14336, dtype=BF16)
    chosen, (reason,) = with_fused({"default": lowered(chunked, (x, w))[0]}, load_device("h200"))
    assert not any(is_gated(p) for p in chosen["default"].problems)
    assert "us in one kernel" in reason and "us in several" in reason


def test_an_attention_is_no_gate() -> None:
    q, k, v = t(2, 5, 8), t(2, 7, 8, seed=1), t(2, 7, 6, seed=2)
    program, _ = lowered(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, (q, k, v))
    (problem,) = program.problems
    assert not is_gated(problem) and classify_attention(problem)


def test_functions_are_approximated_into_16_bits_alone() -> None:
    def text(dtype: torch.dtype) -> str:
        def gate(x, w):
            gate, up = (x @ w.T).chunk(2, -1)
            return (F.silu(gate) * up / (up + 2)).to(dtype)

        package = kgen.emit(gate, (t(256, 256).to(BF16), t(512, 256).to(BF16)), target="h200")
        return package.files["kernel.py"]

    narrow, wide = text(BF16), text(torch.float32)
    assert "silu_approximate(x0)" in narrow and "divide_approximate" not in narrow
    assert "approximate" not in wide and "= silu(x0)" in wide
