"""Which kernel a package is compared with: the incumbent of its spec, or its own reference run eagerly."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kgen.bench.measure import ArmSource
from kgen.bench.plan_facts import PlanFacts, ShapeCase, StatedIncumbent
from kgen.bench.report import Incumbent
from kgen.errors.bench import IncumbentChangedError, IncumbentMissingError


@dataclass(frozen=True, slots=True)
class Opponent:
    """The second arm: what is called, and what the report says of it."""

    source: ArmSource
    said: Incumbent

    def for_case(self, case: ShapeCase) -> ArmSource:
        """Return the arm for one case: a class without arguments of its own is constructed as the reference is."""
        own = self.source.init_kwargs or case.init_kwargs or {}
        return ArmSource(self.source.file, self.source.module, self.source.entry, self.source.init_args, own)


def opponent_of(folder: Path, plan: PlanFacts, shapes: dict[str, ShapeCase]) -> Opponent:
    """Return the second arm of a package; raises `IncumbentMissingError` or `IncumbentChangedError`."""
    if plan.incumbent is not None:
        return _stated(folder, plan.incumbent)
    is_module = any(case.init_kwargs is not None for case in shapes.values())
    entry, file = "Model" if is_module else "reference", folder / "reference.py"
    said = Incumbent(origin=file.name, entry=entry, sha256=_digest(file), is_reference=True)
    return Opponent(ArmSource(str(file.resolve()), None, entry), said)


def _stated(folder: Path, stated: StatedIncumbent) -> Opponent:
    file = None if stated.file is None else folder / stated.file
    if file is not None and _digest(file) != stated.sha256:
        raise IncumbentChangedError(file=file)
    place = None if file is None else str(file.resolve())
    source = ArmSource(place, stated.module, stated.entry, stated.init_args, stated.init_kwargs)
    said = Incumbent(origin=stated.origin, entry=stated.entry, sha256=stated.sha256, is_reference=False)
    return Opponent(source, said)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise IncumbentMissingError(file=file) from None


def kernel_arm(folder: Path, case: ShapeCase) -> ArmSource:
    """Return the package's own kernel as an arm."""
    entry = "kernel" if case.init_kwargs is None else "Model"
    return ArmSource(str((folder / "kernel.py").resolve()), None, entry, (), case.init_kwargs)
