"""The cut of a program into kernels: how many there are, and what lies between them."""

import lower_cases
import pytest
import torch
from problem_eval import evaluate_program
from spellings import BF16, t

from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.problem import Contract, Reduce, Scan, Store
from kgen.ir.program import Program
from kgen.ir.verify_problem import verify_program


def program_of(fn, *inputs: torch.Tensor) -> Program:
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    verify_program(program)
    return program


# case -> number of kernels, and what lies between them
CUTS = {
    "softmax": (1, []),
    "softmax_bf16": (1, []),
    "softmax_square": (1, []),
    "softmax_scaled_masked": (1, []),
    "layer_norm_residual": (1, []),
    "rms_norm_silu_cast": (1, []),
    "group_norm": (1, []),
    "instance_norm": (1, []),
    "batch_norm_batch": (1, []),
    "cross_entropy": (2, ["fp32[4]"]),
    "cross_entropy_smoothed": (2, ["fp32[4]"]),
    "cross_entropy_bf16": (2, ["fp32[4]"]),
    "softmax_then_sum": (2, ["fp32[4]", "fp32[4]"]),
    "softmax_of_no_rows_and_sum": (2, []),
    "linear_softmax": (2, ["fp32[4,5]"]),
    "two_linears": (2, ["fp32[4,5]"]),
    "linear_norm_linear": (3, ["fp32[4,5]", "fp32[4,5]"]),
    "linear_residual_norm": (2, ["fp32[4,6]"]),
    "amax_and_sum": (2, []),
    "rope": (1, []),
    "silu_mul": (1, []),
    "silu_mul_halves": (1, []),
    "quantised": (1, []),
    "quantised_groups": (1, []),
    "triplet": (2, ["fp32[4]"]),
    "triplet_swap": (2, ["fp32[4]"]),
    "cosine_similarity": (1, []),
    "cosine_similarity_broadcast": (1, []),
    "cosine_loss": (2, ["fp32[4]"]),
    "cosine_embedding": (2, ["fp32[4]"]),
    "mse": (1, []),
    "kl_div": (2, None),
    "attention": (1, []),
    "gated_halves": (1, []),
    "mixed_operand": (2, ["fp32[4,6]"]),
    "var_and_max": (1, []),
    "var_mean": (1, []),
    "sums_added": (1, []),
    "sum_and_broadcast": (2, ["fp32[4]"]),
    "cumsum_normalised": (1, []),
    "cumsum_reversed": (1, []),
    "cumsum_exclusive": (1, []),
    "cumsum_shifted": (1, []),
    "cumsum_sliced": (2, ["fp32[4,6]"]),
    "cumprod_lagging": (1, []),
    "frobenius": (1, []),
    "normalize": (1, []),
    "top_and_index": (1, []),
    "mean_of_exp_diff": (2, []),
    "softmax_summed": (2, ["fp32[4]"]),
    "two_norms": (1, []),
    "entropy": (2, ["fp32[4]"]),
    "softmax_both_ways": (2, ["fp32[6]", "fp32[6]"]),
    "covariance": (2, ["fp32[4,6]"]),
    "two_spaces": (2, []),
    "rms_norm_by_hand": (1, []),
    "embedding_norm": (1, []),
    "global_pool": (2, ["fp32[2,6]"]),
    "gather_log_softmax": (2, ["fp32[4]"]),
}


@pytest.mark.parametrize("name", CUTS)
def test_number_of_kernels_and_buffers(name: str) -> None:
    fn, *inputs = lower_cases.ALL[name]
    kernels, buffers = CUTS[name]
    program = program_of(fn, *inputs)
    assert len(program.problems) == kernels
    if buffers is not None:
        assert [str(b.type) for b in program.buffers] == buffers


@pytest.mark.parametrize("name", lower_cases.ALL)
def test_every_kernel_reduces_over_one_set_of_axes(name: str) -> None:
    fn, *inputs = lower_cases.ALL[name]
    program = program_of(fn, *inputs)
    for problem in (program.plain or program).problems:  # attentions have a test of their own
        products = [s for s in problem.body if isinstance(s, Contract)]
        runs = {frozenset(s.axes) for s in problem.body if isinstance(s, Reduce)}
        runs |= {frozenset({s.axis}) for s in problem.body if isinstance(s, Scan)}
        assert len(products) <= 1 and len(runs) <= 1 and not (products and runs)
        reduced = next(iter(runs), frozenset())
        kept = {a.name for a in problem.axes} - reduced
        if not products:
            stores = [frozenset(s.access.axes) for s in problem.body if isinstance(s, Store)]
            assert all(s in (kept, kept | reduced, frozenset()) for s in stores)
            assert all(a.extent != 1 for a in problem.axes)


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(6)

    def forward(self, x):
        return self.norm(x).relu()


def run_module(module: torch.nn.Module, *inputs: torch.Tensor) -> tuple[Program, dict[str, torch.Tensor]]:
    """Compare a module with its program: results, and every buffer that the module updates."""
    spec = spec_from_callable(module, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    verify_program(program)
    tensors = {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)}
    tensors |= {name: x.detach().clone() for name, x in traced.hidden.items()}
    found = evaluate_program(program, tensors)
    expected = module(*inputs)
    torch.testing.assert_close(found[0], expected, rtol=2e-5, atol=2e-5)
    state = dict(module.named_buffers())
    for argument in program.arguments:
        if argument.path in state:
            torch.testing.assert_close(tensors[argument.name], state[argument.path], rtol=1e-5, atol=1e-5)
    return program, tensors


def test_batch_norm_in_train_mode_is_one_kernel_that_updates_its_statistics() -> None:
    program, _ = run_module(Normed(), t(2, 6, 3, 5))
    (problem,) = program.problems
    assert {x.name: str(x.role) for x in problem.outputs} == {
        "norm_running_mean": "updated",
        "norm_running_var": "updated",
        "norm_num_batches_tracked": "updated",
        "out": "output",
    }


def test_linear_batch_norm_and_softmax_in_train_mode() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Softmax(1))
    program, _ = run_module(module, t(5, 6))
    assert [sum(isinstance(s, Contract) for s in p.body) for p in program.problems] == [1, 0, 0]


def test_what_crosses_in_bf16_is_bf16() -> None:
    program = program_of(lambda x, w: (x @ w).relu().softmax(-1), t(4, 6, dtype=BF16), t(6, 8, dtype=BF16))
    assert [str(b) for b in program.buffers] == ["buffer buffer_0: bf16[4,8]"]
    assert any("relu" in str(s) for s in program.problems[0].body)
