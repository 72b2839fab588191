"""Print pointwise ops as CuTe DSL statements in SSA form, one op a line, each on values of one carried type.

Values of fp32, bf16, fp16 and fp8 are carried in fp32, those of every other type as they are (`carried`). A value read
from memory becomes a carried one by `loaded`; `stored` turns a carried one into what an element of memory takes. Bools
lie in memory as bytes of 0 or 1 (`memory`).

Ops with more than one instruction of their own are calls of functions in `templates/cutedsl/lib`; a kernel takes over
the source of those that its statements call (`library_source`).
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from kgen.backends.cutedsl.forms import form_of
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
_MEMORY: Final = ELEMENT_TYPES | {
    DType.BOOL: "cutlass.Uint8",
    DType.FP8_E4M3: "cutlass.Float8E4M3FN",
    DType.FP8_E5M2: "cutlass.Float8E5M2",
    DType.FP64: "cutlass.Float64",
}
_TO_FP8: Final = {DType.FP8_E4M3: "to_e4m3", DType.FP8_E5M2: "to_e5m2"}
_LIBRARY: Final = ("pointwise.py", "integers.py", "doubles.py", "approximate.py", "loops.py")
_SMALLEST: Final = 2.0**-120  # neither it nor its inverse is near the ends of fp32
_ANY_OPERANDS: Final = (Op.LOGICAL_AND, Op.LOGICAL_OR, Op.LOGICAL_NOT)


def memory(dtype: DType) -> str:
    """Return the type an element has in memory, as kernels see it: a bool is a byte, 0 or 1."""
    return _MEMORY[dtype]


def carried(dtype: DType) -> str:
    """Return the type a value is carried in from one op to the next: fp32 for every narrower float."""
    if dtype is DType.BOOL:
        return "cutlass.Boolean"
    return _MEMORY[carried_dtype(dtype)]


def carried_dtype(dtype: DType) -> DType:
    """Return the element type of the values that carry a dtype."""
    return DType.FP32 if dtype.is_float and dtype is not DType.FP64 else dtype


def loaded(code: str, dtype: DType) -> str:
    """Return the carried value of an element read from memory; `code` is a name, a subscript or a call.

    The result stands on the right of an assignment: it may be a comparison.
    """
    if dtype is DType.BOOL:
        return f"{code} != 0"
    return code if _MEMORY[dtype] == carried(dtype) else f"{code}.to(cutlass.Float32)"


def stored(code: str, value_dtype: DType, dtype: DType) -> str:
    """Return what is assigned to an element of type `dtype`, of a value carried as `value_dtype` is.

    `code` is a name, a subscript or a call. A value of another type is converted as torch's `.to` does. The result may
    call a function of the library, so it belongs to the lines that `library_source` is asked about.
    """
    if dtype is DType.BOOL:
        truth = code if value_dtype is DType.BOOL else f"({code} != 0)"
        return f"{truth}.to(cutlass.Uint8)"
    value = _converted(code, value_dtype, carried_dtype(dtype))
    return value if _MEMORY[dtype] == carried(dtype) else _narrowed(value, dtype)


def constant(value: float | int | bool, dtype: DType) -> str:
    """Return a number as a value of the type that carries `dtype`."""
    if dtype is DType.BOOL:
        return f"cutlass.Boolean({bool(value)})"
    return f"{carried(dtype)}({_number(value) if dtype.is_float else int(value)})"


def print_ops(
    ops: Sequence[Map],
    names: dict[str, str],
    types: Mapping[str, DType] | None = None,
    *,
    approximate: bool = False,
) -> tuple[str, ...]:
    """Return one assignment per op; `names` maps values to Python names and is extended by the results.

    `types` are the dtypes of the values that come from outside; those that it leaves out are carried in fp32. A cast
    to a type narrower than fp32 rounds and widens again, so that it stays where it is written; a cast that changes
    nothing of the carried value prints nothing. `approximate` takes the hardware's approximations on fp32 values,
    within 6e-6 (templates/cutedsl/lib/approximate.py), where else a function costs more instructions than a kernel
    that memory bounds has per element. Raises `OpNotPrintedError` for an op that has no form in its type, or with an
    operand of another type.
    """
    known = dict(types or {})
    lines: list[str] = []
    for op in ops:
        code = _expression(op, names, known, approximate)
        known[op.result] = op.dtype
        if code in names.values():
            names[op.result] = code
            continue
        names[op.result] = name = f"x{len(set(names.values()))}"
        lines.append(f"{name} = {code}")
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


def _expression(op: Map, names: Mapping[str, str], types: Mapping[str, DType], approximate: bool) -> str:
    if op.op is Op.CAST:
        return _cast(op.operands[0], op.dtype, names, types)
    dtype = _computed_dtype(op, types)
    typed = dtype is not DType.FP32 or all(isinstance(o, Const) for o in op.operands)
    operands = [_operand(o, dtype, names, typed) for o in op.operands]
    if approximate and op.op is Op.DIV and dtype is DType.FP32 and (inverse := _inverse(op.operands[1])) is not None:
        return f"{operands[0]} * {inverse!r}"
    form = form_of(op.op, dtype, approximate=approximate)
    if form is None:
        raise OpNotPrintedError(statement=op, dtype=dtype)
    return form.format(*operands, kind=carried(dtype))


def _inverse(operand: Operand) -> float | None:
    """Return 1 / operand, where that is a constant well inside fp32."""
    if isinstance(operand, Const) and _SMALLEST <= abs(operand.value) <= 1.0 / _SMALLEST:
        return 1.0 / operand.value
    return None


def _computed_dtype(op: Map, types: Mapping[str, DType]) -> DType:
    """Return the one type that the operands are carried in; of a predicate it is not the type of the result."""
    operands = op.operands[1:] if op.op is Op.WHERE else op.operands
    found = {carried_dtype(types.get(o, DType.FP32)) for o in operands if isinstance(o, str)}
    if op.op in _ANY_OPERANDS:
        return DType.BOOL
    if not op.op.is_predicate:
        wanted = carried_dtype(op.dtype)
        if found <= {wanted} or (wanted is DType.FP32 and found <= {wanted, DType.BOOL}):
            return wanted
    elif len(found) == 1:
        return found.pop()
    raise OpNotPrintedError(statement=op, dtype=op.dtype)


def _cast(operand: Operand, target: DType, names: Mapping[str, str], types: Mapping[str, DType]) -> str:
    if not isinstance(operand, Const):
        return _converted(names[operand], types.get(operand, DType.FP32), target)
    return _rounded(constant(operand.value, target), target)


def _converted(code: str, source: DType, target: DType) -> str:
    """Return a carried value as one of another type, as torch's `.to` converts; floats pass through fp32 on the way."""
    if target is DType.BOOL:
        return code if source is DType.BOOL else f"{code} != 0"
    if carried(source) != carried(target):
        if source.is_float and not target.is_float and target.bits < 32:
            code = f"{code}.to(cutlass.Int32)"
        code = f"{code}.to({carried(target)})"
    return _rounded(code, target)


def _rounded(code: str, dtype: DType) -> str:
    """Return a carried value rounded to a type that is narrower than what carries it."""
    return code if carried_dtype(dtype) is dtype else f"{_narrowed(code, dtype)}.to(cutlass.Float32)"


def _narrowed(code: str, dtype: DType) -> str:
    return f"{_TO_FP8[dtype]}({code})" if dtype in _TO_FP8 else f"{code}.to({_MEMORY[dtype]})"


def _operand(operand: Operand, dtype: DType, names: Mapping[str, str], typed: bool) -> str:
    """Return an operand; beside a value in fp32 a plain number takes the value's type."""
    if not isinstance(operand, Const):
        return names[operand]
    if typed:
        return constant(operand.value, dtype)
    return repr(operand.value) if isinstance(operand.value, bool) else _number(operand.value)


def _number(value: float | int) -> str:
    value = float(value)
    if value in (float("inf"), float("-inf")) or value != value:
        return f'float("{value}")'
    return repr(value)


@cache
def _library() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in _LIBRARY:
        text = (templates_dir() / "cutedsl" / "lib" / file).read_text(encoding="utf-8")
        functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
        found |= {f.name: _source(text, f) for f in functions}
    return found


def _source(text: str, function: ast.FunctionDef) -> str:
    """Return the source of a function with its decorators."""
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : function.end_lineno])
