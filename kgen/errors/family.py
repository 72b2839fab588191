"""Refusals of the families: a Problem that is valid and that no family of kernels covers."""

from kgen.errors.base import UnsupportedError


class NotOneProductError(UnsupportedError):
    """The body is not exactly one contraction with pointwise work around it."""

    message = "problem {problem} is no single matrix product: {found}"
    remedy = "kgen lowers one matrix product with pointwise input and epilogue ops per kernel"


class UnfoldableAxesError(UnsupportedError):
    """Contracted axes that no single stride walks."""

    message = "the contracted axes {axes} of {problem} cannot be walked with one stride: {tensor} has strides {strides}"
    remedy = "make {tensor} contiguous over these axes before the product"


class TooManyBatchAxesError(UnsupportedError):
    """More batch modes than a TMA tensor can have."""

    message = "problem {problem} needs {count} batch modes ({axes}); kernels take at most {limit}"
    remedy = "make the operands contiguous over their batch axes, so that they fold into fewer"


class RangedExtentError(UnsupportedError):
    """An extent that is a range or read from memory, where a static one is needed."""

    message = "axis {axis} of {problem} has the extent {extent}; kernels take static extents"
    remedy = "give one case per extent: each becomes a guarded variant of the kernel"


class MixedOperandError(UnsupportedError):
    """The operands enter the product with different element types."""

    message = "the product in {problem} multiplies {lhs} by {rhs}"
    remedy = "cast one operand, so that both have one element type"


class UnfoldedAccessError(UnsupportedError):
    """An access that is divided, or whose index is read from memory inside of the access."""

    message = "the access {access} of {problem} is no walk with one stride per axis"
    remedy = "reshape the tensor, so that each index is one axis"


class MixedScanError(UnsupportedError):
    """A kernel that would scan in two directions, or scan and reduce."""

    message = "{kernel} scans in two directions, or scans and reduces, in one pass"
    remedy = "write the results in two functions"


class NotOneAttentionError(UnsupportedError):
    """The body has two products and is no attention that one kernel computes."""

    message = "problem {problem} is no attention of one kernel: {found}"
    remedy = "its products and its softmax run in kernels of their own"
