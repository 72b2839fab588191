"""Arithmetic on numbers and on columns of them, one entry per candidate, that rules, cost and grid waves share."""

from typing import Any

Numbers = Any  # an int, or an integer array


def ceil_div(dividend: Numbers, divisor: Numbers) -> Numbers:
    """Return the quotient rounded up."""
    return -(-dividend // divisor)
