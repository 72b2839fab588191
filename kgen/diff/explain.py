"""Two plans of one package, compared and explained as far as the compiler at hand reaches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from kgen.diff.changes import Change, Level, is_turned, plan_changes, variant_changes
from kgen.diff.choices import fed_by, judge
from kgen.diff.documents import StatedPlan, StatedVariant
from kgen.diff.figures import differing
from kgen.diff.kernels import kernels_reason, stated_kernels_reason
from kgen.diff.reasons import Cause, Reason, Turn
from kgen.diff.replan import Planned, Replanner, Slot, slot_of
from kgen.diff.sides import Pair
from kgen.diff.stated import stated_reason
from kgen.diff.turns import Sign, choice_sign, kernels_sign, turn_of
from kgen.planning.plan import Variant
from kgen.target import Device


class Standing(StrEnum):
    """What the compiler at hand makes of a side's spec and device."""

    SAME = "the compiler at hand plans the same"
    OTHER = "the compiler at hand plans otherwise: another version made it, or another device file"
    OTHER_INPUT = "the spec at hand is not what it was made of"
    UNKNOWN = "not planned anew"


@dataclass(frozen=True, slots=True)
class Known:
    """A side planned by the compiler at hand, and how what was read stands to that."""

    standing: Standing
    planned: Planned

    @property
    def device(self) -> Device:
        """The device that it is planned for."""
        return self.planned.device

    @property
    def is_same(self) -> bool:
        """Whether what was read is what the compiler at hand makes."""
        return self.standing is Standing.SAME


@dataclass(frozen=True, slots=True)
class Anew:
    """Both sides of a package planned anew."""

    replanner: Replanner
    a: Known
    b: Known

    @property
    def are_same(self) -> bool:
        """Whether both sides are what the compiler at hand makes."""
        return self.a.is_same and self.b.is_same


@dataclass(frozen=True, slots=True)
class VariantDiff:
    """A variant of both plans, or of the only one that has it."""

    case: str
    kernel: int  # its number in launch order
    a: str | None
    b: str | None
    changes: tuple[Change, ...]
    reason: Reason | None
    turn: Turn | None

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "case": self.case,
            "kernel": self.kernel,
            "a": self.a,
            "b": self.b,
            "changes": [change.to_json() for change in self.changes],
            "reason": None if self.reason is None else self.reason.to_json(),
            "turned_by": None if self.turn is None else self.turn.to_json(),
        }


@dataclass(frozen=True, slots=True)
class PackageDiff:
    """A package of both sides. `changes`, `reason` and `turn` are of its kernels; the rest is by variant."""

    pair: Pair
    changes: tuple[Change, ...] = ()
    reason: Reason | None = None
    turn: Turn | None = None
    variants: tuple[VariantDiff, ...] = ()
    standings: tuple[Standing, ...] = ()
    note: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.changes or self.variants) and None not in (self.pair.a, self.pair.b)

    @property
    def is_turned(self) -> bool:
        """Whether the plan is another one: other kernels, or another choice."""
        return is_turned(self.changes) or any(is_turned(v.changes) for v in self.variants)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """All reasons: of its kernels, then of its variants."""
        found = (self.reason, *(v.reason for v in self.variants))
        return tuple(reason for reason in found if reason is not None)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        sides = {"a": self.pair.a, "b": self.pair.b}
        return {
            "name": self.pair.name,
            **{side: None if p is None else {"device": p.device, "origin": p.origin} for side, p in sides.items()},
            "equal": self.is_equal,
            "turned": self.is_turned,
            "planned_anew": [str(standing) for standing in self.standings],
            "note": self.note or None,
            "changes": [change.to_json() for change in self.changes],
            "reason": None if self.reason is None else self.reason.to_json(),
            "turned_by": None if self.turn is None else self.turn.to_json(),
            "variants": [variant.to_json() for variant in self.variants],
        }


def known_side(stated: StatedPlan, here: StatedPlan, planned: Planned) -> Known:
    """Return how a side stands to `here`, what the compiler at hand states of the same spec and device."""
    if stated.kernels and stated.signature != here.signature:
        return Known(Standing.OTHER_INPUT, planned)
    if stated.inputs is not None and stated.kernels == here.kernels and stated.inputs != here.inputs:
        return Known(Standing.OTHER_INPUT, planned)
    same = _choices(stated) == _choices(here) and (not stated.kernels or stated.kernels == here.kernels)
    return Known(Standing.SAME if same else Standing.OTHER, planned)


def _choices(plan: StatedPlan) -> list[object]:
    return [(v.case, v.kernel, v.place, v.choice.choices, v.choice.raster) for v in plan.variants]


def explained(pair: Pair, anew: Anew | None, note: str = "") -> PackageDiff:
    """Return what differs in one package, and why; `note` says why nothing was planned anew."""
    a, b = pair.a, pair.b
    if a is None or b is None:
        return PackageDiff(pair, note=f"only in {'B' if a is None else 'A'}")
    changes = plan_changes(a, b)
    standings = () if anew is None else (anew.a.standing, anew.b.standing)
    diff = PackageDiff(pair, changes, standings=standings, note=note)
    other_input = _input_reason(a, b, standings)
    if any(change.level is Level.KERNELS for change in changes):
        reason, turn = (other_input, None) if other_input is not None else _kernels(a, b, anew)
        return replace(diff, reason=reason, turn=turn)
    found = _variants(a, b, None if other_input is not None else anew)
    diff = replace(diff, variants=tuple(v for v in found if v.changes))
    if other_input is not None:
        plain = tuple(replace(v, reason=None) for v in diff.variants)
        return diff if diff.is_equal else replace(diff, reason=other_input, variants=plain)
    if not diff.is_turned and any(change.level is Level.TEXT for change in changes):
        return replace(diff, reason=_text_reason(a, b))
    return diff


def _input_reason(a: StatedPlan, b: StatedPlan, standings: tuple[Standing, ...]) -> Reason | None:
    """Return that the sides are of other inputs, so that their choices answer other questions; None where they are not.

    Two of one input that the spec at hand is no longer are compared all the same.
    """
    if a.kernels and b.kernels and (odd := sorted(a.signature ^ b.signature)):
        return Reason(Cause.INPUT, f"made of other inputs: {'; '.join(odd)}")
    if Standing.OTHER_INPUT not in standings or a.inputs == b.inputs:
        return None
    text = "made of other inputs: the reference, the cases, the tolerance, the incumbent or the fixed axes differ"
    return Reason(Cause.INPUT, text)


def _kernels(a: StatedPlan, b: StatedPlan, anew: Anew | None) -> tuple[Reason, Turn | None]:
    if anew is None or not anew.are_same:
        return stated_kernels_reason((a.cut, b.cut)), None
    return kernels_reason(anew.replanner, anew.a.planned, anew.b.planned), _turn(anew, kernels_sign)


def _variants(a: StatedPlan, b: StatedPlan, anew: Anew | None) -> Iterator[VariantDiff]:
    first, second = ({slot_of(plan, v): v for v in plan.variants} for plan in (a, b))
    for slot in dict.fromkeys((*first, *second)):
        mine, other = first.get(slot), second.get(slot)
        if mine is None or other is None:
            yield _only_one(slot, mine, other)
            continue
        changes = variant_changes(mine, other)
        reason = turn = None
        if is_turned(changes):
            reason = _reason(slot, mine, other, anew)
            turn = None if anew is None else _turn(anew, choice_sign(slot))
        yield VariantDiff(slot[0], slot[1], mine.name, other.name, changes, reason, turn)


def _only_one(slot: Slot, a: StatedVariant | None, b: StatedVariant | None) -> VariantDiff:
    mine, other = (None if v is None else v.name for v in (a, b))
    text = f"{'B' if a is None else 'A'} alone has a variant for base addresses that its first one does not take"
    change = Change(Level.CHOICE, "variant", mine, other)
    return VariantDiff(slot[0], slot[1], mine, other, (change,), Reason(Cause.GUARD, text), None)


def _reason(slot: Slot, a: StatedVariant, b: StatedVariant, anew: Anew | None) -> Reason:
    """Return A's choice judged on B, or B's on A where only A is what the compiler at hand makes."""
    if anew is None:
        return stated_reason(a, b)
    if anew.b.is_same and (variant := anew.b.planned.variant(slot)) is not None:
        return _judged(a, variant, anew.b.device, anew.a.device, "A's")
    if anew.a.is_same and (variant := anew.a.planned.variant(slot)) is not None:
        return _judged(b, variant, anew.a.device, anew.b.device, "B's")
    return stated_reason(a, b)


def _judged(judged: StatedVariant, variant: Variant, device: Device, other: Device, whose: str) -> Reason:
    """Return a side's choice judged on the other side's variant and device; `other` is the device it was made for."""
    choice = judged.choice.choices
    reason = judge(choice, variant, device, whose)
    if other == device:
        return _with_old_prediction(reason, judged)
    if reason.cause is not Cause.TERM or other.arch.isa != device.arch.isa:
        return reason
    return replace(reason, fed_by=fed_by(choice, variant, device, other, differing(other, device)))


def _with_old_prediction(reason: Reason, variant: StatedVariant) -> Reason:
    """Return a reason with what the other version predicted for its own choice, where the compiler at hand differs."""
    told, now = variant.choice.time_us, reason.judged
    if now is not None and now.time_us == told:
        return reason
    return replace(reason, text=f"{reason.text}; the version that chose it predicted {told:.2f} us")


def _turn(anew: Anew, sign: Sign) -> Turn | None:
    """Return which figures turn something, where both plans are made here, for two devices of one instruction set."""
    a, b = anew.a.planned, anew.b.planned
    if not anew.are_same:
        return None
    if a.device == b.device or a.device.arch.isa != b.device.arch.isa or sign(a) == sign(b):
        return None
    return turn_of(anew.replanner, a, b, sign)


def _text_reason(a: StatedPlan, b: StatedPlan) -> Reason:
    names = [n for n in dict.fromkeys((*a.templates, *b.templates)) if a.templates.get(n) != b.templates.get(n)]
    if names:
        return Reason(Cause.TEXT, f"the same plan, printed by another {', another '.join(names)}")
    if a.inputs != b.inputs:
        return Reason(Cause.INPUT, "the same plan of another input: reference, inputs, cases, tolerance or fixed axes")
    return Reason(Cause.TEXT, "the same plan, input and templates: the compiler's own code prints another text")
