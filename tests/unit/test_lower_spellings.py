"""Every spelling lowers to a Problem that means what PyTorch computes: the Problem is interpreted and compared."""

import pytest
import spellings
import torch
from problem_eval import evaluate

from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.graph import verify_graph
from kgen.ir.problem import Contract
from kgen.ir.verify_problem import verify_problem

# Two roundings of an element in its type: values of a reduced precision are carried in fp32 between the operations.
_TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.mark.parametrize("name", spellings.ALL)
def test_problem_means_what_torch_computes(name: str) -> None:
    fn, *inputs = spellings.ALL[name]
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    (problem,) = program.problems
    verify_graph(traced.graph)
    verify_problem(problem)
    assert sum(isinstance(s, Contract) for s in problem.body) == 1
    tensors = {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden
    out, expected = evaluate(problem, tensors), fn(*(x.clone() for x in inputs))
    assert out.shape == expected.shape and out.dtype == expected.dtype
    tolerance = max(_TOLERANCE.get(x.dtype, 0) for x in (*inputs, expected))
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not expected.is_contiguous() and expected.numel() == expected.untyped_storage().size():
        assert out.stride() == expected.stride()
