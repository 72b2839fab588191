"""One spec planned on any device by the compiler at hand: the front end, which asks for no device, runs once.

A plan is what counterfactuals are asked of: whole programs, so that what variants and kernels share is decided as it
is when a package is emitted.
"""

import json
from dataclasses import dataclass

from kgen.diff.documents import StatedPlan, StatedVariant, kernel_texts, plan_of_document
from kgen.errors.base import KgenError
from kgen.package.folder import PLAN_FILE
from kgen.pipeline import STAGES, Made, run
from kgen.planning.plan import Plan, Variant
from kgen.spec.model import Spec
from kgen.target import Device

_BEFORE_DEVICE = "lower"  # the last stage that asks for no device
Slot = tuple[str, int, int]  # case, number of the kernel in launch order, place among its variants


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the texts of its kernels without their names."""

    device: Device
    plan: Plan
    made: Made
    kernels: tuple[str, ...]

    def variant(self, slot: Slot) -> Variant | None:
        """Return the variant of a slot, or None where the plan has none."""
        case, kernel, place = slot
        names = self.plan.kernels_of(case)
        found = self.plan.variants_of(case, names[kernel]) if kernel < len(names) else ()
        return found[place] if place < len(found) else None


def slot_of(plan: StatedPlan, variant: StatedVariant) -> Slot:
    """Return which variant of a plan this is, whatever its kernel is called."""
    return variant.case, plan.kernels_of(variant.case).index(variant.kernel), variant.place


class Replanner:
    """Plans of one spec. The same device is planned once."""

    def __init__(self, spec: Spec, device: Device) -> None:
        self.spec = spec
        self._before = run(spec, device, stop_after=_BEFORE_DEVICE).made
        self._planned: dict[Device, Planned | None] = {}
        self._stated: dict[Device, StatedPlan] = {}

    def planned(self, device: Device) -> Planned | None:
        """Return the plan on a device, or None where no candidate of a kernel is legal or kgen does not cover it."""
        if device not in self._planned:
            try:
                made = run(self.spec, device, stop_after="plan", known=self._before).made
                self._planned[device] = _planned(device, made)
            except KgenError:
                self._planned[device] = None
        return self._planned[device]

    def with_kernels_of(self, other: Planned, device: Device) -> Planned:
        """Return the plan on a device of the kernels that another plan has. Raises `NoLegalCandidateError`."""
        known = {**self._before, "partition": other.made["partition"]}
        return _planned(device, run(self.spec, device, stop_after="plan", known=known).made)

    def stated(self, device: Device) -> StatedPlan:
        """Return the plan on a device as a package would state it; raises what `emit` does."""
        if device not in self._stated:
            planned = self.planned(device)
            made = run(self.spec, device, known=self._before if planned is None else planned.made).made
            document = json.loads(made[STAGES[-1].name][PLAN_FILE])
            self._stated[device] = plan_of_document(document, f"{self.spec.name} planned here for {device.name}")
        return self._stated[device]


def _planned(device: Device, made: Made) -> Planned:
    first = next(iter(made["partition"].values()))
    lines = (line for problem in first.problems for line in str(problem).splitlines())
    return Planned(device, made["plan"], made, tuple(kernel_texts(lines)))
