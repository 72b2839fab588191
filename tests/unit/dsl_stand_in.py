"""A stand-in for what printed expressions use of the CuTe DSL: typed arrays on the CPU, with its promotions."""

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from kgen.backends.cutedsl.expressions import library_names, library_source

NARROW = {  # numpy has no such type: values of fp32 that are one
    "BFloat16": torch.bfloat16,
    "Float16": torch.float16,
    "Float8E4M3FN": torch.float8_e4m3fn,
    "Float8E5M2": torch.float8_e5m2,
}
NUMPY = {
    "Boolean": np.bool_,
    "Int8": np.int8,
    "Uint8": np.uint8,
    "Int16": np.int16,
    "Uint16": np.uint16,
    "Int32": np.int32,
    "Int64": np.int64,
    "Float32": np.float32,
    "Float64": np.float64,
    **dict.fromkeys(NARROW, np.float32),
}
WIDTHS = {"Boolean": 1, "Float8E4M3FN": 8, "Float8E5M2": 8, "BFloat16": 16, "Float16": 16}


class Kind(str):
    """An element type: its name, and a constructor of values."""

    @property
    def width(self) -> int:
        return WIDTHS.get(self) or 8 * np.dtype(NUMPY[self]).itemsize

    @property
    def is_float(self) -> bool:
        return "Float" in self

    def __call__(self, value: Any) -> "Value":
        return value.to(self) if isinstance(value, Value) else Value(self, np.asarray(value).astype(NUMPY[self]))


KINDS = {name: Kind(name) for name in NUMPY}


class Value:
    """Values of one type; every operation rounds, and Python numbers take the DSL's types."""

    def __init__(self, kind: Kind, value: np.ndarray) -> None:
        self.kind, self.value = kind, value

    def to(self, kind: Kind) -> "Value":
        value = self.value
        if kind == "Boolean":
            return Value(kind, value != 0)
        if self.kind.is_float and not kind.is_float:  # saturates; NaN gives 0
            assert kind.width >= 32, "the DSL's conversions of floats to narrow integers are not trusted"
            limits = np.iinfo(NUMPY[kind])
            value = np.where(np.isnan(value), 0, np.trunc(value))
            inside = np.where((value < -(2.0 ** (kind.width - 1))) | (value >= 2.0 ** (kind.width - 1)), 0, value)
            whole = inside.astype(np.int64)
            whole = np.where(value >= 2.0 ** (kind.width - 1), limits.max, whole)
            return Value(kind, np.where(value < limits.min, limits.min, whole).astype(NUMPY[kind]))
        if kind in NARROW:
            assert self.kind in ("Float32", *NARROW) and "Float8" not in kind, f"{self.kind} to {kind}"
            return Value(kind, torch.from_numpy(np.array(value)).to(NARROW[kind]).float().numpy())
        with np.errstate(all="ignore"):
            return Value(kind, value.astype(NUMPY[kind]))

    def bitcast(self, kind: Kind) -> "Value":
        assert self.kind == "Uint8" and kind in NARROW, f"{self.kind} as {kind}"
        return Value(kind, torch.from_numpy(np.array(self.value)).view(NARROW[kind]).float().numpy())

    def __neg__(self) -> "Value":
        assert self.kind != "Boolean"
        with np.errstate(all="ignore"):
            return Value(self.kind, (-self.value).astype(NUMPY[self.kind]))

    def __invert__(self) -> "Value":
        assert not self.kind.is_float
        return Value(self.kind, ~self.value)

    def __bool__(self) -> bool:
        raise TypeError("a value of the device decides no Python branch")


def as_value(value: object) -> Value:
    """Return a Python number in the type that the DSL gives it."""
    if isinstance(value, Value):
        return value
    if isinstance(value, bool):
        return KINDS["Boolean"](value)
    if isinstance(value, int):
        return KINDS["Int32" if -(2**31) <= value < 2**31 else "Int64"](value)
    return Value(KINDS["Float32"], np.asarray(value, np.float64))  # converted where it meets another value


def promoted(x: Value, y: Value) -> Kind:
    """Return the type of a binary operation."""
    if x.kind == y.kind:
        return x.kind
    if x.kind.is_float or y.kind.is_float:
        return max((k for k in (x.kind, y.kind) if k.is_float), key=lambda k: k.width)
    unsigned = [k for k in (x.kind, y.kind) if k.startswith("U")]
    if len(unsigned) == 1 and unsigned[0].width >= min(x.kind.width, y.kind.width) == max(x.kind.width, y.kind.width):
        return unsigned[0]
    return max(x.kind, y.kind, key=lambda k: k.width)


COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
COMPARISONS["ge"] = np.greater_equal
ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.fmod}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift}
BITS["rshift"] = np.right_shift


def binary(name: str, x: Value, y: Value) -> Value:
    kind = promoted(x, y)
    a, b = x.to(kind).value, y.to(kind).value
    with np.errstate(all="ignore"):
        if name in COMPARISONS:
            if kind == "Boolean" and name not in ("eq", "ne"):
                a, b = -a.astype(np.int8), -b.astype(np.int8)  # i1 is signed
            return Value(KINDS["Boolean"], COMPARISONS[name](a, b))
        if name in BITS:
            assert not kind.is_float
            return Value(kind, BITS[name](a, b))
        assert kind != "Boolean", f"{name} on bools"
        if name == "truediv":
            kind = kind if kind.is_float else KINDS["Float32"]
            return Value(kind, np.asarray(a / b).astype(NUMPY[kind]))
        return Value(kind, np.asarray(ARITHMETIC[name](a, b)).astype(NUMPY[kind]))


def _method(name: str, flip: bool) -> Callable[[Value, object], Value]:
    def method(self: Value, other: object) -> Value:
        x, y = self, as_value(other)
        return binary(name, y, x) if flip else binary(name, x, y)

    return method


for _name in (*COMPARISONS, *ARITHMETIC, *BITS, "truediv"):
    setattr(Value, f"__{_name}__", _method(_name, flip=False))
    if _name not in COMPARISONS:
        setattr(Value, f"__r{_name}__", _method(_name, flip=True))


def _unary(function: Callable[[Any], Any]) -> Callable[..., Value]:
    def operation(x: Value, *, fastmath: bool = False, approx: bool = False, ftz: bool = False) -> Value:
        assert isinstance(x, Value) and x.kind in ("Float32", "Float64"), f"{function} of {x}"
        assert not (fastmath or approx) or x.kind == "Float32"
        with np.errstate(all="ignore"):
            result = np.asarray(function(x.value)).astype(x.value.dtype)
        if fastmath or ftz:
            result = np.where(np.abs(result) < 2.0**-126, np.copysign(0, result), result).astype(result.dtype)
        return Value(x.kind, result)

    return operation


def _of_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Value]:
    return _unary(lambda x: function(torch.from_numpy(np.array(x))).numpy())


def _abs(x: Value) -> Value:
    assert x.kind not in ("Boolean", "Uint8"), f"abs of {x.kind}: the DSL's is a signed one"
    with np.errstate(all="ignore"):
        return Value(x.kind, np.abs(x.value))


def _same(function: Callable[..., Any]) -> Callable[..., Value]:
    def operation(x: Value, y: Value, *, full: bool = False) -> Value:
        assert x.kind == y.kind and x.kind in ("Float32", "Float64"), f"{x.kind} and {y.kind}"
        with np.errstate(all="ignore"):
            return Value(x.kind, np.asarray(function(x.value, y.value)).astype(x.value.dtype))

    return operation


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return torch.pow(torch.from_numpy(np.array(x, np.float64)), torch.from_numpy(np.array(y, np.float64))).numpy()


def _extremum(keeping: Any, dropping: Any) -> Callable[..., Value]:
    def operation(x: object, y: object, *, nan: bool) -> Value:
        a, b = (KINDS["Float32"](as_value(v)).value for v in (x, y))
        return Value(KINDS["Float32"], (keeping if nan else dropping)(a, b))

    return operation


def _inline_ptx(code: str, *, write_only_types: list[Kind], read_only_args: list[Value]) -> Value:
    """cvt.rn.satfinite to a pair of fp8 values, of which the first operand is the upper one."""
    upper, lower = read_only_args
    assert upper.kind == lower.kind == "Float32" and not upper.value.any() and write_only_types == ["Uint16"]
    e4m3 = "satfinite.e4m3x2.f32" in code
    assert e4m3 or "satfinite.e5m2x2.f32" in code
    limit = 448.0 if e4m3 else 57344.0
    bits = torch.from_numpy(np.clip(lower.value, -limit, limit)).to(NARROW["Float8E4M3FN" if e4m3 else "Float8E5M2"])
    return Value(KINDS["Uint16"], bits.view(torch.uint8).numpy().astype(np.uint16))


_SAME_NAME = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh")
_TORCH = ("asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc")
_MATH = {name: _unary(getattr(np, name)) for name in (*_SAME_NAME, "tanh", "floor", "ceil", "trunc")}
_MATH |= {name: _of_torch(getattr(torch, name)) for name in _TORCH}
_MATH |= {"roundeven": _unary(np.rint), "rsqrt": _unary(lambda x: 1 / np.sqrt(x)), "rcp": _unary(lambda x: 1 / x)}
_MATH |= {"abs": _abs, "atan2": _same(np.arctan2), "copysign": _same(np.copysign), "rem": _same(np.fmod)}
_MATH |= {"pow": _same(_power), "div": _same(np.divide)}


def _select(condition: object, if_true: Value, if_false: Value) -> Value:
    assert isinstance(condition, Value) and condition.kind == "Boolean", f"{condition!r} is no predicate"
    yes, no = as_value(if_true), as_value(if_false)
    assert yes.kind == no.kind, f"{yes.kind} or {no.kind}"
    return Value(yes.kind, np.where(condition.value, yes.to(yes.kind).value, no.to(yes.kind).value))


arch = SimpleNamespace(fmax=_extremum(np.maximum, np.fmax), fmin=_extremum(np.minimum, np.fmin), inline_ptx=_inline_ptx)
cute = SimpleNamespace(math=SimpleNamespace(**_MATH), arch=arch)
cutlass = SimpleNamespace(select_=_select, **KINDS)


def library() -> dict[str, Any]:
    """Return the functions of the library, bound to the stand-in."""
    module = ModuleType("library")
    module.__dict__.update(cutlass=cutlass, cute=cute)
    plain = [text for text in library_source(library_names()) if text.startswith("def ")]  # without those of loops
    exec("\n\n\n".join(plain), module.__dict__)
    return module.__dict__


_LIBRARY = library()


def run_lines(lines: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Execute printed statements on values; return all names."""
    scope = _LIBRARY | values
    exec("\n".join(lines), scope)
    return scope
