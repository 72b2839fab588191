"""What two plans say of their choices by themselves, where the compiler at hand makes neither."""

from kgen.diff.documents import StatedChoice, StatedVariant
from kgen.diff.reasons import Cause, Reason


def stated_reason(a: StatedVariant, b: StatedVariant) -> Reason:
    """Return what each plan predicted, whether it knew the other's choice, and which rules only one of them had."""
    parts = [_predicted("A", a.choice), _predicted("B", b.choice)]
    parts.append(_known("A", a, b.choice))
    parts.append(_known("B", b, a.choice))
    for side, mine, other in (("A", a, b), ("B", b, a)):
        alone = [f"{rule} ({place}: {because})" for rule, (place, because) in mine.rejections.items()
                 if rule not in other.rejections]  # fmt: skip
        if alone:
            parts.append(f"only in {side} these rules removed candidates: {', '.join(alone)}")
    return Reason(Cause.STATED, "not planned anew; " + "; ".join(part for part in parts if part))


def _predicted(side: str, choice: StatedChoice) -> str:
    terms = sorted(((time, name) for name, time in choice.terms_us.items() if time), reverse=True)[:3]
    largest = ", ".join(f"{name} {time:.2f}" for time, name in terms)
    return f"{side} predicted {choice.time_us:.2f} us, bound by {choice.bound_by} ({largest})"


def _known(side: str, mine: StatedVariant, choice: StatedChoice) -> str:
    """Return what a plan says of the other's choice, as far as it is among its runners-up."""
    for rank, runner_up in enumerate(mine.runners_up, 2):
        if runner_up.choices == choice.choices:
            return f"{side} had the other choice at rank {rank}, predicted {runner_up.time_us:.2f} us"
    return ""
