"""Errors of checking an emitted package: a folder that is not one, tools or devices that are not here."""

from typing import ClassVar

from kgen.errors.base import BadInputError, DeviceMissingError, KgenError, UnsupportedError


class NotAPackageError(BadInputError):
    """The folder lacks a file that every emitted package has."""

    message: ClassVar[str] = "{folder} is not a kgen package: {missing} is missing"
    remedy: ClassVar[str] = "name a folder written by `kgen emit`"


class PlanFileError(BadInputError):
    """plan.json cannot be read as the plan of a package."""

    message: ClassVar[str] = "{file}: {reason}"
    remedy: ClassVar[str] = "emit the package again: `kgen emit SPEC`"


class ArchNotCheckableError(UnsupportedError):
    """No cross-compiler is known for the package's target."""

    message: ClassVar[str] = "{folder} targets {arch} with {backend}: with no GPU, packages of {known} can be compiled"


class UnknownIsaError(UnsupportedError):
    """No arch file says how that instruction set spells its instructions."""

    message: ClassVar[str] = "no arch file describes the machine code of {isa}; known: {known}"


class NoDeviceCodeError(BadInputError):
    """A file holds no GPU code that could be read."""

    message: ClassVar[str] = "{file} holds no GPU code"
    remedy: ClassVar[str] = "name the library, executable or cubin that the GPU compiler wrote"


class CompilerMissingError(KgenError):
    """The DSL that compiles the package is not installed."""

    message: ClassVar[str] = "compiling {folder} needs {distribution}, which is not installed in {python}"
    remedy: ClassVar[str] = "pip install 'kgen[{extra}]'"


class DisassemblerMissingError(KgenError):
    """nvdisasm or cuobjdump is neither installed from PyPI nor on PATH."""

    message: ClassVar[str] = "{tool} is neither installed from PyPI ({distribution}) nor on PATH"
    remedy: ClassVar[str] = "pip install 'kgen[hopper]'"


class DisassemblerFailedError(KgenError):
    """A disassembler refused a cubin."""

    message: ClassVar[str] = "{tool} failed with exit status {status}: {stderr}"
    exit_code = 1


class NoGpuError(DeviceMissingError):
    """Running the package's tests needs a GPU, and this machine has none."""

    message: ClassVar[str] = "running {folder} needs a GPU with {isa}; this machine has {found}"
    remedy: ClassVar[str] = "with no GPU, `kgen check {folder} --compile-only` compiles the package and inspects it"


class RunnerFailedError(KgenError):
    """A subprocess that compiles, simulates or measures could not even start its work."""

    message: ClassVar[str] = "`{program}` ended before it read a request ({ending}): {stderr}"
    remedy: ClassVar[str] = "`kgen doctor` shows whether what it imports works here"
    exit_code = 1


class HipStubError(KgenError):
    """The HIP runtime without a GPU could not be built."""

    message: ClassVar[str] = "the HIP stub was not compiled (zig cc, exit status {status}): {stderr}"
    remedy: ClassVar[str] = "`kgen doctor` shows the CDNA tool chain; pip install 'kgen[cdna]' brings its pinned parts"
    exit_code = 1
