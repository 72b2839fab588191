"""A plain interpreter of Problems and Programs on the CPU: one tensor axis per kernel axis."""

from functools import reduce

import torch
import torch.nn.functional as F

from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.access import Access, Affine
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import (
    Combine,
    Const,
    Contract,
    Gather,
    Index,
    Load,
    Map,
    Problem,
    Reduce,
    Scan,
    Store,
    TensorRole,
)
from kgen.ir.program import Program

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
    Op.FLOOR_DIVIDE: lambda a, b: torch.div(a, b, rounding_mode="floor"),
    Op.TRUNC_DIVIDE: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    Op.SHIFT_LEFT: torch.bitwise_left_shift,
    Op.SHIFT_RIGHT: torch.bitwise_right_shift,
}


class Evaluation:
    """Evaluates one Problem on given tensors."""

    def __init__(self, problem: Problem, tensors: dict[str, torch.Tensor]) -> None:
        self.problem = problem
        self.tensors = tensors
        self.axes = [axis.name for axis in problem.axes]
        self.ones = [1] * len(self.axes)
        self.grid = {
            a.name: torch.arange(a.extent).reshape([-1 if b == a.name else 1 for b in self.axes]) for a in problem.axes
        }
        self.values: dict[str, torch.Tensor] = {}
        self.stored: dict[str, torch.Tensor] = {}

    def run(self) -> torch.Tensor:
        """Return the tensor of the last store; `stored` has all of them."""
        for statement in self.problem.body:
            match statement:
                case Store():
                    self.stored[statement.access.tensor] = self.store(statement)
                case Map():
                    self.values[statement.result] = self.map(statement)
                case _:
                    self.values[statement.result] = self.defined(statement)
        return list(self.stored.values())[-1]

    def defined(self, statement) -> torch.Tensor:
        match statement:
            case Load(access=access):
                return self.read(access, self.index(access))
            case Gather(access=access, position=position, index=index):
                places = list(self.index(access))
                places[position] = places[position] + self.values[index]
                return self.read(access, tuple(places))
            case Index(axis=axis):
                return self.grid[axis]
            case Contract():
                lhs, rhs = (self.values[v].to(TORCH_DTYPES[statement.dtype]) for v in (statement.lhs, statement.rhs))
                return (lhs * rhs).sum(self.dims(statement.axes), keepdim=True, dtype=lhs.dtype)
            case Reduce():
                return self.reduced(statement)
            case Scan():
                return self.scanned(statement)
        raise TypeError(statement)

    def read(self, access: Access, index: tuple[torch.Tensor, ...]) -> torch.Tensor:
        tensor = self.tensors[access.tensor]
        if not index:
            return tensor.reshape(self.ones)
        inside = [(self.at(b.lo) <= self.at(b.index)) & (self.at(b.index) < self.at(b.hi)) for b in access.valid]
        valid = reduce(torch.logical_and, inside, torch.ones(self.ones, dtype=torch.bool))
        for place, extent in zip(index, tensor.shape, strict=True):
            bad = valid & ((place < 0) | (place >= extent))
            assert not bad.any(), f"{access} leaves its tensor"
        if not all(tensor.shape):
            return torch.zeros(self.ones, dtype=tensor.dtype).expand(torch.broadcast_tensors(*index)[0].shape)
        found = tensor[tuple(p.clamp(0, n - 1) for p, n in zip(index, tensor.shape, strict=True))]
        return torch.where(valid, found, torch.tensor(access.fill).to(tensor.dtype)) if access.valid else found

    def dims(self, axes: tuple[str, ...]) -> list[int]:
        return [self.axes.index(a) for a in axes]

    def spread(self, value: torch.Tensor, axes: tuple[str, ...]) -> torch.Tensor:
        """Return a value with its full extent along axes."""
        for axis in axes:
            assert value.shape[self.axes.index(axis)] == self.problem.axis(axis).extent, "it varies along the axis"
        return value

    def reduced(self, statement: Reduce) -> torch.Tensor:
        dtype, dims = TORCH_DTYPES[statement.dtype], self.dims(statement.axes)
        x = self.spread(self.values[statement.operand], statement.axes)
        if statement.combine in (Combine.ARGMAX, Combine.ARGMIN):
            return self.first_of_extremes(x, dims, statement.combine is Combine.ARGMAX)
        x = x.to(dtype)
        match statement.combine:
            case Combine.SUM:
                return x.sum(dims, keepdim=True, dtype=dtype)
            case Combine.M2:
                return (x - x.mean(dims, keepdim=True)).square().sum(dims, keepdim=True)
            case Combine.SUMEXP:
                largest = x.amax(dims, keepdim=True)
                return (x - largest.masked_fill(largest == -torch.inf, 0)).exp().sum(dims, keepdim=True)
            case Combine.MAX:
                return x.amax(dims, keepdim=True)
            case Combine.MIN:
                return x.amin(dims, keepdim=True)
        functions = {Combine.PROD: torch.prod, Combine.ANY: torch.any, Combine.ALL: torch.all}
        return reduce(lambda y, d: functions[statement.combine](y, d, keepdim=True), dims, x).to(dtype)

    def first_of_extremes(self, x: torch.Tensor, dims: list[int], greatest: bool) -> torch.Tensor:
        kept = [d for d in range(x.dim()) if d not in dims]
        flat = x.permute(*kept, *dims).flatten(len(kept))
        x = flat.to(torch.float64) if flat.is_floating_point() else flat.to(torch.int64)
        extreme = x.amax(-1, keepdim=True) if greatest else x.amin(-1, keepdim=True)
        hit = (x == extreme) | (x.isnan() if x.is_floating_point() else False)
        found = torch.where(hit, torch.arange(x.shape[-1]), x.shape[-1]).amin(-1)
        shape = [1] * len(self.axes)
        for d in kept:
            shape[d] = -1 if len(kept) == 1 else found.shape[kept.index(d)]
        return found.reshape(shape)

    def scanned(self, statement: Scan) -> torch.Tensor:
        x = self.spread(self.values[statement.operand], (statement.axis,)).to(TORCH_DTYPES[statement.dtype])
        dim = self.axes.index(statement.axis)
        x = x.flip(dim) if statement.reverse else x
        found = {Combine.SUM: torch.cumsum, Combine.PROD: torch.cumprod}[statement.combine](x, dim, dtype=x.dtype)
        return found.flip(dim) if statement.reverse else found

    def at(self, index: Affine) -> torch.Tensor:
        start = torch.zeros(self.ones, dtype=torch.int64)
        return reduce(torch.add, (self.grid[a] * c for a, c in index.terms), start) // index.divisor + index.offset

    def index(self, access: Access) -> tuple[torch.Tensor, ...]:
        return tuple(self.at(i) for i in access.indices)

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
        elif statement.op is Op.WHERE:
            operands = [operands[0].bool(), *(o.to(dtype) for o in operands[1:])]
        else:
            operands = [o.to(dtype) for o in operands]
        function = _FUNCTIONS.get(statement.op) or getattr(torch, statement.op.value)
        return function(*operands).to(dtype)

    def store(self, statement: Store) -> torch.Tensor:
        target = self.problem.tensor(statement.access.tensor)
        assert target.role is not TensorRole.INPUT
        shape, dtype = target.type.static_shape, TORCH_DTYPES[target.type.dtype]
        out = torch.full((1 + sum(max(n - 1, 0) * s for n, s in zip(shape, target.type.strides, strict=True)),), 77.0)
        out = out.to(dtype).as_strided(shape, target.type.strides)
        index = self.index(statement.access)
        value = self.values[statement.value].to(dtype)
        if not index:
            return value.reshape(())
        whole = torch.broadcast_tensors(*index, value)
        count = torch.zeros(shape, dtype=torch.int64)
        count.index_put_(whole[:-1], torch.ones_like(whole[0]), accumulate=True)
        assert (count > 0).all(), f"{statement} leaves elements unwritten"
        out.index_put_(whole[:-1], whole[-1])
        return out


def evaluate(problem: Problem, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the output of a Problem with one store."""
    return Evaluation(problem, tensors).run()


def evaluate_program(program: Program, tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the results of a Program; buffers and mutated inputs end up in `tensors`."""
    for problem in program.problems:
        run = Evaluation(problem, {t.name: tensors[t.name] for t in problem.inputs})
        run.run()
        tensors.update(run.stored)
    return tuple(tensors[name] for name in program.results)
