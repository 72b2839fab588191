"""A reference as an `nn.Module` that can be traced: its text executed, its class constructed."""

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kgen.errors.base import KgenError, Where
from kgen.errors.frontend import ReferenceLoadError
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.frontend.places import place_of_exception, register_lines
from kgen.spec.model import Reference, ReferenceKind


class FunctionModule(torch.nn.Module):
    """Wraps a plain callable, for torch.export takes modules only."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> object:
        return self.function(*tensors)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what user code and torch print off the caller's streams, and torch's warnings out of it."""
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Undrawn(TorchFunctionMode):
    """While a constructor runs, initialisers do nothing: of its parameters only the types are read.

    A layer of a model has tens of millions of them, and drawing them takes longer than all stages of the compiler.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func in _INITIALISERS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


_INITIALISERS = frozenset(
    {
        torch.Tensor.uniform_,
        torch.Tensor.normal_,
        *(f for name, f in vars(torch.nn.init).items() if name.endswith("_") and isinstance(f, FunctionType)),
    }
)


def live_module(reference: Reference) -> torch.nn.Module:
    """Return the reference as a module; constructors run here, outside of fake mode, on the CPU."""
    try:
        with quiet():
            target = live_object(reference)
            if isinstance(target, type):
                if not issubclass(target, torch.nn.Module):
                    raise TypeError(f"the class {target.__name__} is no nn.Module")
                with Undrawn():
                    target = target(*reference.init_args, **dict(reference.init_kwargs))
            if reference.dtype is not None:
                if not isinstance(target, torch.nn.Module):
                    raise TypeError(f"{reference.entry} is no nn.Module, which could be cast to {reference.dtype}")
                target = target.to(TORCH_DTYPES[reference.dtype])
    except KgenError:
        raise
    except Exception as error:
        where = place_of_exception(error, reference) or Where(reference.file)
        raise ReferenceLoadError(where=where, kind=type(error).__name__, reason=first_line(error)) from error
    _register(target)
    return target if isinstance(target, torch.nn.Module) else FunctionModule(target)


def live_object(reference: Reference) -> Callable[..., object]:
    """Return the function, class or module object that the reference names."""
    match reference.kind:
        case ReferenceKind.CALLABLE:
            target = reference.target
        case ReferenceKind.IMPORT:
            target = getattr(importlib.import_module(reference.file), reference.entry)
        case ReferenceKind.INLINE | ReferenceKind.FILE:
            target = execute(reference)[reference.entry]
    if not callable(target):
        raise TypeError(f"{reference.entry} is not callable")
    return target


def execute(reference: Reference) -> dict[str, object]:
    """Run the reference's text as a module of its own and return its names; lines count as in its file."""
    text = "\n" * (reference.first_line - 1) + reference.source
    file = str(reference.path) if reference.path else reference.file
    code = compile(text, file, "exec", dont_inherit=True)
    register_lines(code)
    names: dict[str, object] = {"__name__": "kgen_reference", "__file__": file}
    exec(code, names)
    return names


def _register(target: object) -> None:
    """Keep the lines of a callable's own function, and of the functions of its module that it may call."""
    function = getattr(target, "func", target)  # functools.partial
    if isinstance(function, FunctionType):
        file = function.__code__.co_filename
        around = [f for f in function.__globals__.values() if isinstance(f, FunctionType)]
        for code in (function.__code__, *(f.__code__ for f in around if f.__code__.co_filename == file)):
            assert isinstance(code, CodeType)
            register_lines(code)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
