"""The printers of one loop kernel together: `device` and `scan` ask them for the parts of its text, in order.

Order matters: names are given where they are first needed, and a phase needs what the phases before it found.
"""

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.reads import VectorReads
from kgen.backends.loops.reductions import ReductionPrinter
from kgen.backends.loops.stores import StorePrinter
from kgen.backends.loops.symbols import Symbols
from kgen.backends.loops.values import ValuePrinter
from kgen.planning.plan_loops import LoopVariant

HELD = ("resident", "staged")  # schedules whose threads have all elements of their row at hand, in one chunk


class LoopBody:
    """The printers of the parts of one kernel.

    `tensors` gives the Python name of each tensor, `far` are large ones.
    """

    def __init__(
        self, variant: LoopVariant, tensors: dict[str, str], dialect: LoopDialect, far: frozenset[str]
    ) -> None:
        schedule, self.form, self.dialect = variant.schedule, variant.form, dialect
        self.symbols = Symbols(self.form, tensors, dialect, far)
        self.reads = VectorReads(self.symbols, staged=schedule == "staged", ahead=variant.ahead > 0)
        self.values = ValuePrinter(self.symbols, self.reads)
        first_vector = "0" if schedule in HELD else "chunk * v.steps"
        holds_powers = schedule == "resident" and dialect.holds_powers
        self.reductions = ReductionPrinter(self.symbols, self.values, first_vector, holds_powers=holds_powers)
        self.stores = StorePrinter(self.symbols, self.values)
