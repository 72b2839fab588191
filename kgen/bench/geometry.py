"""Launch geometry of a case: the plan's CTAs on the units that were read from the device, and what is lost to tails.

Stated before any other explanation of a gap: a part-filled last grid wave needs no control run to be believed.
"""

from kgen.bench.plan_facts import PlanFacts
from kgen.bench.report import Geometry
from kgen.bench.utilization import Grid, grid_waves
from kgen.target import Device


def geometry_of(plan: PlanFacts, case: str, device: Device, compute_units: int) -> Geometry | None:
    """Return the grid waves of a case's slowest kernel, or None where nothing is launched."""
    variant = plan.slowest_of(case)
    choice = variant.choice
    if choice.ctas < 1:
        return None
    found = grid_waves(device, Grid(choice.ctas, choice.derived.ctas_per_unit, compute_units))
    return Geometry(
        variant=variant.name,
        ctas=found.ctas,
        ctas_per_unit=found.ctas_per_unit,
        compute_units=compute_units,
        slots=found.slots,
        waves=found.waves,
        last_wave=found.last_wave,
        efficiency=found.efficiency,
        statement=_statement(found.ctas, compute_units, found.slots, found.waves, found.last_wave),
    )


def _statement(ctas: int, units: int, slots: int, waves: int, last_wave: int) -> str:
    room = f"{slots} run at once on the {units} units read from the device"
    if waves == 1:
        return f"{ctas} CTAs, {room}: one grid wave, {ctas / slots:.1%} full; {1 - ctas / slots:.1%} of the units idle"
    idle = 1 - ctas / (waves * slots)
    quantization = f"wave quantization explains at most {idle:.1%} of the time" if idle else "no wave quantization"
    return f"{ctas} CTAs, {room}: {ctas} / {slots} = {waves} grid waves, the last with {last_wave}; {quantization}"
