"""GemmForms at a few values of an extent -> the form at every value of it: one extent of the product follows from it.

The forms come from traces, one for each value; that they agree in all but this extent is what makes one kernel right
for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.errors.dynamic import DynamicMeaningError
from kgen.families.gemm.form import GemmForm
from kgen.spec.model import DynamicExtent


@dataclass(frozen=True, slots=True)
class DynamicForm:
    """A product whose extent `axis`, "m" or "n", is `scale` times the value of an extent of run time plus `offset`."""

    form: GemmForm
    axis: str
    scale: int
    offset: int

    def at(self, value: int) -> GemmForm:
        """Return the form at a value."""
        count = self.scale * value + self.offset
        return replace(self.form, m=count) if self.axis == "m" else replace(self.form, n=count)


def dynamic_form(forms: Mapping[int, GemmForm], extent: DynamicExtent) -> DynamicForm:
    """Return the form at every value; `forms` has those at some values, two above 0 among them.

    A value of 1 is not compared: strides along one element have no meaning there. Raises `DynamicMeaningError`.
    """
    values = sorted(value for value in forms if value > 0)
    low, high = values[-2], values[-1]
    first, second = forms[low], forms[high]
    changed = [axis for axis in ("m", "n", "k") if getattr(first, axis) != getattr(second, axis)]
    if len(changed) == 1 and changed[0] != "k":
        (axis,) = changed
        at_low, at_high = getattr(first, axis), getattr(second, axis)
        scale = (at_high - at_low) // (high - low)
        found = DynamicForm(second, axis, scale, at_high - scale * high)
        if all(found.at(value) == forms[value] for value in values if value > 1):
            return found
    raise DynamicMeaningError(where=extent.where, extent=extent.name, found=_difference((low, first), (high, second)))


def _difference(one: tuple[int, GemmForm], other: tuple[int, GemmForm]) -> str:
    parts = []
    for value, form in (one, other):
        strides = f"strides {form.a.outer}, {form.b.outer} and {form.d.m}"
        parts.append(f"at {value} m, n, k are {form.m}, {form.n}, {form.k}, batches {form.batch}, {strides}")
    return "; ".join(parts)
