"""Refusals about target description files and device names."""

from kgen.errors.base import BadInputError, UnsupportedError


class UnknownDeviceError(BadInputError):
    """No device file has that name."""

    message = "unknown device '{name}'"
    remedy = "nearest known: {nearest}; known: {known}"


class DeviceFileMissingError(BadInputError):
    """A device is named by the path of a file that does not exist."""

    message = "there is no device file {path}"
    remedy = "name an existing <arch>/devices/<device>.yaml, or one of {known}"


class UnknownArchError(BadInputError):
    """A device file names an arch that `targets/` does not have."""

    message = "unknown arch '{name}'"
    remedy = "known: {known}"


class TargetSyntaxError(BadInputError):
    """A target file is not YAML."""

    message = "not valid YAML: {reason}"


class TargetFieldError(BadInputError):
    """A target file has a field that is missing, unknown, or of the wrong type."""

    message = "{field}: {problem}"
    remedy = "{valid}"


class UnknownSourceError(BadInputError):
    """A number or a rule cites a source that the register does not hold."""

    message = "'{source}' is not in targets/sources.yaml"
    remedy = "nearest known: {nearest}"


class FamilyNotOnArchError(UnsupportedError):
    """A family has no rules or no templates for an arch."""

    message = "the {family} family does not reach {arch}: there is no {missing}"
    remedy = "`kgen targets` lists which families each device has"
