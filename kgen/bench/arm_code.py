"""Machine code behind the arms of a comparison: what was measured, kernel function by kernel function."""

from collections.abc import Iterator
from pathlib import Path

from kgen.bench.assemble import kernel_code
from kgen.bench.measure import Measured
from kgen.bench.report import Code, Release
from kgen.check.binary import read_binary
from kgen.check.compile_process import users_environment
from kgen.check.release import ReleaseBuild, release_of_extension, release_of_package
from kgen.check.result import CheckResult
from kgen.errors.base import KgenError
from kgen.errors.check import NoDeviceCodeError


def build_notes(measured: Measured, isa: str) -> Iterator[str]:
    """Yield a note where the two builds of the A/A pair are not the same machine code."""
    try:
        first, twin = (_digests(measured.cubins[arm], isa) for arm in ("first", "twin"))
    except KgenError as error:
        yield f"the machine code of the two builds was not compared: {error.headline}"
        return
    if not first:
        yield "the machine code of the two builds was not compared: no cubin of them was left"
    elif first != twin:
        yield "the two builds of the A/A pair differ in their machine code"


def _digests(cubins: tuple[Path, ...], isa: str) -> set[str | None]:
    return {read_binary(cubin, isa).code_digest for cubin in cubins}


def second_arm(measured: Measured, isa: str) -> tuple[tuple[Code, ...], tuple[Release, ...], tuple[str, ...]]:
    """Return the evidence of the incumbent's cubins and extension libraries, and notes on what was not found."""
    code, release, notes = [], [], []
    for file in (*measured.cubins["second"], *measured.libraries):
        try:
            found = read_binary(file, isa)
        except NoDeviceCodeError:
            continue  # a library with no kernels in it
        except KgenError as error:
            notes.append(f"{file.name} was not read: {error.headline}")
            continue
        is_library = file in measured.libraries
        kernels = tuple(map(kernel_code, found.kernels))
        origin = file.name if is_library else "cubin of the DSL"
        code.append(Code(arm="incumbent", origin=origin, arch=found.arch, digest=found.code_digest, kernels=kernels))
        if is_library:
            release.append(_release("incumbent", release_of_extension(file, isa, found)))
    if not code and not notes:
        notes.append("no machine code of the incumbent was found: neither a DSL's cubin nor an extension library")
    return tuple(code), tuple(release), tuple(notes)


def release_of_variants(folder: Path, compiled: CheckResult, isa: str) -> Release:
    """Return the release evidence of kgen's arm; the measuring process has the environment of the compile."""
    return _release("kgen", release_of_package(folder, compiled.variants, isa, users_environment()))


def _release(arm: str, built: ReleaseBuild) -> Release:
    return Release(
        arm="kgen" if arm == "kgen" else "incumbent",
        target=built.target,
        optimization=built.optimization,
        asserts_off=built.asserts_off,
        evidence=built.evidence,
        problems=built.problems,
    )
