"""`kgen diff` from its arguments to its answer: both sides read or planned, packages paired, each explained."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kgen.diff.documents import StatedPlan
from kgen.diff.explain import Anew, Known, PackageDiff, explained, known_side
from kgen.diff.replan import Replanner
from kgen.diff.sides import Pair, pairs_of, read_side
from kgen.errors.base import KgenError
from kgen.errors.diff import NoSideError, TargetsNumberError
from kgen.errors.target import UnknownDeviceError
from kgen.spec.load import load_spec
from kgen.spec.model import Spec
from kgen.target import Device, device_of_package, load_device

# How many packages there are -> what is called after each.
Progress = Callable[[int], AbstractContextManager[Callable[[str], None]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All packages of two sides."""

    a: str
    b: str
    packages: tuple[PackageDiff, ...]

    @property
    def is_equal(self) -> bool:
        """Whether no package differs."""
        return all(package.is_equal for package in self.packages)

    def counts(self) -> dict[str, int]:
        """Return how many packages are equal, differ in figures only, have another plan, or are on one side alone."""
        kinds = Counter(map(_kind, self.packages))
        return {kind: kinds[kind] for kind in ("equal", "figures", "turned", "alone")}

    def causes(self) -> dict[str, int]:
        """Return how many reasons there are of each cause, most frequent first."""
        found = Counter(str(reason.cause) for package in self.packages for reason in package.reasons)
        return dict(found.most_common())

    def turned_by(self) -> dict[str, int]:
        """Return how many choices each figure of the device turns, alone or with others."""
        turns = (t for p in self.packages for t in (p.turn, *(v.turn for v in p.variants)) if t is not None)
        return dict(Counter(f.name for turn in turns for f in (turn.alone or turn.together)).most_common())

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.is_equal,
            "counts": self.counts(),
            "causes": self.causes(),
            "turned_by": self.turned_by(),
            "packages": [package.to_json() for package in self.packages],
        }


def _kind(package: PackageDiff) -> str:
    if package.is_equal:
        return "equal"
    if None in (package.pair.a, package.pair.b):
        return "alone"
    return "turned" if package.is_turned else "figures"


def compare_sides(a: str, b: str, specs: Path, devices: Sequence[str], progress: Progress) -> Comparison:
    """Compare two sides as `read_side` takes them.

    Plans are made anew from the specs of the folder `specs`. Of a device that kgen does not ship `devices` names the
    file, or else the package carries it. Raises what reading the sides raises.
    """
    known = {device.name: device for device in map(load_device, devices)}
    first, second = read_side(a), read_side(b)
    pairs = pairs_of(first, second)
    found = []
    with progress(len(pairs)) as advance:
        for pair in pairs:
            found.append(_compared(pair, specs, known))
            advance(pair.name)
    return Comparison(a, b, tuple(found))


def compare_devices(specs: Sequence[Path], targets: Sequence[str], progress: Progress) -> Comparison:
    """Compare the plans of specs on two devices; a folder stands for all its specs. Raises what `emit` does.

    A spec that has no plan on a device is alone on the other side.
    """
    if len(targets) != 2:
        raise TargetsNumberError(count=len(targets), names=", ".join(targets) or "none")
    a, b = map(load_device, targets)
    loaded = [load_spec(file) for path in specs for file in _spec_files(path)]
    found = []
    with progress(len(loaded)) as advance:
        for spec in loaded:
            found.append(_on_devices(spec, a, b))
            advance(spec.name)
    return Comparison(a.name, b.name, tuple(found))


def _spec_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    files = sorted(path.glob("*.yaml"))
    if not files:
        raise NoSideError(path=path, reason="it holds no spec")
    yield from files


def _on_devices(spec: Spec, a: Device, b: Device) -> PackageDiff:
    replanner = Replanner(spec, a)
    stated: list[StatedPlan | None] = []
    refusals = []
    for device in (a, b):
        try:
            stated.append(replanner.stated(device))
        except KgenError as error:
            stated.append(None)
            refusals.append(f"{device.name}: {error.headline}")
    first, second = stated
    pair = Pair(spec.name, first, second)
    if first is None or second is None:
        return PackageDiff(pair, note="; ".join(refusals))
    known = (_known(replanner, plan, device) for plan, device in ((first, a), (second, b)))
    return explained(pair, Anew(replanner, *known))


def _compared(pair: Pair, specs: Path, devices: Mapping[str, Device]) -> PackageDiff:
    a, b = pair.a, pair.b
    if a is None or b is None:
        return explained(pair, None)
    try:
        on_a, on_b = (_device_of(plan, devices) for plan in (a, b))
        spec = load_spec(specs / f"{a.name}.yaml")
        replanner = Replanner(spec, on_a)
        return explained(pair, Anew(replanner, _known(replanner, a, on_a), _known(replanner, b, on_b)))
    except UnknownDeviceError as error:
        return explained(pair, None, f"not planned anew: {error.headline}; name its file with --targets")
    except KgenError as error:
        return explained(pair, None, f"not planned anew: {error.headline}")


def _device_of(plan: StatedPlan, devices: Mapping[str, Device]) -> Device:
    if plan.device in devices:
        return devices[plan.device]
    return load_device(plan.device) if plan.folder is None else device_of_package(plan.folder, plan.device)


def _known(replanner: Replanner, plan: StatedPlan, device: Device) -> Known:
    stated, planned = replanner.stated(device), replanner.planned(device)
    assert planned is not None, "what is stated is planned"
    return known_side(plan, stated, planned)
