"""Foreign forms of a spec, which have to be looked at under PyTorch: a callable, and a KernelBench-style module.

Such a module defines `Model`, `get_inputs()` and `get_init_inputs()`. `get_inputs` runs on fake tensors, so that its
tensors take no memory; its Model is constructed by the trace. Python numbers behind the tensors are constants of the
reference: defaults in its text, so that whoever runs it passes tensors alone.
"""

import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kgen.errors.base import Where
from kgen.errors.frontend import ImportedModuleError, NonTensorArgumentError, ReferenceLoadError
from kgen.frontend.dtypes import type_of
from kgen.frontend.live_reference import execute, first_line, quiet
from kgen.frontend.places import place_of_exception
from kgen.ir.problem import Precision
from kgen.spec.document import IDENTIFIER, NAME
from kgen.spec.model import Case, InputSpec, Reference, ReferenceKind, Spec, default_tolerance
from kgen.spec.reference_source import SourceText, parse_source, signature_of, with_defaults
from kgen.spec.resolve import DEFAULT_CASE

MODEL, GET_INPUTS, GET_INIT_INPUTS = "Model", "get_inputs", "get_init_inputs"


def spec_from_callable(
    fn: Callable[..., object], example_inputs: Sequence[torch.Tensor], name: str | None = None
) -> Spec:
    """Return the spec of a function or module instance on tensors like the examples (only their types are read)."""
    entry = getattr(fn, "__name__", type(fn).__name__)
    if not IDENTIFIER.match(entry) or isinstance(fn, torch.nn.Module):
        entry = "reference"
    code = getattr(fn, "__code__", None)
    file = Path(code.co_filename).name if code else "the reference"
    devices = [str(x.device) for x in example_inputs if isinstance(x, torch.Tensor)]
    reference = Reference(ReferenceKind.CALLABLE, entry, file, target=fn, device=(*devices, "cpu")[0])
    wanted = name or _spec_name(getattr(fn, "__name__", type(fn).__name__))
    return _spec(wanted, reference, _argument_names(fn), tuple(example_inputs))


def parse_module(text: str, path: Path) -> Spec:
    """Return the spec of a module that defines Model, get_inputs and get_init_inputs."""
    source = SourceText(text, path.name, path=path.resolve())
    defined = {getattr(statement, "name", None) for statement in parse_source(source).body}
    for wanted in (MODEL, GET_INPUTS, GET_INIT_INPUTS):
        if wanted not in defined:
            raise ImportedModuleError(where=Where(path.name), file=path.name, name=wanted)
    reference = Reference(ReferenceKind.FILE, MODEL, path.name, text, is_module=True, path=path.resolve())
    try:
        with quiet():
            names = execute(reference)
            init_args = tuple(_called(names, GET_INIT_INPUTS))
            with FakeTensorMode(allow_non_fake_inputs=True):
                values = tuple(_called(names, GET_INPUTS))
    except Exception as error:
        where = place_of_exception(error, reference) or Where(path.name)
        raise ReferenceLoadError(where=where, kind=type(error).__name__, reason=first_line(error)) from error
    signature = signature_of(reference)
    arguments = signature.names if signature else ()
    count = _before_numbers(values)
    if count < len(values) <= len(arguments):
        numbers: dict[str, Any] = dict(zip(arguments[count:], values[count:], strict=False))
        reference = replace(reference, source=with_defaults(reference, numbers))
        values = values[:count]
    return _spec(_spec_name(path.stem), replace(reference, init_args=init_args), arguments, values)


def _before_numbers(values: tuple[Any, ...]) -> int:
    """Return the position behind which all arguments are finite Python numbers."""
    count = len(values)
    while count and type(values[count - 1]) in (bool, int, float) and math.isfinite(values[count - 1]):
        count -= 1
    return count


def _called(names: dict[str, object], function: str) -> Sequence[object]:
    target = names[function]
    assert callable(target)
    result = target()
    if not isinstance(result, list | tuple):
        raise TypeError(f"{function}() returned a {type(result).__name__}; a list is expected")
    return result


def _spec(name: str, reference: Reference, arguments: tuple[str, ...], tensors: tuple[object, ...]) -> Spec:
    inputs = []
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            kind = f"{tensor.layout} tensor" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise NonTensorArgumentError(where=Where(reference.file), position=position, kind=kind)
        argument = arguments[position] if position < len(arguments) else f"arg{position}"
        type_ = type_of(tensor, f"argument {argument}")
        inputs.append(InputSpec(argument, type_.dtype, type_.static_shape, strides=type_.strides))
    precision = Precision.TF32 if torch.backends.cuda.matmul.allow_tf32 else Precision.DEFAULT
    tolerance = default_tolerance(tuple(i.dtype for i in inputs), precision)
    cases = (Case(DEFAULT_CASE),)
    return Spec(name, reference.file, reference, tuple(inputs), (), cases, tolerance, precision=precision)


def _argument_names(fn: Callable[..., object]) -> tuple[str, ...]:
    target = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # builtins such as torch.bmm have no signature
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _spec_name(text: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    if name == "lambda" or not name:
        return "kernel"
    name = name if NAME.match(name) else f"kernel_{name}"
    return name[:80]
