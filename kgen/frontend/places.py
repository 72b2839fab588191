"""Where in the user's text a traced operation, or an exception, comes from."""

import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch.fx import proxy as fx_proxy

from kgen.errors.base import Where
from kgen.spec.model import Reference

_ANCHOR: Callable[[Any], object] | None = getattr(fx_proxy, "_register_stack_trace_anchor", None)
_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in ')
_FOREIGN = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent), inspect.__file__)


def register_lines(code: CodeType) -> None:
    """Make torch.export keep the stack frames of a function and of all functions inside it.

    Without it only frames named `forward` survive, and every node of a plain function has the wrapper's line. The hook
    is private to torch and came with 2.13: this is its only use, and `all_frames` stands in for it before.
    """
    if _ANCHOR is not None:
        for inner in _nested(code):
            _ANCHOR(SimpleNamespace(__code__=inner))


@contextmanager
def all_frames() -> Iterator[None]:
    """Make torch.export keep all stack frames where torch has no hook to name the user's functions."""
    if _ANCHOR is not None:
        yield
        return
    tracer: Any = fx_proxy.TracerBase
    kept = tracer._filter_traceback_frames
    tracer._filter_traceback_frames = lambda self, frames: frames
    try:
        yield
    finally:
        tracer._filter_traceback_frames = kept


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def place_of_trace(stack_trace: str | None, reference: Reference) -> Where | None:
    """Return the innermost user line of a node's stack trace."""
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(stack_trace or "")]
    return _innermost(frames, reference)


def place_of_exception(error: BaseException, reference: Reference) -> Where | None:
    """Return the innermost user line an exception passed through."""
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    return _innermost(frames, reference)


def _innermost(frames: list[tuple[str, int]], reference: Reference) -> Where | None:
    for file, line in reversed(frames):
        if file.startswith(("<", *_FOREIGN)):
            continue
        if file in (reference.file, str(reference.path)) and reference.source:
            return reference.where(line)
        return Where(Path(file).name, line, 0, linecache.getline(file, line).rstrip())
    return None
