"""`kgen targets` for a terminal: the devices with the numbers that decide most, and the support matrix."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from kgen.support import Support
from kgen.target import Confidence, Device, Quantity

_SHOWN = {
    "units": "quantities.compute_units",
    "clock": "quantities.clock",
    "bf16 dense": "dense_peak.bf16",
    "fp8 dense": "dense_peak.fp8",
    "memory": "quantities.memory",
    "bandwidth": "quantities.memory_bandwidth",
    "L2": "quantities.l2",
}


def targets_view(devices: Sequence[Device], matrix: Sequence[Support]) -> RenderableType:
    """Return both tables."""
    table = Table("device", "name", "ISA", *_SHOWN, title="devices", title_justify="left")
    for device in devices:
        shown = (_number(device.quantity(name)) for name in _SHOWN.values())
        table.add_row(device.name, device.title, device.arch.isa, *shown)
    table.caption = "? low confidence: never decides PASS or FAIL; ~ medium. --json has every number with its source."
    table.caption_justify = "left"
    families = list(dict.fromkeys(s.family for s in matrix))
    support = Table("ISA", "arch", *families, title="families", title_justify="left")
    for isa, arch in dict.fromkeys((s.isa, s.arch) for s in matrix):
        support.add_row(isa, arch, *(s.level for s in matrix if s.arch == arch))
    return Group(table, support)


def _number(quantity: Quantity | None) -> str:
    if quantity is None:
        return "not known"
    mark = {Confidence.LOW: " ?", Confidence.MEDIUM: " ~", Confidence.HIGH: ""}[quantity.confidence]
    unit = "" if quantity.unit == "count" else f" {quantity.unit}"
    return f"{quantity.value:g}{unit}{mark}"
