"""Which figures of a device turn a choice: A's device is planned for with one figure of B's at a time, then with fewer.

A counterfactual is computed on whole programs: what the plan becomes, with all that its variants share, is what counts.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from kgen.diff.figures import Figure, differing, with_figures
from kgen.diff.reasons import Turn
from kgen.diff.replan import Planned, Replanner, Slot
from kgen.planning.candidates import RankedGemm

Sign = Callable[[Planned], Hashable]  # what is asked of a plan: its kernels, or the choice of a slot


def kernels_sign(planned: Planned) -> Hashable:
    """Return which kernels a plan has."""
    return planned.kernels


def choice_sign(slot: Slot) -> Sign:
    """Return what tells which choice a slot has, the order of its tiles included."""

    def sign(planned: Planned) -> Hashable:
        variant = planned.variant(slot)
        if variant is None:
            return None
        raster = variant.choice.raster if isinstance(variant.choice, RankedGemm) else None
        return variant.choice.candidate.choices, raster

    return sign


@dataclass(frozen=True, slots=True)
class _Experiment:
    """A's device with figures of B's in it, planned."""

    replanner: Replanner
    a: Planned
    b: Planned

    def sign_with(self, names: frozenset[str], sign: Sign) -> Hashable:
        device = with_figures(self.a.device, self.b.device, sorted(names))
        planned = self.replanner.planned(device)
        return None if planned is None else sign(planned)


def turn_of(replanner: Replanner, a: Planned, b: Planned, sign: Sign) -> Turn:
    """Return which figures turn what is asked of two plans, and that differs between them."""
    experiment, figures = _Experiment(replanner, a, b), differing(a.device, b.device)
    at_a, at_b = sign(a), sign(b)
    found = {figure: experiment.sign_with(frozenset({figure.name}), sign) for figure in figures}
    alone = tuple(figure for figure, made in found.items() if made == at_b)
    away = tuple(figure for figure, made in found.items() if made not in (at_a, at_b))
    together = () if alone else _together(experiment, figures, sign, quiet=frozenset(figures) - set(away))
    return Turn(alone, away, together)


def _together(
    experiment: _Experiment, figures: tuple[Figure, ...], sign: Sign, quiet: frozenset[Figure]
) -> tuple[Figure, ...]:
    """Return figures that turn a choice together and not without any one: all of them, less what is not needed.

    Those that change nothing alone are the first to be left out. Empty where all together do not turn it.
    """
    wanted = sign(experiment.b)
    needed = list(figures)
    if experiment.sign_with(frozenset(f.name for f in needed), sign) != wanted:
        return ()
    for figure in sorted(figures, key=lambda f: f not in quiet):
        fewer = [f for f in needed if f != figure]
        if experiment.sign_with(frozenset(f.name for f in fewer), sign) == wanted:
            needed = fewer
    return tuple(needed)
