"""The printers of one loop kernel together: `loop_device` and `loop_scan` ask them for the parts of its text, in order.

Order matters: names are given where they are first needed, and a phase needs what the phases before it found.
"""

from kgen.backends.cutedsl.loop_reads import VectorReads
from kgen.backends.cutedsl.loop_reductions import ReductionPrinter
from kgen.backends.cutedsl.loop_stores import StorePrinter
from kgen.backends.cutedsl.loop_symbols import Symbols
from kgen.backends.cutedsl.loop_values import ValuePrinter
from kgen.families.strided.form import LoopForm


class LoopBody:
    """The printers of the parts of one kernel; `tensors` gives the Python name of each tensor."""

    def __init__(self, form: LoopForm, tensors: dict[str, str]) -> None:
        self.form = form
        self.symbols = Symbols(form, tensors)
        self.reads = VectorReads(self.symbols)
        self.values = ValuePrinter(self.symbols, self.reads)
        self.reductions = ReductionPrinter(self.symbols, self.values)
        self.stores = StorePrinter(self.symbols, self.values)
