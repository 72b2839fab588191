"""A tiny stand-in for the part of the CuTe DSL that printed expressions use: fp32 values and booleans on the CPU."""

import math
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "templates" / "cutedsl" / "lib" / "pointwise.py"
TORCH = {"Float32": torch.float32, "BFloat16": torch.bfloat16, "Float16": torch.float16}


class Bool:
    """A predicate."""

    def __init__(self, value: object) -> None:
        self.value = bool(value.value if isinstance(value, Bool) else value)

    def __and__(self, other: object) -> "Bool":
        return Bool(self.value and Bool(other).value)

    def __or__(self, other: object) -> "Bool":
        return Bool(self.value or Bool(other).value)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> "Bool":
        return Bool(not self.value)

    def __bool__(self) -> bool:
        raise TypeError("a value of the device decides no Python branch")


class F32:
    """An fp32 value; every operation rounds."""

    def __init__(self, value: Any) -> None:
        inner = value.value if isinstance(value, F32 | Bool) else value
        with np.errstate(all="ignore"):
            self.value = np.float32(inner)

    def to(self, kind: str) -> "F32":
        return F32(torch.tensor(float(self.value)).to(TORCH[kind]).to(torch.float32).item())

    def __neg__(self) -> "F32":
        return F32(-self.value)


def _binary(name: str) -> Any:
    def operation(self: F32, other: object) -> Any:
        with np.errstate(all="ignore"):
            result = getattr(self.value, name)(F32(other).value)
        return Bool(result) if isinstance(result, np.bool_) else F32(result)

    return operation


for _name in ("add", "sub", "mul", "truediv", "radd", "rsub", "rmul", "rtruediv", "eq", "ne", "lt", "le", "gt", "ge"):
    setattr(F32, f"__{_name}__", _binary(f"__{_name}__"))


def _unary(function: Any) -> Any:
    def operation(x: F32) -> F32:
        with np.errstate(all="ignore"):
            return F32(function(x.value))

    return operation


def _pow(x: F32, y: F32) -> F32:
    """C99's pow, which numpy's differs from at minus infinity."""
    base, exponent = float(x.value), float(y.value)
    odd = exponent == int(exponent) and int(exponent) % 2 if math.isfinite(exponent) else False
    sign = math.copysign(1.0, base) if odd else 1.0
    try:
        return F32(math.pow(base, exponent))
    except OverflowError:
        return F32(sign * math.inf)
    except ValueError:
        return F32(sign * math.inf if base == 0 else math.nan)


def _fmax(x: F32, y: F32, *, nan: bool) -> F32:
    return F32((np.maximum if nan else np.fmax)(x.value, y.value))


def _fmin(x: F32, y: F32, *, nan: bool) -> F32:
    return F32((np.minimum if nan else np.fmin)(x.value, y.value))


_SAME_NAME = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh")
_MATH = {name: getattr(np, name) for name in (*_SAME_NAME, "tanh", "floor", "ceil", "trunc", "abs")}
_MATH |= {"atan": np.arctan, "roundeven": np.rint, "erf": math.erf, "rsqrt": lambda x: np.float32(1) / np.sqrt(x)}

math_module = SimpleNamespace(**{name: _unary(function) for name, function in _MATH.items()}, pow=_pow)
cute = SimpleNamespace(math=math_module, arch=SimpleNamespace(fmax=_fmax, fmin=_fmin))


def _select(condition: object, if_true: F32, if_false: F32) -> F32:
    assert isinstance(condition, Bool | bool), f"{condition!r} is no predicate"
    return if_true if Bool(condition).value else if_false


class _Kind(str):
    """An element type: its name, and a constructor of values."""

    def __call__(self, value: Any) -> Any:
        return Bool(value) if self == "Boolean" else F32(value)


cutlass = SimpleNamespace(select_=_select, **{name: _Kind(name) for name in (*TORCH, "Boolean")})


def library() -> dict[str, Any]:
    """Return the functions of the pointwise library, bound to the stand-in."""
    code = (
        LIBRARY.read_text(encoding="utf-8").replace("import cutlass.cute as cute\n", "").replace("import cutlass\n", "")
    )
    module = ModuleType("pointwise")
    module.__dict__.update(cutlass=cutlass, cute=cute)
    exec(compile(code, str(LIBRARY), "exec"), module.__dict__)
    return module.__dict__


def run_lines(lines: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Execute printed statements on values; return all names."""
    scope = library() | values
    exec("\n".join(lines), scope)
    return scope
