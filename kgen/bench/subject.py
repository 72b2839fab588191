"""The package under measurement: its facts, its second arm, the GPU, and the device file that judges its speeds.

Only files are read and the driver is asked; nothing of the package is imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kgen.bench.gpu_lock import lock_of
from kgen.bench.incumbent import Opponent, kernel_arm, opponent_of
from kgen.bench.measure import TURNS, Request
from kgen.bench.plan_facts import PlanFacts, ShapeCase, read_plan, read_shapes
from kgen.check.gpu import Gpu
from kgen.check.hardware import device_of
from kgen.check.match import match_gpus
from kgen.check.on_device import require_gpu
from kgen.check.package import PackageFolder, read_package
from kgen.target import Device, all_devices, load_device

# An output of so few bits rounds more than any tolerance says: the incumbent's own output decides.
LOSSY_BITS = 8
_BITS = {"bool": 8, "int8": 8, "uint8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}


@dataclass(frozen=True, slots=True)
class Bench:
    """A package under measurement: its facts, its second arm, and the device file that judges its speeds."""

    package: PackageFolder
    plan: PlanFacts
    shapes: Mapping[str, ShapeCase]
    opponent: Opponent
    device: Device
    gpu: Gpu

    @property
    def gauge(self) -> str:
        """The case that iterations are judged by: the smallest one by predicted time."""
        timed = [case for case in self.shapes if has_work(self.plan, case)] or list(self.shapes)
        return min(timed, key=self.plan.predicted_us)

    def request(self, case: str, turns: int = TURNS) -> Request:
        """Return the comparison of one case."""
        shape = self.shapes[case]
        return Request(
            case=case,
            first=kernel_arm(self.package.folder, shape),
            second=self.opponent.for_case(shape),
            inputs=str((self.package.folder / "input.py").resolve()),
            input_kwargs=shape.input_kwargs,
            bytes=self.plan.work[case].bytes,
            limit=max(self.plan.tolerance.rel_err, 1e-6),
            decides=any(_BITS.get(o.dtype, 16) <= LOSSY_BITS for o in self.plan.outputs),
            lock=str(lock_of(self.gpu).path),
            turns=turns,
        )


def open_bench(folder: Path) -> Bench:
    """Read a package for measurement; raises `NoGpuError` where no GPU of this machine runs it."""
    package, plan, shapes = read_package(folder), read_plan(folder), read_shapes(folder)
    gpu = require_gpu(package)
    device = _judge(package, gpu).with_measured(compute_units=gpu.compute_units)
    return Bench(package, plan, shapes, opponent_of(folder, plan, shapes), device, gpu)


def _judge(package: PackageFolder, gpu: Gpu) -> Device:
    """Return the device that speeds are judged by: the one the package brings along, else the one the GPU is."""
    planned = device_of(package)
    if planned.text:
        return planned
    (match,) = match_gpus([gpu], all_devices())
    return planned if match.device is None else load_device(match.device)


def has_work(plan: PlanFacts, case: str) -> bool:
    """Return whether there is anything to time: an empty output launches nothing."""
    return plan.work[case].bytes_written > 0
