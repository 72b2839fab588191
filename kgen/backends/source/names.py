"""Python names for the user's tensors: theirs, unless names of the emitted code are in the way."""

import keyword
import re
from collections.abc import Callable

TAKEN_BY_HOST = frozenset(
    {
        "PLAN",
        "TypeError",
        "ValueError",
        "alignment",
        "all",
        "base",
        "chosen",
        "compiled",
        "d",
        "device",
        "dtype",
        "error",
        "expected",
        "fits",
        "flyc",
        "found",
        "function",
        "fx",
        "kernel",
        "launches",
        "made",
        "name",
        "next",
        "planned",
        "pointers",
        "refusal",
        "run",
        "run_loop",
        "run_product",
        "self",
        "shape",
        "sm_count",
        "stride",
        "t",
        "taken",
        "tensors",
        "torch",
        "tuple",
        "types",
        "variants",
        "zip",
    }
)


def host_names(tensors: tuple[str, ...]) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the host function: the reference's own, if it can be."""
    return distinct(tensors, lambda name: not keyword.iskeyword(name) and name not in TAKEN_BY_HOST)


def distinct(tensors: tuple[str, ...], is_free: Callable[[str], bool]) -> dict[str, str]:
    """Return a distinct name for every tensor, a free one."""
    names: dict[str, str] = {}
    for tensor in tensors:
        name = re.sub(r"\W", "_", tensor)
        while not is_free(name) or name in names.values():
            name += "_"
        names[tensor] = name
    return names
