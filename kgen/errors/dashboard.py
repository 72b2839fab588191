"""Errors of `kgen dashboard`: there is nothing that a page could show."""

from typing import ClassVar

from kgen.errors.base import BadInputError


class RootMissingError(BadInputError):
    """A folder to look for packages in is not there."""

    message: ClassVar[str] = "{root} is not a folder"
    remedy: ClassVar[str] = "name folders below which packages are; by default it is generated"


class NothingToShowError(BadInputError):
    """Neither a package nor a record was found."""

    message: ClassVar[str] = "there is no package below {roots}, and no record"
    remedy: ClassVar[str] = "write packages with `kgen emit --all`, or name a database with --records FILE"
