"""Spec and case to OpGraph: torch.export on fake tensors. Nothing is allocated on a device, nothing is computed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from kgen.errors.base import KgenError, Where
from kgen.errors.frontend import DataDependentError, DTypeMismatchError, ReferenceFailedError, TraceError
from kgen.frontend.contractions import CONTRACTIONS, operands_of
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.frontend.export_graph import graph_of, hidden_values
from kgen.frontend.live_reference import first_line, live_module, quiet
from kgen.frontend.places import all_frames, place_of_exception
from kgen.ir.graph import OpGraph
from kgen.ir.tensor import TensorType
from kgen.spec.model import Case, Spec
from kgen.spec.reference_source import stands_alone

# Ops that write to a buffer though their schema does not say so.
_HIDDEN_WRITES = frozenset({"aten::batch_norm", "aten::instance_norm"})
_KEPT = 16  # graphs: a spec's cases are traced for its first device, and read for the others that follow it
_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export")


@dataclass(frozen=True, slots=True)
class Trace:
    """An OpGraph and the live tensors behind its parameters, buffers and constants, by input name."""

    graph: OpGraph
    hidden: dict[str, torch.Tensor]


def trace(spec: Spec, case: Case) -> OpGraph:
    """Return the functional graph of the reference on the inputs of a case.

    It is the same for every device. Where it follows from the values of the spec alone, the last few are kept.
    """
    if _is_value(spec):
        reference = spec.reference
        arguments = repr((reference.init_args, reference.init_kwargs))  # 1 and 1.0 are equal, and other constants
        return _kept_graph(spec, case, arguments, reference.path, torch.get_default_dtype())
    return trace_live(spec, case).graph


def _is_value(spec: Spec) -> bool:
    """Whether the reference is a text that imports nothing of the user's, with arguments that have a digest."""
    try:
        hash(spec)
    except TypeError:  # a list among the arguments of a constructor
        return False
    return stands_alone(spec.reference)


@lru_cache(maxsize=_KEPT)
def _kept_graph(spec: Spec, case: Case, arguments: str, path: Path | None, default: torch.dtype) -> OpGraph:
    """Return the graph; what follows `case` tells specs apart that are equal and yet traced differently."""
    return trace_live(spec, case).graph


def trace_live(spec: Spec, case: Case) -> Trace:
    """Return the graph and the live hidden tensors; `trace` for callers that go on to run the kernel."""
    types = spec.input_types(case)
    module = live_module(spec.reference)
    try:
        with quiet(), _silent_loggers(), all_frames(), torch.no_grad():
            program = _functional(torch.export.export(module, _fakes(types, spec.reference.device), strict=False))
    except KgenError:
        raise
    except Exception as error:
        raise _refusal(error, spec, case, types) from error
    graph = graph_of(program, spec, types)
    _check_dtypes(graph)
    return Trace(graph, hidden_values(program, graph))


def _fakes(types: tuple[TensorType, ...], device: str) -> tuple[torch.Tensor, ...]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        return tuple(
            torch.empty_strided(t.static_shape, t.strides, dtype=TORCH_DTYPES[t.dtype], device=device) for t in types
        )


def _functional(program: ExportedProgram) -> ExportedProgram:
    """Functionalise a graph that writes; one that does not write is functional as exported.

    The decomposition pass takes 0.3 s the first time, and drops casts to a value's own type, so it runs only if needed.
    """
    schemas = [n.target._schema for n in program.graph.nodes if hasattr(n.target, "_schema")]
    writes = any(s.is_mutable or s.name in _HIDDEN_WRITES for s in schemas)
    return program.run_decompositions({}) if writes else program


def _check_dtypes(graph: OpGraph) -> None:
    """Refuse a product of two dtypes as PyTorch does on real tensors; fake ones let some spellings pass."""
    for node in graph.nodes:
        if node.op in CONTRACTIONS:
            dtypes = tuple(dict.fromkeys(graph.type_of(ref).dtype for ref in operands_of(node)))
            if len(dtypes) > 1:
                example = TORCH_DTYPES[dtypes[0]]
                raise DTypeMismatchError(where=node.where, op=node.op, dtypes=" and ".join(dtypes), example=example)


@contextmanager
def _silent_loggers() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _refusal(error: Exception, spec: Spec, case: Case, types: tuple[TensorType, ...]) -> KgenError:
    where = place_of_exception(error, spec.reference) or Where(spec.reference.file)
    if isinstance(error, GuardOnDataDependentSymNode | DataDependentOutputException):
        return DataDependentError(where=where, op="a branch or a Python number made from it")
    if type(error).__module__.startswith("torch._"):
        return TraceError(where=where, reason=first_line(error))
    inputs = ", ".join(f"{i.name} {t}" for i, t in zip(spec.inputs, types, strict=True))
    return ReferenceFailedError(
        where=where, kind=type(error).__name__, reason=first_line(error), case=case.id, inputs=inputs
    )
