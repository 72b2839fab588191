"""Errors of the spec file: each shows the place, the offending text and what would be valid."""

from kgen.errors.base import BadInputError


class SpecFileError(BadInputError):
    """The spec cannot be read at all."""

    message = "cannot read the spec: {reason}"
    remedy = "give the path of a .yaml spec, or of a .py file that defines Model, get_inputs and get_init_inputs"


class SpecFormatError(BadInputError):
    """The file's ending names no spec format."""

    message = "{suffix!r} is not a spec format"
    remedy = "a spec ends in {formats}"


class YamlSyntaxError(BadInputError):
    """The text is not YAML."""

    message = "not valid YAML: {problem}"
    remedy = "a spec is one YAML 1.2 mapping"


class UnsafeTagError(BadInputError):
    """A YAML tag asks for an object to be constructed."""

    message = "the YAML tag {tag!r} is not allowed"
    remedy = "write plain values: a spec is data and constructs no objects"


class UnknownKeyError(BadInputError):
    """A key that the spec format does not know."""

    message = "unknown key {key!r} in {place}"
    remedy = "{suggestion}"


class MissingKeyError(BadInputError):
    """A key that must be there is not."""

    message = "{place} lacks the key {key!r}"
    remedy = "add `{key}:` ({expected})"


class WrongValueError(BadInputError):
    """A value of the wrong type or outside of what is valid."""

    message = "{place}: {value} is not valid"
    remedy = "expected {expected}"


class UnknownNameError(BadInputError):
    """A name that refers to nothing."""

    message = "{place}: {name!r} is not {kind}"
    remedy = "{suggestion}"


class UnboundExtentError(BadInputError):
    """A case leaves an extent without a value."""

    message = "case {case!r} does not bind the extent {extent!r}, which is a range"
    remedy = "give it in the case, e.g. {extent}: {example}; without cases it is left to run time"


class ExtentOutOfRangeError(BadInputError):
    """A case binds an extent to a value outside of its range."""

    message = "case {case!r}: {extent} = {value} is outside of {allowed}"
    remedy = "choose a value from {allowed}, e.g. {example}"


class SeveralRangesError(BadInputError):
    """More than one extent that no case binds."""

    message = "{names} are ranges and there are no cases; a kernel takes one extent at run time"
    remedy = "give the others numbers, or list cases that bind them all"


class NarrowRangeError(BadInputError):
    """A range for run time with fewer than two values."""

    message = "extent {name!r}: {allowed} has fewer than two values above 0, and nothing is left to run time"
    remedy = "write the number, e.g. {name}: {example}"


class FixedByTestCaseError(BadInputError):
    """Axes decided for a case of a spec whose cases are values that the tests run at."""

    message = "fixed_by_case: {name} is left to run time, and its values share plans"
    remedy = "decide axes for all values in `fixed`, or list cases that bind {name}"


class RangeTooWideError(BadInputError):
    """An extent of run time beyond what kernels count in."""

    message = "extent {name!r} goes up to {hi}; kernels count an extent of run time in 32 bits"
    remedy = "end the range at {limit} or below"


class ValueForTestsError(BadInputError):
    """A value for the tests that the range does not hold."""

    message = "extent {name!r}: the test value {value} is outside of {allowed}"
    remedy = "choose values from {allowed}, e.g. {example}"


class CasesAndTestsError(BadInputError):
    """Values for the tests of an extent that cases bind."""

    message = "extent {name!r} has values for the tests, and cases bind it"
    remedy = "leave out the cases: the kernel then takes {name} at run time; or leave out `tests`"


class UnusedDynamicExtentError(BadInputError):
    """An extent of run time that no input tells."""

    message = "no input has the extent {name!r}, which is left to run time"
    remedy = "name it in the shape of an input, or give it a number"


class DynamicStrideError(BadInputError):
    """Strides that follow from an extent of run time."""

    message = "input {input!r}: its strides follow from {name}, which is left to run time"
    remedy = "let {name} be the slowest axis of {input}, or list cases that bind {name}"


class EmptyRangeError(BadInputError):
    """A range that holds no value."""

    message = "extent {name!r}: no multiple of {multiple_of} lies in {lo}..{hi}"
    remedy = "write [lowest, highest], both included"


class StrideError(BadInputError):
    """Strides that cannot hold the shape."""

    message = "input {name!r}: {reason}"
    remedy = "{fix}"


class ValuesError(BadInputError):
    """A range of values that holds none of the input's type."""

    message = "input {name!r}: no {dtype} is drawn from the range {values}"
    remedy = "write [lowest, end], the end larger and excluded; whole numbers for integers, none for bool"


class FileEscapesFolderError(BadInputError):
    """A file reference that leaves the folder of the spec."""

    message = "{path!r} leaves the folder of the spec"
    remedy = "refer to a file beside the spec or below it, by a relative path"


class ReferenceFileError(BadInputError):
    """The file of the reference is missing or unreadable."""

    message = "cannot read the reference file {path!r}: {reason}"
    remedy = "the path is relative to the folder of the spec"


class ReferenceSyntaxError(BadInputError):
    """The reference is not valid Python."""

    message = "the reference is not valid Python: {problem}"
    remedy = "the reference is a Python function or nn.Module class with its imports"


class ReferenceEntryError(BadInputError):
    """The reference defines no such function or class, or not exactly one."""

    message = "the reference defines {found}; the entry is {wanted}"
    remedy = "{suggestion}"


class ReferenceSignatureError(BadInputError):
    """The inputs of the spec are not the arguments of the reference."""

    message = "{entry}({parameters}) does not take the inputs {inputs}"
    remedy = "list the inputs by the reference's argument names, in their order; {suggestion}"


class CastError(BadInputError):
    """The reference is nothing whose parameters could be cast where it is constructed."""

    message = "{entry} cannot be cast to {dtype}: {reason}"
    remedy = "leave out the reference's dtype, and cast in the reference"


class InlineStyleError(BadInputError):
    """Inline Python is not a literal block, so its lines cannot be told."""

    message = "inline Python must be a literal block"
    remedy = "write `{key}: |` and indent the code below it"
