"""Every kernel that FlyDSL compiles in this process, as a code object and as assembly: all that kgen needs of FlyDSL
beyond its declared-stable names.

Used in the subprocesses that compile and simulate, never in kgen's own. What it relies on in the pinned FlyDSL: the
class method `jit_function.MlirCompiler.compile(asm, *, func_name, config)`, which returns the lowered module; its
dump of the final assembly as `<FLYDSL_DUMP_DIR>/<kernel>/*_final_isa.s`; and `gpu.ObjectAttr`, which holds the code
object in an operation `gpu.binary`. A FlyDSL that lacks one of them is an `UnknownFlyDslError`.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

MADE_FOR = "0.5.0"


class UnknownFlyDslError(RuntimeError):
    """The installed FlyDSL does not have what this module was written against."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compile: an AMDGPU ELF of one or more kernels, and the assembly it was made of."""

    code_object: bytes
    assembly: str


@dataclass(frozen=True, slots=True)
class _Parts:
    """The private parts of FlyDSL."""

    compiler: Any
    ir: Any
    gpu: Any


@contextmanager
def captured() -> Iterator[list[Compiled]]:
    """Give a list that receives what FlyDSL compiles in the body; raises `UnknownFlyDslError`."""
    parts = _parts()
    made: list[Compiled] = []
    original = parts.compiler.compile

    def compile(asm: str, *, func_name: str, config: Any) -> Any:
        with _dump_folder() as folder:
            module = original(asm, func_name=func_name, config=config)
            made.append(Compiled(_code_object(parts, module), _assembly(folder)))
        return module

    parts.compiler.compile = compile
    try:
        yield made
    finally:
        parts.compiler.compile = original


def _parts() -> _Parts:
    try:
        compiler = import_module("flydsl.compiler.jit_function").MlirCompiler
        ir, gpu = import_module("flydsl._mlir.ir"), import_module("flydsl._mlir.dialects.gpu")
        assert callable(compiler.compile) and gpu.ObjectAttr is not None
    except (ImportError, AttributeError, AssertionError) as error:
        installed = getattr(import_module("flydsl"), "__version__", "unknown")
        raise UnknownFlyDslError(f"FlyDSL {installed} is not the {MADE_FOR} that kgen reads: {error}") from error
    return _Parts(compiler, ir, gpu)


@contextmanager
def _dump_folder() -> Iterator[Path]:
    """Give the folder of one compile's assembly: the names of two compiles may be the same."""
    names = ("FLYDSL_DEBUG_DUMP_ASM", "FLYDSL_DUMP_DIR")
    before = {name: os.environ.get(name) for name in names}
    folder = Path(tempfile.mkdtemp(prefix="kgen-isa-"))
    os.environ |= dict(zip(names, ("1", str(folder)), strict=True))
    try:
        yield folder
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


def _code_object(parts: _Parts, module: Any) -> bytes:
    found: list[bytes] = []

    def visit(operation: Any) -> Any:
        if operation.name == "gpu.binary":
            objects = parts.ir.ArrayAttr(operation.attributes["objects"])
            found.extend(bytes(parts.gpu.ObjectAttr(item).object) for item in objects)
        return parts.ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if len(found) != 1:
        raise UnknownFlyDslError(
            f"a compile left {len(found)} code objects; kgen reads FlyDSL {MADE_FOR}, which has one"
        )
    return found[0]


def _assembly(folder: Path) -> str:
    files = list(folder.glob("*/*_final_isa.s"))
    if len(files) != 1:
        raise UnknownFlyDslError(f"a compile left {len(files)} assembly files; kgen reads FlyDSL {MADE_FOR}: one")
    return files[0].read_text(encoding="utf-8")
