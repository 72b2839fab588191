"""What stands in for a ROCm installation: the linker and the HIP runtime that FlyDSL looks for.

Both are made at first use, in kgen's cache folder, with the `zig` of the PyPI distribution ziglang: it holds LLD and
a C compiler. ROCm's device bitcode is not among them: a kernel that calls it does not link.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from kgen.check.cache import default_cache_dir
from kgen.errors.check import CompilerMissingError, HipStubError

HIP_SONAME = "libamdhip64.so.7"  # that libfly_jit_runtime.so of the pinned FlyDSL needs
_SOURCE, _VERSIONS = (Path(__file__).with_name(name) for name in ("hip_stub.c", "hip_stub.map"))


def zig() -> Path:
    """Return the `zig` program of the ziglang distribution; raises `CompilerMissingError`."""
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise CompilerMissingError(folder="a CDNA package", distribution="ziglang", python=sys.executable, extra="cdna")
    return Path(spec.origin).with_name("zig")


def rocm_path() -> Path:
    """Return a folder that FlyDSL takes for a ROCm installation: it holds `llvm/bin/ld.lld`."""
    script = f'#!/bin/sh\nexec "{zig()}" ld.lld "$@"\n'
    root = _folder() / f"rocm-{_digest(script.encode())}"
    linker = root / "llvm" / "bin" / "ld.lld"
    if not linker.is_file():
        linker.parent.mkdir(parents=True, exist_ok=True)
        part = _part(linker)
        part.write_text(script, encoding="utf-8")
        part.chmod(0o755)
        part.replace(linker)
    return root


def hip_stub() -> Path:
    """Return the HIP runtime without a GPU, compiled from hip_stub.c; raises `HipStubError`."""
    options = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    linked = (f"-Wl,--version-script={_VERSIONS}", f"-Wl,-soname,{HIP_SONAME}")
    compiler = zig()
    content = repr((options, str(compiler))).encode() + _SOURCE.read_bytes() + _VERSIONS.read_bytes()
    library = _folder() / f"hip-{_digest(content)}" / HIP_SONAME
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        part = _part(library)
        command = [str(compiler), "cc", *options, str(_SOURCE), *linked, "-o", str(part)]
        done = subprocess.run(command, env=zig_environment(os.environ), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            with suppress(OSError):
                part.unlink()
            raise HipStubError(status=done.returncode, stderr=done.stderr.strip()[-1000:])
        part.replace(library)
    return library


def zig_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which zig keeps what it builds of its own in kgen's cache folder."""
    folder = str(_folder() / "zig")
    return dict(environment) | {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder}


def _folder() -> Path:
    return default_cache_dir() / "cdna"


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _part(file: Path) -> Path:
    """Return a private name beside a file: several processes may make it at once, and the last rename wins."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    os.close(handle)
    return Path(name)
