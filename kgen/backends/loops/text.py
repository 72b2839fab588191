"""Statements of a loop kernel in blocks and phases: what its printers hand to the views that templates read."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kgen.backends.source.lines import Lines, fitted


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that run for each element, or for each row of a vector, or once."""

    over_elements: bool
    over_vector: bool
    lines: Lines


@dataclass(frozen=True, slots=True)
class Phase:
    """One combination along the columns: states made, elements taken in pass by pass, states joined."""

    start: tuple[Block, ...]
    passes: tuple[Block, ...]
    end: tuple[Block, ...]


def fitted_lines(lines: Iterable[str], indent: int) -> Lines:
    """Return statements in lines that fit where they are printed."""
    return tuple(part for line in lines for part in fitted(line, indent))


def fitted_phase(phase: Phase, depth: int) -> Phase:
    """Return a phase in lines that fit where its blocks are printed, its passes `depth` columns further right."""
    return Phase(_fitted_blocks(phase.start, 0), _fitted_blocks(phase.passes, depth), _fitted_blocks(phase.end, 0))


def _fitted_blocks(blocks: tuple[Block, ...], depth: int) -> tuple[Block, ...]:
    indents = (depth + 4 + 8 * b.over_elements + 4 * b.over_vector for b in blocks)
    return tuple(replace(b, lines=fitted_lines(b.lines, n)) for b, n in zip(blocks, indents, strict=True))
