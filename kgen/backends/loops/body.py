"""The printers of one loop kernel together: `loop_device` and `loop_scan` ask them for the parts of its text, in order.

Order matters: names are given where they are first needed, and a phase needs what the phases before it found.
"""

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.reads import VectorReads
from kgen.backends.loops.reductions import ReductionPrinter
from kgen.backends.loops.stores import StorePrinter
from kgen.backends.loops.symbols import Symbols
from kgen.backends.loops.values import ValuePrinter
from kgen.families.strided.form import LoopForm


class LoopBody:
    """The printers of the parts of one kernel.

    `tensors` gives the Python name of each tensor, `far` are large ones; elements are `staged` in smem or in registers,
    and what rows share is loaded `ahead` or where it is needed. `first_vector` is the number of a pass's first vector.
    """

    def __init__(
        self,
        form: LoopForm,
        tensors: dict[str, str],
        dialect: LoopDialect,
        far: frozenset[str],
        *,
        staged: bool,
        ahead: bool,
        first_vector: str,
    ) -> None:
        self.form, self.dialect = form, dialect
        self.symbols = Symbols(form, tensors, dialect, far)
        self.reads = VectorReads(self.symbols, staged=staged, ahead=ahead)
        self.values = ValuePrinter(self.symbols, self.reads)
        self.reductions = ReductionPrinter(self.symbols, self.values, first_vector)
        self.stores = StorePrinter(self.symbols, self.values)
