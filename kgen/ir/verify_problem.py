"""The verifier of Problems: one invariant a line, run by the pipeline after the stage that makes them."""

from typing import assert_never

from kgen.ir.access import Access
from kgen.ir.problem import (
    Const,
    Contract,
    Gather,
    Index,
    Load,
    Map,
    Problem,
    Reduce,
    Scan,
    Statement,
    Store,
    TensorRole,
)
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType


class ProblemInvariantError(AssertionError):
    """A Problem breaks an invariant: a fault in kgen, not in the user's input."""


def verify_problem(problem: Problem) -> None:
    """Raise `ProblemInvariantError` naming the statement and the invariant it breaks."""
    _Verifier(problem).run()


def verify_program(program: Program) -> None:
    """Raise `ProblemInvariantError` unless every problem holds and each reads what exists and writes once.

    A kernel reads arguments and what earlier kernels wrote; a buffer or result is written by one kernel, and nothing
    reads an argument that an earlier kernel has updated.
    """
    arguments = {a.name: a.type for a in program.arguments}
    written: dict[str, TensorType] = {}
    updated: set[str] = set()
    for problem in program.problems:
        verify_problem(problem)
        for tensor in problem.inputs:
            known = {**arguments, **written}.get(tensor.name)
            if known is None or known != tensor.type:
                raise ProblemInvariantError(f"{program.name}: {problem.name} reads {tensor} before it is written")
            if tensor.name in updated:
                raise ProblemInvariantError(f"{program.name}: {problem.name} reads {tensor.name}, which was updated")
        for tensor in problem.outputs:
            if tensor.role is TensorRole.UPDATED:
                updated.add(tensor.name)
            elif tensor.name in arguments or tensor.name in written:
                raise ProblemInvariantError(f"{program.name}: {tensor.name} is written twice")
            else:
                written[tensor.name] = tensor.type
    named = {*program.results, *(b.name for b in program.buffers)}
    if named != set(written):
        raise ProblemInvariantError(f"{program.name}: {sorted(named ^ set(written))} is no result or is not written")


class _Verifier:
    """Walks the body once, keeping the axes along which each value varies."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.axis_names = {a.name for a in problem.axes}
        self.tensors = {t.name: t for t in problem.tensors}
        self.varies: dict[str, frozenset[str]] = {}
        self.written: set[str] = set()

    def run(self) -> None:
        self.require(len(self.axis_names) == len(self.problem.axes), "axis names are unique", None)
        self.require(len(self.tensors) == len(self.problem.tensors), "tensor names are unique", None)
        for statement in self.problem.body:
            self.statement(statement)
        outputs = {t.name for t in self.problem.outputs}
        self.require(outputs == self.written, f"every output is stored once: {sorted(outputs ^ self.written)}", None)

    def require(self, holds: bool, invariant: str, statement: Statement | None) -> None:
        if not holds:
            raise ProblemInvariantError(f"{self.problem.name}: {statement or 'problem'}: {invariant}")

    def access(self, access: Access, statement: Statement) -> frozenset[str]:
        self.require(access.tensor in self.tensors, f"tensor {access.tensor} is declared", statement)
        rank = self.tensors[access.tensor].type.rank
        self.require(len(access.indices) == rank, f"{access.tensor} takes {rank} indices", statement)
        self.require(set(access.axes) <= self.axis_names, "every axis is declared", statement)
        return frozenset(access.axes)

    def value(self, name: str, statement: Statement) -> frozenset[str]:
        self.require(name in self.varies, f"value {name} is defined before its use", statement)
        return self.varies[name]

    def define(self, result: str, axes: frozenset[str], statement: Statement) -> None:
        self.require(result not in self.varies, f"value {result} is defined once", statement)
        self.varies[result] = axes

    def statement(self, s: Statement) -> None:
        match s:
            case Load():
                readable = (
                    s.access.tensor not in self.tensors or self.tensors[s.access.tensor].role is not TensorRole.OUTPUT
                )
                self.require(readable, "an output is not read", s)
                self.define(s.result, self.access(s.access, s), s)
            case Gather():
                axes = self.access(s.access, s) | self.value(s.index, s)
                self.require(0 <= s.position < len(s.access.indices), "the gathered position exists", s)
                self.define(s.result, axes, s)
            case Index():
                self.require(s.axis in self.axis_names, "every axis is declared", s)
                self.define(s.result, frozenset({s.axis}), s)
            case Contract():
                lhs, rhs = self.value(s.lhs, s), self.value(s.rhs, s)
                self.require(
                    set(s.axes) <= lhs and set(s.axes) <= rhs, "both operands vary along each contracted axis", s
                )
                self.define(s.result, (lhs | rhs) - set(s.axes), s)
            case Reduce():
                operand = self.value(s.operand, s)
                self.require(set(s.axes) <= operand, "the operand varies along each reduced axis", s)
                self.define(s.result, operand - set(s.axes), s)
            case Scan():
                operand = self.value(s.operand, s)
                self.require(s.axis in operand, "the operand varies along the scanned axis", s)
                self.define(s.result, operand, s)
            case Map():
                self.require(len(s.operands) == s.op.arity, f"{s.op} takes {s.op.arity} operands", s)
                values = [self.value(o, s) for o in s.operands if not isinstance(o, Const)]
                self.define(s.result, frozenset().union(*values), s)
            case Store():
                written = self.access(s.access, s)
                self.require(self.tensors[s.access.tensor].role is not TensorRole.INPUT, "an input is not written", s)
                self.require(s.access.tensor not in self.written, "an output is stored once", s)
                self.require(self.value(s.value, s) <= written, "the value varies along stored axes only", s)
                self.written.add(s.access.tensor)
            case _:
                assert_never(s)
