"""Refusals about memory files and utilization figures."""

from kgen.errors.base import BadInputError, CheckFailedError, KgenError


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


class MeasurementFailedError(KgenError):
    """The process that measures a case failed, ended or hung."""

    message = "case {case} could not be measured: {reason}"
    remedy = "its log is in measured/logs; `kgen check` says whether the kernel is right"
    exit_code = 1


class IncumbentMissingError(BadInputError):
    """The package has no copy of the incumbent that its plan names."""

    message = "there is no {file}: nothing to compare with"
    remedy = "emit the package again"


class IncumbentChangedError(BadInputError):
    """The copy of the incumbent is not what it was when the package was emitted."""

    message = "{file} was changed since the package was emitted: the comparison arm is the incumbent, byte for byte"
    remedy = "emit the package again; a changed incumbent is another one"


class UnknownBenchCaseError(BadInputError):
    """A case was asked for that the package does not have."""

    message = "{folder} has no case {case!r}"
    remedy = "its cases: {known}"


class ReportMissingError(BadInputError):
    """The package was not measured."""

    message = "there is no {file}: the package was not measured"
    remedy = "`kgen bench {folder}` on a machine with its GPU writes it"


class ReportInvalidError(BadInputError):
    """report.json is not what `kgen bench` writes."""

    message = "{file}: {reason}"
    remedy = "restore it from its commit, or measure again: `kgen bench`"


class GitFailedError(KgenError):
    """git refused what `--git` asked for."""

    message = "git {command} in {folder}: {reason}"
    remedy = "what was measured is in measured/; commit it by hand, or run `kgen bench --git` again"
    exit_code = 1


class ChartsMissingError(KgenError):
    """matplotlib, which draws the charts, cannot be imported."""

    message = "the charts need matplotlib: {reason}"
    remedy = "pip install 'kgen[bench]'"


class BudgetSpentError(CheckFailedError):
    """A variant beyond the budget was to be measured."""

    message = "{name} would be variant {next} of {budget}: {names} were measured"
    remedy = "deliver the best correct one and report the gap; a changed spec is a new package with a budget of its own"

    def __init__(self, *, name: str, budget: int, names: str) -> None:
        super().__init__(name=name, budget=budget, names=names, next=budget + 1)


class LogMissingError(BadInputError):
    """The samples of a compared case are not there."""

    message = "there is no {file}: the samples of case {case} are not there"
    remedy = "measure again: `kgen bench --again`"
