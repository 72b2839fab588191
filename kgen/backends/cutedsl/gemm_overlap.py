"""What the kernel.py of a product prints where its kernels start while the kernel before them in the stream ends.

Such a kernel waits for all results of the one before it ahead of its first access to device memory, be it a load or a
store: whatever ran before, nothing is read too early, and nothing overwritten that is still read. Since every thread
waits, a kernel ends only after all before it, and so on along the stream.
"""

from typing import Final

from kgen.backends.source.file_views import ValueView
from kgen.backends.source.gemm_views import FieldView
from kgen.planning.plan_gemm import GemmPlan, GemmVariant

FIELD: Final = FieldView("overlaps", "bool", "  # starts while the kernel before it in the stream ends")
WAIT: Final = (
    "# this kernel may have started while the one before it ran: nothing in device memory is touched until now",
    "cute.arch.griddepcontrol_wait()",
)
TRIGGER: Final = ("cute.arch.griddepcontrol_launch_dependents()  # nothing is left to load: the next kernel may start",)
LAUNCH: Final = "use_pdl=v.overlaps"


def overlaps(plan: GemmPlan) -> bool:
    """Return whether any variant starts while the kernel before it ends: then the text of all has what it takes."""
    return any(v.overlaps for v in plan.variants)


def overlap_values(variant: GemmVariant, plan: GemmPlan) -> tuple[ValueView, ...]:
    """Return what a row says of it."""
    if not overlaps(plan):
        return ()
    saved = variant.choice.overlap_us
    comment = f"  # saves {saved:g} us, as predicted" if saved else "  # would save too little"
    return (ValueView("overlaps", str(variant.overlaps), comment),)
