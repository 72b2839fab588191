"""Every error class of kgen, one module per domain; all derive from `KgenError`."""

from kgen.errors.base import (
    BadInputError,
    CheckFailedError,
    DeviceMissingError,
    KgenError,
    UnsupportedError,
    Where,
)

__all__ = ["BadInputError", "CheckFailedError", "DeviceMissingError", "KgenError", "UnsupportedError", "Where"]
