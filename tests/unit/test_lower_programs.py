"""Programs mean what eager torch computes: every kernel of them is interpreted, on the CPU."""

import lower_cases
import pytest
import torch
from problem_eval import evaluate_program

from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.graph import verify_graph
from kgen.ir.verify_problem import verify_program

# Values of a reduced precision are carried in fp32 between the operations, where eager rounds each.
_TOLERANCE = {torch.float32: 2e-5, torch.float64: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def tupled(result) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", lower_cases.ALL)
def test_program_means_what_torch_computes(name: str) -> None:
    fn, *inputs = lower_cases.ALL[name]
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    verify_graph(traced.graph)
    verify_program(program)
    tensors = {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden
    found, expected = evaluate_program(program, tensors), tupled(fn(*(x.clone() for x in inputs)))
    assert len(found) == len(expected)
    for out, wanted in zip(found, expected, strict=True):
        assert out.shape == wanted.shape and out.dtype == wanted.dtype
        tolerance = max(_TOLERANCE.get(x.dtype, 0) for x in (*inputs, wanted))
        torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
