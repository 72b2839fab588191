"""Refusals of `kgen diff`: sides that cannot be read, or that cannot be set against each other."""

from kgen.errors.base import BadInputError


class NoSideError(BadInputError):
    """A side is neither a package, nor a folder of packages, nor a database of records."""

    message = "{path} is nothing to compare: {reason}"
    remedy = "name a package, a folder of packages such as generated/h200, or a database of records"


class PlanUnreadableError(BadInputError):
    """A package's plan.json, or the plan of a record, is not what kgen writes."""

    message = "{place}: {reason}"
    remedy = "emit the package again"


class NotPairedError(BadInputError):
    """Two sides have packages for several devices, and share none of them."""

    message = "A has packages for {first}, B for {second}, and nothing says which belong together"
    remedy = "name one device of each, e.g. {example}"


class NoRunError(BadInputError):
    """A database of records holds no plan of the run that was asked for."""

    message = "{path} holds no plan of {run!r}"
    remedy = "after @ stands a version of kgen or the beginning of a time; it has {known}"


class TargetsNumberError(BadInputError):
    """A comparison of devices was not given two of them."""

    message = "--spec compares two devices, and --targets names {count}: {names}"
    remedy = "e.g. --targets h200,h20"
