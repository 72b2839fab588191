"""Compile emitted kernels with FlyDSL: the program of the compile subprocess of CDNA packages.

Run as `python -P -m kgen.check.flydsl.compile_runner`, in the environment that `toolchain.environment` makes: FlyDSL
reads the architecture when it is imported, so one process is for one architecture. Requests and events are those of
kgen/check/compile_runner.py; the event of a variant is
    {"event": "variant", "variant": name, "seconds": s, "objects": [[code object, assembly], ...], "warnings": [text]}
with the paths of two files for each compile.

FlyDSL only prints some errors, and returns a kernel that stores garbage or cannot be loaded: a line with `error:` on
standard error is a failure of the variant.
"""

import os
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from kgen.check.compile_runner import run_program
from kgen.check.flydsl.capture import captured

_ERROR = re.compile(r"^.*\berror:.*$", re.MULTILINE | re.IGNORECASE)
_BITCODE = "amdgcn bitcode path"  # of the message that the device library is missing
_WITHOUT_BITCODE = (
    "the kernel calls ROCm's device library (ocml), which kgen does not bring: sin, cos, erf, pow, floor and ceil need "
    "it, exp2, log2 and rsqrt only without fastmath='fast'; exp, log, sqrt and absf do not. Write it with those"
)
_WARNING = re.compile(r"^.*\bwarning:.*$", re.MULTILINE)


class DeviceLibraryError(RuntimeError):
    """The kernel needs ROCm's device library."""


class CompilerMessageError(RuntimeError):
    """The compiler printed an error and went on."""


class ErrorStream:
    """What was written to standard error since `mark`, read back from the file that the parent gave for it."""

    def __init__(self) -> None:
        self.mark()

    def mark(self) -> None:
        """Look only at what comes from now on."""
        sys.stderr.flush()
        self._start = os.lseek(2, 0, os.SEEK_END)

    def text(self) -> str:
        """Return what was written since the mark."""
        sys.stderr.flush()
        return os.pread(2, os.lseek(2, 0, os.SEEK_END) - self._start, self._start).decode(errors="replace")


def compile_one(module: ModuleType, name: str, base: Path) -> dict[str, Any]:
    """Compile one variant and leave its code objects and their assembly beside each other."""
    said, started = ErrorStream(), time.perf_counter()
    with captured() as compiles:
        try:
            module.compile_variant(name)
        except Exception as error:
            if _BITCODE in str(error):
                raise DeviceLibraryError(_WITHOUT_BITCODE) from error
            raise
    seconds = time.perf_counter() - started
    if errors := _ERROR.findall(said.text()):
        raise CompilerMessageError("\n".join(dict.fromkeys(errors)))
    if not compiles:
        raise RuntimeError("compile_variant compiled nothing: it must call flyc.compile")
    files = []
    for index, made in enumerate(compiles):
        code_object, assembly = base.with_suffix(f".{index}.hsaco"), base.with_suffix(f".{index}.s")
        code_object.write_bytes(made.code_object)
        assembly.write_text(made.assembly, encoding="utf-8")
        files.append([str(code_object), str(assembly)])
    warnings = list(dict.fromkeys(_WARNING.findall(said.text())))
    return {"event": "variant", "variant": name, "seconds": seconds, "objects": files, "warnings": warnings}


if __name__ == "__main__":
    run_program(compile_one)
