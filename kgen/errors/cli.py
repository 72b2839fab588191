"""Refusals of the command line and of the library's entry points: a request that does not say enough, or too much."""

from kgen.errors.base import BadInputError, DeviceMissingError, KgenError, UnsupportedError


class NoTargetError(BadInputError):
    """Neither the spec nor the caller names a device."""

    message = "{name} names no target"
    remedy = "pass --target (target=... in Python): one of {known}"


class SeveralTargetsError(BadInputError):
    """The spec names several devices where one is needed."""

    message = "{name} has the targets {targets}, and one is needed here"
    remedy = "pass --target (target=... in Python) with one of them"


class UnknownCaseError(BadInputError):
    """The spec has no case of that id."""

    message = "{name} has no case {case!r}"
    remedy = "its cases are {known}"


class UnknownStageError(BadInputError):
    """No stage of the pipeline has that name."""

    message = "no stage is called {stage!r}"
    remedy = "the stages are {known}"


class ArgumentsConflictError(BadInputError):
    """Two arguments that cannot both be given, or one that is missing."""

    message = "{reason}"
    remedy = "{fix}"


class ExtentsError(BadInputError):
    """`--gemm` does not give three extents."""

    message = "--gemm {text!r}: {reason}"
    remedy = "give M,N,K as whole numbers from 0 to 10^12, e.g. --gemm 4096,4096,4096"


class ChoiceError(BadInputError):
    """An option has a value that is none of its choices."""

    message = "{option} {value!r} is not one of {known}"
    remedy = "nearest: {nearest}"


class TileError(BadInputError):
    """`--why` does not describe a tile."""

    message = "--why {text!r}: {reason}"
    remedy = (
        'give tile_m,tile_n,tile_k, then other axes by name, e.g. --why "128,256,64" or --why "128,256,64,stages=4"'
    )


class PointError(BadInputError):
    """`--why` does not name the axes of a kernel without tiles."""

    message = "--why {text!r}: {reason}"
    remedy = 'the {family} family has no tile: give its axes by name, e.g. --why "threads=256,vec=8"'


class NoKernelError(BadInputError):
    """A program has no kernel of that name."""

    message = "{name} has no kernel {kernel!r}"
    remedy = "its kernels are {known}"


class KernelNotNamedError(BadInputError):
    """A program has several kernels where one is needed."""

    message = "{name} has the kernels {known}, and one is needed here"
    remedy = "name it, e.g. kernel={first!r}"


class NoSpecsError(BadInputError):
    """`--all` found nothing to emit."""

    message = "there is no {pattern} in {folder}"
    remedy = "run it in the folder that holds specs/, or name one spec"


class SameFolderError(BadInputError):
    """Two specs would write one package folder."""

    message = "{spec} and {other} both make {folder}"
    remedy = "give one of them another name"


class FaultError(KgenError):
    """An exception that is no refusal: kgen itself is wrong (exit code 70, as in sysexits.h)."""

    message = "a fault in kgen: {kind}: {reason}"
    exit_code = 70


class ReferenceExitedError(BadInputError):
    """The reference, or the module it stands in, ended the process."""

    message = "the Python code of the spec called exit({status})"
    remedy = "a reference computes and returns; remove the call"


class NoDeviceHereError(DeviceMissingError):
    """No target was named, and this machine has no GPU to take it from."""

    message = "no target was named, and this machine has no GPU"
    remedy = "name the device to build for, e.g. target='h200'; known: {known}"


class UnknownGpuError(UnsupportedError):
    """The GPU of this machine matches no device file."""

    message = "{gpu} ({isa}, {units} units, {memory} GiB) matches no device file"
    remedy = "`kgen probe -o FILE` describes it for target=FILE; or name the nearest device, e.g. target='{example}'"


class OtherDslLoadedError(KgenError):
    """Two DSLs in one process abort it."""

    message = "the kernel needs {wanted}, and {loaded} is loaded in this process already; the two abort each other"
    remedy = "build for one of the two in a process of its own"


class NotATensorError(BadInputError, TypeError):
    """`kgen.build` was given something that is no tensor."""

    message = "argument {position} is a {kind}, and a kernel takes tensors"
    remedy = "bind it before, e.g. with functools.partial"


class KeywordTensorError(UnsupportedError, TypeError):
    """A call of a built kernel gives a tensor by a keyword that has no place in the argument list."""

    message = "{name}: {reason}"
    remedy = "pass the tensors in the order of the reference's arguments"


class IncumbentNameError(BadInputError):
    """--incumbent names nothing that can be copied."""

    message = "--incumbent {text}: {reason}"
    remedy = "e.g. --incumbent kernels/gemm.py::gemm"


class AxesError(BadInputError):
    """--try is not a list of axis=value."""

    message = "--try {text}: {reason}"
    remedy = 'e.g. --try "tile_m=128,tile_n=192,stages=4"'
