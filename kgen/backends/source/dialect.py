"""Print pointwise ops as statements of one DSL in SSA form, one op a line, each on values of one carried type.

Values of fp32, bf16, fp16 and fp8 are carried in fp32, those of every other type as they are (`carried`). A value read
from memory becomes a carried one by `loaded`; `stored` turns a carried one into what an element of memory takes. Bools
lie in memory as bytes of 0 or 1 (`memory`).

Ops with more than one instruction of their own are calls of functions of the dialect's library; a kernel takes over
the source of those that its statements call (`library_source`). Functions with one text for every DSL stand in
`templates/lib/shared.py`.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from struct import pack, unpack
from typing import Final

from kgen.backends.source.forms import Forms
from kgen.backends.source.tokens import global_names
from kgen.errors.backend import OpNotPrintedError
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Map, Operand
from kgen.resources import templates_dir

_SMALLEST: Final = 2.0**-120  # neither it nor its inverse is near the ends of fp32
_SHARED: Final = "lib/shared.py"
_ANY_OPERANDS: Final = (Op.LOGICAL_AND, Op.LOGICAL_OR, Op.LOGICAL_NOT)


def carried_dtype(dtype: DType) -> DType:
    """Return the element type of the values that carry a dtype."""
    return DType.FP32 if dtype.is_float and dtype is not DType.FP64 else dtype


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The words of one DSL for values.

    `types` are the types of elements in memory, `boolean` that of a bool once it is loaded. Where `.to` does not make
    an element of a value in fp32, `narrowed_by` names a function that does, and `widened_by` one that makes the
    carried value of an element. `library` are files under templates/, in the order in which functions are printed.
    """

    types: Mapping[DType, str]
    boolean: str
    narrowed_by: Mapping[DType, str]
    widened_by: Mapping[DType, str]
    rounded_by: str  # the function that rounds to a narrower type and widens again; empty where `.to` twice does
    forms: Forms
    library: tuple[str, ...]

    def memory(self, dtype: DType) -> str:
        """Return the type an element has in memory, as kernels see it: a bool is a byte, 0 or 1."""
        return self.types[dtype]

    def carried(self, dtype: DType) -> str:
        """Return the type a value is carried in from one op to the next: fp32 for every narrower float."""
        return self.boolean if dtype is DType.BOOL else self.types[carried_dtype(dtype)]

    def loaded(self, code: str, dtype: DType) -> str:
        """Return the carried value of an element read from memory; `code` is a name, a subscript or a call.

        The result stands on the right of an assignment: it may be a comparison.
        """
        if dtype is DType.BOOL:
            return f"{code} != 0"
        is_carried = self.types[dtype] == self.carried(dtype) and dtype not in self.widened_by
        return code if is_carried else self._widened(code, dtype)

    def stored(self, code: str, value_dtype: DType, dtype: DType) -> str:
        """Return what is assigned to an element of type `dtype`, of a value carried as `value_dtype` is.

        `code` is a name, a subscript or a call. A value of another type is converted as torch's `.to` does. The result
        may call a function of the library, so it belongs to the lines that `library_source` is asked about.
        """
        if dtype is DType.BOOL:
            truth = code if value_dtype is DType.BOOL else f"({code} != 0)"
            return f"{truth}.to({self.types[dtype]})"
        value = self._converted(code, value_dtype, carried_dtype(dtype))
        return value if self.types[dtype] == self.carried(dtype) else self._narrowed(value, dtype)

    def constant(self, value: float | int | bool, dtype: DType) -> str:
        """Return a number as a value of the type that carries `dtype`."""
        if dtype is DType.BOOL:
            return f"{self.boolean}({bool(value)})"
        return f"{self.carried(dtype)}({_number(value) if dtype.is_float else int(value)})"

    def print_ops(
        self,
        ops: Sequence[Map],
        names: dict[str, str],
        types: Mapping[str, DType] | None = None,
        *,
        approximate: bool = False,
        divides: bool = False,
    ) -> tuple[str, ...]:
        """Return one assignment per op; `names` maps values to Python names and is extended by the results.

        `types` are the dtypes of the values that come from outside; those that it leaves out are carried in fp32. A
        cast to a type narrower than fp32 rounds and widens again, so that it stays where it is written; a cast that
        changes nothing of the carried value prints nothing. `approximate` takes the hardware's approximations on fp32
        values, within 6e-6 (the library's approximate.py), where else a function costs more instructions than a kernel
        that memory bounds has per element. `divides` keeps a division by a number, for which PyTorch's GPU code has the
        product with its inverse, a unit in the last place off at times. Raises `OpNotPrintedError` for an op that has
        no form in its type, or with an operand of another type.
        """
        known = dict(types or {})
        lines: list[str] = []
        for op in ops:
            code = self._expression(op, names, known, approximate, divides)
            known[op.result] = op.dtype
            if code in names.values():
                names[op.result] = code
                continue
            names[op.result] = name = f"x{len(set(names.values()))}"
            lines.append(f"{name} = {code}")
        return tuple(lines)

    def library_source(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the source of every library function that the statements call, callees before callers."""
        functions = _functions(self.library)
        wanted: dict[str, None] = {}

        def visit(code: str) -> None:
            for name in global_names(code):
                if name in functions and name not in wanted:
                    visit(functions[name])
                    wanted[name] = None

        for line in lines:
            visit(line)
        return tuple(functions[name] for name in functions if name in wanted)

    def library_names(self) -> frozenset[str]:
        """Return the names of all library functions."""
        return frozenset(_functions(self.library))

    def _expression(
        self, op: Map, names: Mapping[str, str], types: Mapping[str, DType], approximate: bool, divides: bool
    ) -> str:
        if op.op is Op.CAST:
            return self._cast(op.operands[0], op.dtype, names, types)
        dtype = _computed_dtype(op, types)
        typed = dtype is not DType.FP32 or all(isinstance(o, Const) for o in op.operands)
        operands = [self._operand(o, dtype, names, typed) for o in op.operands]
        if op.op is Op.DIV and not divides and (inverse := _inverse(op.operands[1], dtype)) is not None:
            return f"{operands[0]} * {self.carried(dtype) if typed else ''}({inverse})"
        form = self.forms.of(op.op, dtype, approximate=approximate)
        if form is None:
            raise OpNotPrintedError(statement=op, dtype=dtype)
        return form.format(*operands, kind=self.carried(dtype))

    def _cast(self, operand: Operand, target: DType, names: Mapping[str, str], types: Mapping[str, DType]) -> str:
        if not isinstance(operand, Const):
            return self._converted(names[operand], types.get(operand, DType.FP32), target)
        return self._rounded(self.constant(operand.value, target), target)

    def _converted(self, code: str, source: DType, target: DType) -> str:
        """Return a carried value as one of another type, as torch's `.to` converts; floats pass through fp32."""
        if target is DType.BOOL:
            return code if source is DType.BOOL else f"{code} != 0"
        if self.carried(source) != self.carried(target):
            if source.is_float and not target.is_float and target.bits < 32:
                code = f"{code}.to({self.types[DType.INT32]})"
            code = f"{code}.to({self.carried(target)})"
        return self._rounded(code, target)

    def _rounded(self, code: str, dtype: DType) -> str:
        """Return a carried value rounded to a type that is narrower than what carries it."""
        if self.rounded_by and dtype not in self.narrowed_by and carried_dtype(dtype) is not dtype:
            return f"{self.rounded_by}({code}, {self.types[dtype]})"
        return code if carried_dtype(dtype) is dtype else self._widened(self._narrowed(code, dtype), dtype)

    def _narrowed(self, code: str, dtype: DType) -> str:
        return f"{self.narrowed_by[dtype]}({code})" if dtype in self.narrowed_by else f"{code}.to({self.types[dtype]})"

    def _widened(self, code: str, dtype: DType) -> str:
        fp32 = self.types[DType.FP32]
        return f"{self.widened_by[dtype]}({code})" if dtype in self.widened_by else f"{code}.to({fp32})"

    def _operand(self, operand: Operand, dtype: DType, names: Mapping[str, str], typed: bool) -> str:
        """Return an operand; beside a value in fp32 a plain number takes the value's type."""
        if not isinstance(operand, Const):
            return names[operand]
        if typed:
            return self.constant(operand.value, dtype)
        return repr(operand.value) if isinstance(operand.value, bool) else _number(operand.value)


def _inverse(operand: Operand, dtype: DType) -> str | None:
    """Return what PyTorch's GPU code multiplies by where it divides by a number: 1 over the number rounded to the type.

    The product may be a unit in the last place off the quotient, which shows where it is rounded to a whole number next
    (aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu). None for what is no number, or not well inside fp32.
    """
    if not isinstance(operand, Const) or not _SMALLEST <= abs(operand.value) <= 1.0 / _SMALLEST:
        return None
    value = float(operand.value)
    return f"1.0 / {unpack('f', pack('f', value))[0] if dtype is DType.FP32 else value!r}"


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


def _number(value: float | int) -> str:
    value = float(value)
    if value in (float("inf"), float("-inf")) or value != value:
        return f'float("{value}")'
    return repr(value)


@cache
def _functions(library: tuple[str, ...]) -> dict[str, str]:
    """Return the source of the functions of a library, in its order; `f = shared.f` stands for one of every DSL's."""
    found: dict[str, str] = {}
    for file in library:
        text = (templates_dir() / file).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            match node:
                case ast.FunctionDef(name=name):
                    found[name] = _source(text, node)
                case ast.Assign(value=ast.Attribute(value=ast.Name(id="shared"), attr=name)):
                    found[name] = _functions((_SHARED,))[name]
                case _:
                    pass
    return found


def _source(text: str, function: ast.FunctionDef) -> str:
    """Return the source of a function with its decorators."""
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : function.end_lineno])
