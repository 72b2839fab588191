"""Errors of tracing a reference and of lowering it; each names the op or value and the user's line."""

from kgen.errors.base import BadInputError, UnsupportedError


class ReferenceFailedError(BadInputError, RuntimeError):
    """The reference itself raised."""

    message = "the reference raised {kind}: {reason}"
    remedy = "the reference must run in PyTorch on the inputs of case {case!r}: {inputs}"


class ReferenceLoadError(BadInputError, RuntimeError):
    """The reference's source could not be executed, or its module not constructed."""

    message = "loading the reference raised {kind}: {reason}"
    remedy = "the source must import what it uses and run with PyTorch alone"


class DTypeMismatchError(BadInputError, RuntimeError, TypeError):
    """Operands of a contraction differ in element type, which PyTorch refuses."""

    message = "{op} needs operands of one dtype, and has {dtypes}"
    remedy = "cast one of them explicitly, e.g. with .to({example})"


class ScalarOverflowError(BadInputError, RuntimeError):
    """A Python number that does not fit the element type it is written to."""

    message = "{op}: {value} does not fit {dtype}"
    remedy = "use a value within the range of {dtype}, or compute in fp32"


class ImportedModuleError(BadInputError):
    """A Python file in place of a spec lacks one of its three names."""

    message = "{file} defines no {name}"
    remedy = "it must define class Model(nn.Module), get_inputs() and get_init_inputs()"


class NonTensorArgumentError(UnsupportedError):
    """An argument of the reference is not a tensor."""

    message = "argument {position} of the reference is a {kind}, and a kernel takes dense tensors"
    remedy = (
        "bind it before, e.g. with functools.partial, or make it a default in the reference; "
        "a Model may take finite Python numbers behind its tensors"
    )


class NonTensorResultError(UnsupportedError):
    """A result of the reference is not a tensor."""

    message = "the reference returns {found}"
    remedy = "return a tensor or a flat tuple of tensors"


class UnsupportedDTypeError(UnsupportedError):
    """A torch dtype that kgen does not know."""

    message = "{what} has the dtype {dtype}"
    remedy = "supported: {supported}"


class DataDependentError(UnsupportedError):
    """The reference's control flow or shapes depend on the values of tensors."""

    message = "the reference reads the value of a tensor ({op})"
    remedy = "a kernel serves all values: use torch.where instead of a branch, and a tensor instead of a number"


class TraceError(UnsupportedError):
    """torch.export could not trace the reference."""

    message = "torch.export cannot trace the reference: {reason}"
    remedy = "write the reference with tensor operations only"


class UnsupportedOpError(UnsupportedError):
    """An operation that is not covered where it stands."""

    message = "{op} is not supported {place}"
    remedy = "{covered}"


class UnsupportedViewError(UnsupportedError):
    """A view that is not an affine map of indices; the field `view`, where there is one, names its value."""

    message = "{op}: {reason}"
    remedy = "views must be expressible by strides; copy beforehand, or reshape along the axes of the operands"


class UnsupportedEinsumError(UnsupportedError):
    """An einsum that is not a batched matrix product."""

    message = "einsum {equation!r}: {reason}"
    remedy = "covered: two operands, each label at most once per operand, summed labels in both of them"


class ChainTooLongError(UnsupportedError):
    """So many operations depend on one another in a row that lowering cannot follow them."""

    message = "the result depends on a chain of operations that is too long to lower; the reference has {count}"
    remedy = "shorten the chain, e.g. by folding its constants, or split the reference"


class NotOneKernelError(UnsupportedError):
    """A value that neither one kernel nor several with buffers between them compute."""

    message = "{op} cannot be cut into kernels: {reason}"
    remedy = "split the reference, or write this step along whole axes"


class MutationError(UnsupportedError):
    """The reference writes to one of its inputs what another one held, in a way that no order of kernels gives."""

    message = "the reference writes to its input {target} in place ({op}) what a later kernel would have to read"
    remedy = "return the new value, and leave the inputs as they are"


class RandomOpError(UnsupportedError):
    """The reference draws random numbers."""

    message = "{op} draws random numbers"
    remedy = (
        "dropout is the identity in evaluation mode: call .eval() in __init__ or pass training=False; "
        "draw other numbers in the caller"
    )
