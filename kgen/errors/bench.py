"""Refusals about memory files and utilization figures."""

from kgen.errors.base import BadInputError


class MemoryVersionError(BadInputError):
    """A version is not v0, v1, ..."""

    message = "{version!r} is not a version"
    remedy = "versions are v0 for the baseline, then v1, v2, ..."


class MemoryMissingError(BadInputError):
    """The workspace has no such memory file."""

    message = "there is no {file}"
    remedy = "versions there: {known}; `kgen memory create` makes one"


class NoMemoryError(BadInputError):
    """Nothing to read: no file, or all are masked."""

    message = "{folder} has no memory file to read: {masked} masked, no other"
    remedy = "`kgen memory create` makes one, `kgen memory unmask` or --include-masked brings a masked one back"


class MemoryExistsError(BadInputError):
    """`create` would overwrite a memory file."""

    message = "{file} exists"
    remedy = "change it with `kgen memory update`, or create the next version"


class MemoryMaskedError(BadInputError):
    """A masked file was asked for by its version."""

    message = "{file} is masked: readers skip it"
    remedy = "`kgen memory unmask` it, or read it with --include-masked"


class MemorySyntaxError(BadInputError):
    """A memory file is not JSON that every reader accepts."""

    message = "{file} is not valid JSON: {reason}"
    remedy = "mend the file, or restore it from its commit"


class MemoryFieldError(BadInputError):
    """A field that memory files do not have."""

    message = "{file}: there is no field {field}"
    remedy = "nearest: {nearest}"


class MemoryInvalidError(BadInputError):
    """A memory file, or what an update would make of it, does not satisfy the schema."""

    message = "{file}: {problems}"
    remedy = (
        "nothing was written or used; `kgen memory schema` has the fields, and null stands for what was not measured"
    )


class AssignmentError(BadInputError):
    """`--set` or `--append` cannot be carried out, or a field cannot be read."""

    message = "{text}: {reason}"
    remedy = (
        "e.g. --set performance.latency_us=12.3, "
        """--append 'open_directions={{"direction": "...", "rationale": null}}'"""
    )


class ExpressionError(BadInputError):
    """An amount of work is not arithmetic on numbers."""

    message = "{option} {text!r}: {reason}"
    remedy = "numbers with + - * / // % ** and parentheses, e.g. 2*4096*4096*4096"


class AmountError(BadInputError):
    """A quantity of a measurement is out of range."""

    message = "{name} is {value}: {reason}"
    remedy = "give what was counted or measured"


class UnknownDtypeError(BadInputError):
    """No device has a peak for that element type."""

    message = "no device file has a dense peak for {dtype!r}"
    remedy = "nearest: {nearest}; known: {known}"
