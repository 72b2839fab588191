"""Compile emitted kernels with CuTe DSL: the program of the compile subprocess, and what such programs share.

Runs alone, with the DSL and without kgen, so that the DSL never enters kgen's own process and a crash of its
compiler costs one package. The parent sets CUTE_DSL_ARCH and CUTE_DSL_KEEP before the start.

One JSON request a line on standard input: `{"kernel": path, "module": name, "out": folder}`. One JSON event a line
on standard output:
    {"event": "ready"}                                     the subprocess is up
    {"event": "start", "variant": name | null}             work begins: the import of the file (null) or a variant
    {"event": "variant", "variant": name, "seconds": s, "cubin": path, "host_ir": path}
    {"event": "failed", "variant": name | null, "error": text}
    {"event": "done"}                                      the request is finished
What a kernel prints goes to standard error.
"""

import ctypes
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

PR_SET_PDEATHSIG = 1  # linux/prctl.h

# A DSL's part: compiles a variant of a module, leaves files that begin with a path, and returns the event about it.
CompileOne = Callable[[ModuleType, str, Path], dict[str, Any]]


def load(path: str, name: str) -> ModuleType:
    """Import a file under a name of its own: every package calls its module `kernel`."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the DSL look their module up
    spec.loader.exec_module(module)
    return module


def compile_one(module: ModuleType, name: str, base: Path) -> dict[str, Any]:
    """Compile one variant and leave its cubin and its compiled host code beside each other."""
    started = time.perf_counter()
    function = module.compile_variant(name)
    seconds = time.perf_counter() - started
    if not function.artifacts.CUBIN:
        raise RuntimeError("the DSL kept no cubin: this nvidia-cutlass-dsl does not know CUTE_DSL_KEEP=cubin")
    cubin, host_ir = base.with_suffix(".cubin"), base.with_suffix(".mlir")
    cubin.write_bytes(function.artifacts.CUBIN)
    host_ir.write_text(str(function.ir_module), encoding="utf-8")
    return {"event": "variant", "variant": name, "seconds": seconds, "cubin": str(cubin), "host_ir": str(host_ir)}


def told(error: BaseException) -> str:
    """Return what went wrong in its own words, then the end of the way there."""
    words = "".join(traceback.format_exception_only(error)).strip()
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    return f"{words}\n{frames[-3000:]}"


def serve(request: dict[str, str], channel: TextIO, compile_one: CompileOne) -> None:
    """Compile every variant of one package; a variant that fails does not stop the others."""

    def send(**event: Any) -> None:
        tell(channel, event)

    send(event="start", variant=None)
    try:
        module = load(request["kernel"], request["module"])
        names = [row.name for row in module.VARIANTS]
    except BaseException as error:
        send(event="failed", variant=None, error=told(error))
        names = []
    for index, name in enumerate(names):
        send(event="start", variant=name)
        try:
            send(**compile_one(module, name, Path(request["out"]) / str(index)))
        except BaseException as error:
            send(event="failed", variant=name, error=told(error))
    send(event="done")


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent is killed: a hung compiler would not notice the end of input."""
    parent = os.getppid()
    with suppress(AttributeError, OSError):  # another system: the end of input has to do
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def open_channel() -> TextIO:
    """Return where events are told, and tell the first, "ready"; what is printed from now on is standard error's.

    The process dies with its parent.
    """
    die_with_parent()
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tell(channel, {"event": "ready"})
    return channel


def tell(channel: TextIO, event: Mapping[str, Any]) -> None:
    """Tell an event, a line of JSON."""
    channel.write(json.dumps(event) + "\n")
    channel.flush()


def run_program(compile_one: CompileOne) -> None:
    """Answer requests until standard input ends."""
    channel = open_channel()
    for line in sys.stdin:
        serve(json.loads(line), channel, compile_one)


if __name__ == "__main__":
    run_program(compile_one)
