"""Words of the docstring of every emitted kernel.py: lines that fit, what is accepted, what it was made from."""

import textwrap
from pathlib import PurePath

from kgen.ir.program import Program
from kgen.spec.model import Spec


def wrapped(line: str) -> list[str]:
    """Return a line of a docstring in lines that fit, the further ones indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, 116, subsequent_indent=indent) or [""]


def accepted_words(program: Program, names: dict[str, str]) -> str:
    """Return the arguments of a program with their types."""
    return "; ".join(f"{names[a.name]} {a.type}" for a in program.arguments)


def source_words(spec: Spec) -> str:
    """Return what a package was made from."""
    return f"specs/{PurePath(spec.file).name}" if spec.file.endswith((".yaml", ".yml")) else "a PyTorch function"
