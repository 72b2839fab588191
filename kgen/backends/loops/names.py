"""Python names for the user's tensors inside of a file of loop kernels."""

import keyword
import re

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.source.names import TAKEN_BY_HOST, distinct

# Names that the code of loop kernels uses beside those of its library and of its DSL.
_TAKEN_BY_LOOPS = frozenset(
    {
        "Access",
        "Boolean",
        "INDEX",
        "LAUNCH",
        "Model",
        "NAME",
        "PLAN",
        "RULES",
        "SIGNATURES",
        "VARIANTS",
        "Variant",
        "WARP",
        "_",
        "at_col",
        "at_row",
        "block",
        "cache",
        "chunk",
        "cluster",
        "col",
        "compile_variant",
        "compiled",
        "dataclass",
        "device",
        "e",
        "error",
        "first",
        "float",
        "found",
        "i",
        "inside",
        "is_row",
        "kernel",
        "lane",
        "lanes",
        "launched",
        "launches",
        "made",
        "name",
        "prod",
        "refusal",
        "row",
        "run",
        "s",
        "smem",
        "stream",
        "tensors",
        "thread",
        "torch",
        "v",
        "variants",
        "vector",
        "version",
    }
)
# Names that the code of loop kernels makes: none ends in an underscore, so that one more always leads out of them.
_MADE_BY_LOOPS = re.compile(
    r"(x\d+|\w*_(at|raw|new|parts|staged)\d*|rules_\w*|launch_\w*|join_\w*|(guard|index)_at\d*|\w*_(flat|resident|staged|streamed|scan)"
    r"|(sum|prod|max|min|argmax|argmin|any|all|m2|sumexp)_\d+\w*)(?<!_)"
)


def loop_names(tensors: tuple[str, ...], dialect: LoopDialect) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the code of loop kernels, host function included."""
    taken = _TAKEN_BY_LOOPS | TAKEN_BY_HOST | dialect.taken | dialect.values.library_names()

    def is_free(name: str) -> bool:
        return not (keyword.iskeyword(name) or name in taken or _MADE_BY_LOOPS.fullmatch(name))

    return distinct(tensors, is_free)
