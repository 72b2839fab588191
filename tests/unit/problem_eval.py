"""A plain interpreter of Problems on the CPU: what their statements mean, one tensor axis per kernel axis."""

from functools import reduce

import torch
import torch.nn.functional as F

from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.access import Access
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Contract, Load, Map, Problem, Store, TensorRole

_FUNCTIONS = {
    Op.ADD: torch.add,
    Op.SUB: torch.sub,
    Op.MUL: torch.mul,
    Op.DIV: torch.div,
    Op.RELU: torch.relu,
    Op.GELU_ERF: F.gelu,
    Op.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
    Op.SILU: F.silu,
    Op.MISH: F.mish,
    Op.SOFTSIGN: F.softsign,
    Op.SELU: F.selu,
    Op.HARDSIGMOID: F.hardsigmoid,
    Op.HARDSWISH: F.hardswish,
    Op.LOGSIGMOID: F.logsigmoid,
    Op.SOFTPLUS: lambda x, beta, threshold: F.softplus(x, float(beta), float(threshold)),
    Op.LEAKY_RELU: lambda x, slope: torch.where(x > 0, x, x * slope),
    Op.ELU: lambda x, a, s, i: torch.where(x > 0, x * s, a * s * torch.expm1(x * i)),
    Op.WHERE: lambda c, a, b: torch.where(c.bool(), a, b),
}


class Evaluation:
    """Evaluates one Problem on given tensors."""

    def __init__(self, problem: Problem, tensors: dict[str, torch.Tensor]) -> None:
        self.problem = problem
        self.tensors = tensors
        self.axes = [axis.name for axis in problem.axes]
        self.grid = {
            a.name: torch.arange(a.extent).reshape([-1 if b == a.name else 1 for b in self.axes]) for a in problem.axes
        }
        self.values: dict[str, torch.Tensor] = {}

    def run(self) -> torch.Tensor:
        for statement in self.problem.body:
            match statement:
                case Load():
                    tensor = self.tensors[statement.access.tensor]
                    ones = [1] * len(self.axes)
                    index = self.index(statement.access)
                    self.values[statement.result] = tensor[index] if index else tensor.reshape(ones)
                case Contract():
                    lhs, rhs = (
                        self.values[v].to(TORCH_DTYPES[statement.dtype]) for v in (statement.lhs, statement.rhs)
                    )
                    dims = [self.axes.index(a) for a in statement.axes]
                    self.values[statement.result] = (lhs * rhs).sum(dims, keepdim=True, dtype=lhs.dtype)
                case Map():
                    self.values[statement.result] = self.map(statement)
                case Store():
                    return self.store(statement)
                case _:
                    raise TypeError(statement)
        raise AssertionError("no store")

    def index(self, access: Access) -> tuple[torch.Tensor, ...]:
        ones = torch.zeros([1] * len(self.axes), dtype=torch.int64)
        return tuple(reduce(torch.add, (self.grid[a] * c for a, c in i.terms), ones + i.offset) for i in access.indices)

    def map(self, statement: Map) -> torch.Tensor:
        dtype = TORCH_DTYPES[statement.dtype]
        operands = [torch.tensor(o.value) if isinstance(o, Const) else self.values[o] for o in statement.operands]
        if statement.op is Op.CAST:
            return operands[0].to(dtype)
        if statement.op in (Op.LOGICAL_AND, Op.LOGICAL_OR, Op.LOGICAL_NOT):
            operands = [o.bool() for o in operands]
        elif statement.op.is_predicate:
            wide = torch.float64 if any(o.is_floating_point() for o in operands) else torch.int64
            operands = [o.to(wide) for o in operands]
        else:
            operands = [o.to(dtype) for o in operands]
        function = _FUNCTIONS.get(statement.op) or getattr(torch, statement.op.value)
        return function(*operands).to(dtype)

    def store(self, statement: Store) -> torch.Tensor:
        target = self.problem.tensor(statement.access.tensor)
        assert target.role is TensorRole.OUTPUT
        shape, dtype = target.type.static_shape, TORCH_DTYPES[target.type.dtype]
        out = torch.full(shape, 77, dtype=dtype).as_strided(shape, target.type.strides)
        index = self.index(statement.access)
        value = self.values[statement.value].to(dtype)
        if not index:
            return value.reshape(())
        whole = torch.broadcast_tensors(*index, value)
        out.index_put_(whole[:-1], whole[-1])
        return out


def evaluate(problem: Problem, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the output of a Problem with one store."""
    return Evaluation(problem, tensors).run()
