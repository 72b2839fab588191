"""Inputs that a reference writes: the kernels update them in place, safely, or through a buffer."""

import pytest
import torch
from problem_eval import evaluate_program
from spellings import t

from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.problem import Load, Store, TensorRole
from kgen.ir.verify_problem import verify_program


def doubled(x):
    return x.mul_(2)


def softmax_in_place(x):
    x.copy_(x.softmax(-1))
    return x.sum()


def centred(x):
    return x.sub_(x.mean(-1, keepdim=True)) * 2


def transposed(x):
    x.copy_(x.t() + 1)
    return x * 2


def flipped(x, y):
    x.copy_(x.flip(0))
    return x + y


def swapped(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def read_after(x, y):
    total = x.sum(0)
    x.add_(y)
    return total, x.amax(-1)


def counted(x, count):
    count.add_(1)
    return x * count


def scaled_by_old(x, scale):
    out = x / scale[:, None]
    scale.mul_(0.9).add_(x.abs().amax(-1) * 0.1)
    return out


def column_statistics(x, mean):
    mean.lerp_(x.mean(0), 0.1)
    return x - mean


def part(x, y):
    x[:, 1:3] = y[:, :2] * 2
    return x.sum(-1)


CASES = {
    "doubled": (doubled, 1, t(4, 6)),
    "softmax_in_place": (softmax_in_place, 2, t(4, 6)),
    "centred": (centred, 1, t(4, 6)),
    "transposed": (transposed, 2, t(5, 5)),
    "flipped": (flipped, 2, t(4, 6), t(4, 6, seed=1)),
    "swapped": (swapped, 1, t(4, 6), t(4, 6, seed=1)),
    "read_after": (read_after, 2, t(4, 6), t(4, 6, seed=1)),
    "counted": (counted, 2, t(4, 6), t()),
    "scaled_by_old": (scaled_by_old, 2, t(4, 6), t(4, seed=2).abs() + 1),
    "column_statistics": (column_statistics, 2, t(4, 6), t(6)),
    "part": (part, 1, t(4, 6), t(4, 6, seed=1)),
}


@pytest.mark.parametrize("name", CASES)
def test_updates_are_what_torch_leaves_behind(name: str) -> None:
    fn, kernels, *inputs = CASES[name]
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    verify_program(program)
    assert len(program.problems) == kernels
    tensors = {i.name: x.clone() for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden
    found, expected_inputs = evaluate_program(program, tensors), [x.clone() for x in inputs]
    expected = fn(*expected_inputs)
    for out, wanted in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(out, wanted)
    for argument, wanted in zip(spec.inputs, expected_inputs, strict=True):
        torch.testing.assert_close(tensors[argument.name], wanted)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_reads_what_it_updates_at_the_same_point_only(name: str) -> None:
    fn, _, *inputs = CASES[name]
    spec = spec_from_callable(fn, inputs, name="case")
    for problem in lower(trace_live(spec, spec.cases[0]).graph, spec).problems:
        for tensor in problem.tensors:
            if tensor.role is TensorRole.UPDATED:
                at = {s.access.indices for s in problem.body if isinstance(s, Load) and s.access.tensor == tensor.name}
                (store,) = (s for s in problem.body if isinstance(s, Store) and s.access.tensor == tensor.name)
                assert at <= {store.access.indices}
