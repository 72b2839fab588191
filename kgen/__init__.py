"""kgen: a code-generation compiler from PyTorch ops to readable GPU kernels.

`load_spec`, `candidates`, `plan`, `emit`, `check`, `build`, `bench`, `tune` and `port` are the library, `kgen.cli` is
the command line.
"""

import sys
from types import ModuleType

from kgen.api import Package, build, candidates, check, emit, load_spec, plan
from kgen.api_measure import bench, port, tune
from kgen.errors.base import KgenError

__all__ = [
    "KgenError",
    "Package",
    "bench",
    "build",
    "candidates",
    "check",
    "emit",
    "load_spec",
    "plan",
    "port",
    "tune",
]


class _Library(ModuleType):
    """Keeps `kgen.check`, `kgen.bench` and their like the functions: the import system binds a loaded submodule of the
    same name over them, and loading it here, early, would cost every import of kgen its time."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Library
