"""Refusals where an extent is left to run time, and no one kernel could serve all its values."""

from kgen.errors.base import BadInputError, UnsupportedError


class DynamicProgramError(UnsupportedError):
    """A program that is not one product, or a product on ordinary cores."""

    message = (
        "{extent} is left to run time, and {found}: kernels take an extent at run time in a product by wgmma alone"
    )
    remedy = "list cases that bind {extent}: each becomes a variant of the kernel"


class DynamicMeaningError(UnsupportedError):
    """What follows from the extent is not m or n of the product, and nothing else."""

    message = (
        "{extent} is left to run time, and it is no side, m or n, of the product alone that follows from it: {found}"
    )
    remedy = "list cases that bind {extent}: each becomes a variant of the kernel"


class DynamicResultError(UnsupportedError):
    """A result whose strides follow from the extent."""

    message = "{extent} is left to run time, and the strides of {tensor} follow from it"
    remedy = "let {extent} be the slowest axis of {tensor}, or list cases that bind {extent}"


class DynamicBackendError(UnsupportedError):
    """A back-end whose kernels take no extent at run time."""

    message = "{extent} is left to run time, and the kernels for {isa} ({device}) have all extents as constants"
    remedy = "list cases that bind {extent}: each becomes a variant of the kernel; or leave out the target {device}"


class DynamicTuneError(UnsupportedError):
    """A search over choices for one case, where cases share plans."""

    message = "{extent} is left to run time, and a measurement of one value would decide for others"
    remedy = "list cases that bind {extent} to tune each of them, or decide axes in `fixed`"


class DynamicAxesError(BadInputError):
    """Axes of a callable's tensors that cannot be left to run time."""

    message = "dynamic axes: {reason}"
    remedy = 'give argument, axis and range of one extent, e.g. dynamic={{"x": {{0: (1, 8192)}}}}'
