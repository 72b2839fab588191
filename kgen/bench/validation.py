"""What is wrong with a JSON file that a model of `kgen.bench` refuses, in one line."""

from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """Return the field that the first problem is at, and the problem."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the document"
    return f"{place}: {first['msg']}"
