"""Products of fp8 operands with scales of blocks, in many spellings: one Problem, one form, one kernel."""

from dataclasses import replace

import pytest
import torch
from form_eval import evaluate_form
from problem_eval import evaluate_program
from spellings import t

import kgen
from kgen.errors.family import NotOneProductError
from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.facts import facts_of
from kgen.families.gemm.form import GemmForm
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.dtype import DType
from kgen.ir.program import Program
from kgen.ir.scaled import is_scaled
from kgen.ir.verify_problem import verify_program
from kgen.planning.candidates import legal_set
from kgen.planning.fused import with_fused
from kgen.target import load_device

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
NARROW = frozenset({DType.FP8_E4M3})
BLOCK = 4  # of the spellings that are evaluated; what a kernel's k step takes is a rule's matter
X, W = t(6, 16).to(FP8), t(8, 16, seed=1).to(FP8)
SX, SW, SR = t(6, 4, seed=2), t(2, 4, seed=3), t(8, 4, seed=4)
RAGGED, RAGGED_SCALES = t(7, 14, seed=5).to(FP8), t(2, 4, seed=6)


def lowered(fn, inputs) -> tuple[Program, dict[str, torch.Tensor]]:
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    return lower(traced.graph, spec), {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden


def blocks(x, s, rows=1):
    """Scale `rows` by 4 elements, as blocks of axes of their own."""
    x = x.float().unflatten(-1, (-1, BLOCK))
    if rows == 1:
        return (x * s[:, :, None]).flatten(-2)
    return (x.unflatten(0, (-1, rows)) * s[:, None, :, None]).flatten(0, 1).flatten(-2)


def repeated(x, s, rows=1):
    """Scale each element by its scale, repeated."""
    whole = s.repeat_interleave(rows, 0).repeat_interleave(BLOCK, 1)
    return x.float() * whole[: x.shape[0], : x.shape[1]]


SPELLINGS = {
    "blocks": (lambda x, w, s, u: blocks(x, s) @ blocks(w, u, BLOCK).T, X, W, SX, SW),
    "repeated": (lambda x, w, s, u: repeated(x, s) @ repeated(w, u, BLOCK).T, X, W, SX, SW),
    "rows_of_both": (lambda x, w, s, u: blocks(x, s) @ blocks(w, u).T, X, W, SX, SR),
    "one_operand": (lambda x, w, s: blocks(x, s) @ w.float().T, X, W, SX),
    "linear": (lambda x, w, s, u: torch.nn.functional.linear(blocks(x, s), blocks(w, u, BLOCK)), X, W, SX, SW),
    "einsum": (
        lambda x, w, s, u: torch.einsum(
            "mbk,nbk->mn", x.float().view(6, 4, 4) * s[..., None], w.float().view(8, 4, 4) * u[..., None]
        ),
        X,
        W,
        SX,
        SR,
    ),
    "columns_first": (lambda x, w, s, u: blocks(x, s.T) @ blocks(w, u.T, BLOCK).T, X, W, SX.T.contiguous(), SW.T),
    "transposed": (lambda x, w, s, u: blocks(w, u, BLOCK) @ blocks(x, s).T, X, W, SX, SW),
    "narrow_scales": (lambda x, w, s, u: blocks(x, s.float()) @ blocks(w, u.exp2()).T, X, W, SX.to(BF16), SR),
    "twice": (lambda x, w, s, u, g: blocks(x, s) @ (blocks(w, u, BLOCK) * g).T, X, W, SX, SW, t(8, 1, seed=7)),
    "a_row": (lambda x, w, s, u: (x.float() * s) @ (w.float() * u).T, X, W, t(6, 1), t(8, 1)),
    "ragged_rows": (lambda x, w, s, u: blocks(x, s) @ repeated(w, u, BLOCK).T, X, t(7, 16).to(FP8), SX, SW),
    "ragged_k": (
        lambda x, w, s, u: repeated(x, s) @ repeated(w, u, BLOCK).T,
        t(6, 14).to(FP8),
        RAGGED,
        SX,
        RAGGED_SCALES,
    ),
    "bias_after": (lambda x, w, s, u, b: (blocks(x, s) @ blocks(w, u, BLOCK).T + b).relu(), X, W, SX, SW, t(8)),
    "batched": (
        lambda x, w, s, u: (x.float().unflatten(-1, (-1, 4)) * s[..., None]).flatten(-2) @ blocks(w, u, BLOCK).T,
        t(3, 6, 16).to(FP8),
        W,
        t(3, 6, 4),
        SW,
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_is_one_product_that_means_what_torch_computes(name: str) -> None:
    fn, *inputs = SPELLINGS[name]
    program, tensors = lowered(fn, tuple(inputs))
    verify_program(program)
    (problem,) = program.problems
    assert is_scaled(problem), program
    form = classify_gemm(problem, NARROW)
    assert form.mma_dtype is DType.FP8_E4M3 and form.scales and not form.a_ops.ops and not form.b_ops.ops
    wanted = fn(*inputs)
    (evaluated,) = evaluate_program(program, dict(tensors))
    for found in (evaluated, evaluate_form(form, problem, dict(tensors)).view(wanted.shape)):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SPELLINGS)
def test_with_scaled_operands_in_memory_the_program_means_the_same(name: str) -> None:
    fn, *inputs = SPELLINGS[name]
    program, tensors = lowered(fn, tuple(inputs))
    plain = program.plain
    assert plain is not None and not any(is_scaled(p) for p in plain.problems)
    verify_program(plain)
    (found,) = evaluate_program(plain, dict(tensors))
    torch.testing.assert_close(found, fn(*inputs), rtol=1e-4, atol=1e-4)


NOT_SCALED = {
    "elementwise": (lambda x, w, s: (x.float() * s) @ w.float().T, X, W, t(6, 16)),
    "rounded": (lambda x, w, s: blocks(x, s).to(BF16) @ w.to(BF16).T, X, W, SX),
    "of_bf16": (lambda x, w, s: blocks(x, s) @ w.float().T, X.to(BF16), W.to(BF16), SX),
    "a_number": (lambda x, w, s: (blocks(x, s) * 2) @ w.float().T, X, W, SX),
    "divided": (lambda x, w, s: (x.float() / s) @ w.float().T, X, W, t(6, 1)),
}


@pytest.mark.parametrize("name", NOT_SCALED)
def test_what_cannot_leave_the_sum_stays_before_it(name: str) -> None:
    fn, *inputs = NOT_SCALED[name]
    program, tensors = lowered(fn, tuple(inputs))
    assert program.plain is None and not any(is_scaled(p) for p in program.problems)
    (found,) = evaluate_program(program, dict(tensors))
    torch.testing.assert_close(found, fn(*inputs), rtol=2e-2, atol=2e-2)


def large(n: int = 4096, k: int = 7168, block: int = 128) -> Program:
    def product(x, w, s, u):
        return (x.float() * s.repeat_interleave(block, 1)) @ (w.float() * u.repeat_interleave(block, 1)).T

    kb = -(-k // block)
    x, w = torch.empty(4096, k, dtype=FP8), torch.empty(n, k, dtype=FP8)
    return lowered(product, (x, w, torch.empty(4096, kb), torch.empty(n, kb)))[0]


def test_facts_are_what_shares_a_scale() -> None:
    fn, *inputs = SPELLINGS["blocks"]
    (problem,) = lowered(fn, tuple(inputs))[0].problems
    form = classify_gemm(problem, NARROW)
    facts = facts_of(form, 16)
    assert (facts.scale_k, facts.a_scale_rows, facts.b_scale_rows, facts.promo) == (4, 1, 4, 2)
    exchanged = facts_of(form.exchanged, 16)
    assert (exchanged.a_scale_rows, exchanged.b_scale_rows) == (4, 1)
    assert form.bytes == 6 * 16 + 8 * 16 + 4 * 6 * 8 + 4 * (6 * 4 + 2 * 4)


def test_hopper_multiplies_with_scales_of_128() -> None:
    device = load_device("h200")
    chosen, reasons = with_fused({"default": large()}, device)
    (problem,) = chosen["default"].problems
    assert is_scaled(problem) and reasons == ()


@pytest.mark.parametrize(
    ("device", "block", "rule"),
    [
        ("h200", 64, "printed_scales"),
        ("h200", 32, "printed_scales"),
        ("h200", 192, "printed_scales"),
        ("mi300x", 128, "printed_scales"),
        ("mi355x", 128, "printed_scales"),
    ],
)
def test_elsewhere_operands_are_scaled_before_for_a_rule(device: str, block: int, rule: str) -> None:
    chosen, (reason,) = with_fused({"default": large(k=6144, block=block)}, load_device(device))
    assert len(chosen["default"].problems) > 1
    assert "operands are multiplied by their scales in kernels of their own" in reason and rule in reason


def test_a_k_step_has_one_scale() -> None:
    (problem,) = large().problems
    facts = facts_of(classify_gemm(problem, NARROW), 16)
    device = load_device("h200")
    assert set(legal_set(facts, device).columns["tile_k"]) == {128}
    assert legal_set(replace(facts, scale_k=256), device).count == legal_set(facts, device).count


def test_a_scale_that_no_stride_walks_is_refused() -> None:
    def uneven(x, w, s):
        return (x.float().view(6, 2, 2, 4) * s[:, :, :, None]).flatten(1) @ w.float().T

    (problem,) = lowered(uneven, (X, W, torch.empty(6, 2, 4)[:, :, :2]))[0].problems
    with pytest.raises(NotOneProductError, match="has no one stride along"):
        classify_gemm(problem, NARROW)


def test_elements_that_a_device_does_not_multiply_are_refused() -> None:
    fn, *inputs = SPELLINGS["blocks"]
    (problem,) = lowered(fn, tuple(inputs))[0].problems
    with pytest.raises(NotOneProductError, match="it scales elements of fp8_e4m3"):
        classify_gemm(problem, frozenset({DType.BF16}))


def blockwise(x, w, s, u):
    return torch._scaled_mm(x, w, scale_a=s, scale_b=u, out_dtype=BF16)


@pytest.mark.parametrize(
    ("m", "n", "k", "a", "b", "rows"),
    [
        (256, 384, 1024, (256, 8), (8, 3), (1, 128)),
        (256, 384, 1024, (256, 8), (8, 384), (1, 1)),
        (256, 384, 1024, (2, 8), (8, 384), (128, 1)),
        (77, 576, 1040, (77, 9), (9, 5), (1, 128)),
    ],
)
def test_scaled_mm_of_blocks(m: int, n: int, k: int, a, b, rows) -> None:
    inputs = torch.empty(m, k, dtype=FP8), torch.empty(n, k, dtype=FP8).T, torch.empty(a), torch.empty(b)
    (problem,) = lowered(blockwise, inputs)[0].problems
    form = classify_gemm(problem, NARROW)
    assert isinstance(form, GemmForm) and form.scale_k == 128
    assert (form.a_scales[0].rows, form.b_scales[0].rows) == rows


def test_kernels_read_scales_in_the_order_of_their_loads() -> None:
    def text(m: int) -> str:
        x, w = torch.empty(m, 7168, dtype=FP8), torch.empty(2112, 7168, dtype=FP8)
        package = kgen.emit(of_weight_blocks, (x, w, torch.empty(m, 56), torch.empty(17, 56)), target="h200")
        return package.files["kernel.py"]

    few, many = text(1), text(4096)
    assert "for k in cutlass.range(-(-v.k // v.tile_k), unroll=1):" in many
    assert "k = first + (step + start) % steps  # as the loads of operands go" in few


def of_weight_blocks(x, w, s, u):
    weight = w.float() * u.repeat_interleave(128, 0)[: w.shape[0]].repeat_interleave(128, 1)
    return ((x.float() * s.repeat_interleave(128, 1)) @ weight.T).to(BF16)
