"""The random programs as the front end lowers them, interpreted on the CPU and judged as on the GPU."""

import sys
from pathlib import Path

import pytest
import torch
from problem_eval import evaluate_program

from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.verify_problem import verify_program

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import program_model
import programs
import random_programs


def faults_of(p: program_model.Program) -> list[str]:
    tensors = [tensor for tensor, _ in p.make("cpu")]
    spec = spec_from_callable(p.reference(), tensors, name="program")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    verify_program(program)
    values = {i.name: tensor for i, tensor in zip(spec.inputs, tensors, strict=True)} | traced.hidden
    out = evaluate_program(program, values)
    return random_programs.judged(p, out, [values[tensor.name] for tensor in p.tensors], "cpu")[1]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("index", programs.of_commit(programs.commit()))
def test_a_program_of_this_commit_means_what_torch_computes(index: int) -> None:
    assert faults_of(programs.program(index)) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("index", range(programs.COUNT))
def test_every_program_means_what_torch_computes(index: int) -> None:
    torch.set_num_threads(1)
    assert faults_of(programs.program(index)) == []
