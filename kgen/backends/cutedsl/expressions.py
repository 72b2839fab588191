"""Print pointwise ops as CuTe DSL statements in SSA form, one op a line, on fp32 values.

Ops with more than one instruction of their own are calls of functions in `templates/cutedsl/lib/pointwise.py`; a
kernel takes over the source of those that it calls (`library_source`).
"""

import ast
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from kgen.errors.backend import OpNotPrintedError
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Map, Operand
from kgen.resources import templates_dir

ELEMENT_TYPES: Final = {
    DType.BF16: "cutlass.BFloat16",
    DType.FP16: "cutlass.Float16",
    DType.FP32: "cutlass.Float32",
    DType.BOOL: "cutlass.Boolean",
    DType.INT8: "cutlass.Int8",
    DType.UINT8: "cutlass.Uint8",
    DType.INT16: "cutlass.Int16",
    DType.INT32: "cutlass.Int32",
    DType.INT64: "cutlass.Int64",
}
_COMPUTED: Final = (DType.FP32, DType.BF16, DType.FP16, DType.BOOL)

_FORMS: Final = {
    Op.ADD: "{0} + {1}",
    Op.SUB: "{0} - {1}",
    Op.MUL: "{0} * {1}",
    Op.DIV: "{0} / {1}",
    Op.POW: "power({0}, {1})",
    Op.MAXIMUM: "maximum({0}, {1})",
    Op.MINIMUM: "minimum({0}, {1})",
    Op.NEG: "-{0}",
    Op.ABS: "cute.math.abs({0})",
    Op.SIGN: "sign({0})",
    Op.EXP: "cute.math.exp({0})",
    Op.EXP2: "cute.math.exp2({0})",
    Op.EXPM1: "cute.math.expm1({0})",
    Op.LOG: "cute.math.log({0})",
    Op.LOG2: "cute.math.log2({0})",
    Op.LOG10: "cute.math.log10({0})",
    Op.LOG1P: "cute.math.log1p({0})",
    Op.SQRT: "cute.math.sqrt({0})",
    Op.RSQRT: "cute.math.rsqrt({0})",
    Op.RECIPROCAL: "reciprocal({0})",
    Op.SIN: "cute.math.sin({0})",
    Op.COS: "cute.math.cos({0})",
    Op.TAN: "cute.math.tan({0})",
    Op.ATAN: "cute.math.atan({0})",
    Op.SINH: "cute.math.sinh({0})",
    Op.COSH: "cute.math.cosh({0})",
    Op.TANH: "cute.math.tanh({0})",
    Op.ERF: "cute.math.erf({0})",
    Op.FLOOR: "cute.math.floor({0})",
    Op.CEIL: "cute.math.ceil({0})",
    Op.TRUNC: "cute.math.trunc({0})",
    Op.ROUND: "cute.math.roundeven({0})",
    Op.SIGMOID: "sigmoid({0})",
    Op.RELU: "relu({0})",
    Op.GELU_ERF: "gelu_erf({0})",
    Op.GELU_TANH: "gelu_tanh({0})",
    Op.SILU: "silu({0})",
    Op.MISH: "mish({0})",
    Op.SOFTPLUS: "softplus({0}, {1}, {2})",
    Op.SOFTSIGN: "softsign({0})",
    Op.LEAKY_RELU: "leaky_relu({0}, {1})",
    Op.ELU: "elu({0}, {1}, {2}, {3})",
    Op.SELU: "selu({0})",
    Op.HARDSIGMOID: "hardsigmoid({0})",
    Op.HARDSWISH: "hardswish({0})",
    Op.LOGSIGMOID: "logsigmoid({0})",
    Op.EQ: "{0} == {1}",
    Op.NE: "{0} != {1}",
    Op.LT: "{0} < {1}",
    Op.LE: "{0} <= {1}",
    Op.GT: "{0} > {1}",
    Op.GE: "{0} >= {1}",
    Op.LOGICAL_AND: "{0} & {1}",
    Op.LOGICAL_OR: "{0} | {1}",
    Op.LOGICAL_NOT: "~{0}",
    Op.WHERE: "select({0}, {1}, {2})",
}


def print_ops(ops: Sequence[Map], names: dict[str, str]) -> tuple[str, ...]:
    """Return one assignment per op; `names` maps values to Python names and is extended by the results.

    A cast to a 16-bit type rounds and widens again, so that it stays where it is written; a cast to fp32 prints
    nothing. Raises `OpNotPrintedError` for an op on a type the kernels do not compute in.
    """
    lines: list[str] = []
    for op in ops:
        if op.dtype not in _COMPUTED:
            raise OpNotPrintedError(statement=op, dtype=op.dtype)
        operands = [_operand(o, names) for o in op.operands]
        if op.op is Op.CAST and op.dtype is DType.FP32:
            names[op.result] = operands[0]
            continue
        names[op.result] = name = f"x{len(set(names.values()))}"
        lines.append(f"{name} = {_expression(op, operands)}")
    return tuple(lines)


def library_source(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the source of every library function that the statements call, callees before callers."""
    functions = _library()
    wanted: dict[str, None] = {}

    def visit(code: str) -> None:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Name) and node.id in functions and node.id not in wanted:
                visit(functions[node.id])
                wanted[node.id] = None

    for line in lines:
        visit(line)
    return tuple(functions[name] for name in functions if name in wanted)


def library_names() -> frozenset[str]:
    """Return the names of all library functions."""
    return frozenset(_library())


def _expression(op: Map, operands: list[str]) -> str:
    if op.op is Op.CAST:
        return f"{operands[0]}.to({ELEMENT_TYPES[op.dtype]}).to(cutlass.Float32)"
    return _FORMS[op.op].format(*operands)


def _operand(operand: Operand, names: dict[str, str]) -> str:
    if not isinstance(operand, Const):
        return names[operand]
    if isinstance(operand.value, bool):
        return repr(operand.value)
    value = float(operand.value)
    if value in (float("inf"), float("-inf")) or value != value:
        return f'float("{value}")'
    return repr(value)


@cache
def _library() -> dict[str, str]:
    text = (templates_dir() / "cutedsl" / "lib" / "pointwise.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {f.name: ast.get_source_segment(text, f) or "" for f in functions}
