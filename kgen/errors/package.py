"""Refusals to write or read a package folder."""

from kgen.errors.base import BadInputError, KgenError


class OccupiedFolderError(BadInputError):
    """The folder to write exists and was not written by kgen."""

    message = "{folder} exists and is no package of kgen: {reason}"
    remedy = "name another folder with -o, or remove this one"


class ForeignFilesError(BadInputError):
    """The package folder holds files that kgen did not write and that an overwrite would lose."""

    message = "{folder} holds files that kgen did not write: {names}"
    remedy = "move them away, or name another folder with -o"


class FileNameError(BadInputError):
    """A file of a package would leave its folder, or land where measurements are kept."""

    message = "{name!r} cannot be a file of a package: {reason}"
    remedy = "file names are relative, with / between folders, and stay inside the package"


class FolderError(KgenError):
    """The operating system refused a step of writing a package."""

    message = "cannot write {folder}: {reason}"
    remedy = "check that the folder above it exists, is writable and has space"


class ExtentNameError(BadInputError):
    """A named extent that cannot be a parameter of the package's `_make_inputs`."""

    message = "the extent {name!r} cannot be a parameter in the package's input.py"
    remedy = "give it another name, such as {name!r} in upper case"


class ShapesError(BadInputError):
    """A constructor argument of the reference that shapes.json cannot hold."""

    message = "the constructor argument {name} = {value!r} of the reference has no place in shapes.json"
    remedy = "use numbers, text, booleans, None, and lists and dicts of them"
