"""Refusals of the back-ends: a plan that is legal and that the templates cannot print."""

from kgen.errors.base import UnsupportedError


class OpNotPrintedError(UnsupportedError):
    """An op on a type in which emitted kernels have no form of it."""

    message = "`{statement}` computes in {dtype}, in which emitted kernels have no form of it"
    remedy = "cast its operands in the reference: ops on floats have forms in fp32, ops on whole numbers in int64"


class ElementTypeError(UnsupportedError):
    """A tensor whose element type the back-end's kernels do not read or write."""

    message = "{role} {tensor} has the element type {dtype}; this kernel takes {valid}"
    remedy = "cast it in the reference's caller, so that the kernel gets one of these types"


class NoBackendError(UnsupportedError):
    """No templates for this family on this instruction set."""

    message = "no template prints the {family} family for {isa} ({device})"
    remedy = "`kgen targets` lists which families each device has"


class MixedKernelsError(UnsupportedError):
    """The cases of one spec need kernels that do not share a text."""

    message = (
        "{spec}: case {first} needs a kernel with {one}, case {second} one with {other}; one file holds one of them"
    )
    remedy = "put these cases into specs of their own"


class CasesDifferError(UnsupportedError):
    """The cases of one spec differ in what the text of a kernel holds, and not only in extents and strides."""

    message = "{spec}: case {first} prints `{one}` where case {second} prints `{other}`; one file holds one of them"
    remedy = "put these cases into specs of their own"


class ModuleNameError(UnsupportedError):
    """A name of the user's module that its kernel.py needs for something else."""

    message = "{file} defines {name}, which its constructor uses; kernel.py has another thing of that name"
    remedy = "rename {name} in {file}"
