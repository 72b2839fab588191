"""What there is to do, cut into tasks: values that a process on any machine takes, and what it gives back.

A task names no path: a spec travels as a value, a package as its bytes. Whoever does it writes nothing that lasts, so
it may be killed, or done twice, at any time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kgen.records import Record
from kgen.spec.model import Spec
from kgen.target import Device


class Step(StrEnum):
    """The steps of a package, in their order."""

    EMIT = "emit"  # planned and rendered; no GPU
    CHECK = "check"  # compiled, its machine code read, simulated where something simulates it; no GPU
    TEST = "test"  # its test ran on a GPU
    BENCH = "bench"  # tested and measured on a GPU

    @property
    def needs_gpu(self) -> bool:
        """Whether it runs only where the package's device is."""
        return self in (Step.TEST, Step.BENCH)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a package comes from: the fields that all its records share."""

    spec: str
    spec_digest: str
    device: str
    device_digest: str
    probe: str | None
    kgen: str

    def fields(self) -> dict[str, Any]:
        """Return them by their names in a record."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class EmitTask:
    """One spec for some devices: it is traced once. `origins` are those of the packages, in the order of `devices`."""

    spec: Spec
    devices: tuple[Device, ...]
    origins: tuple[Origin, ...]
    step = Step.EMIT


@dataclass(frozen=True, slots=True)
class PackageTask:
    """A later step of one package; `files` are its bytes, for BENCH with what was measured before."""

    step: Step
    device: Device
    origin: Origin
    files: Mapping[str, bytes]

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The origin of its only package."""
        return (self.origin,)


Task = EmitTask | PackageTask


@dataclass(frozen=True, slots=True)
class Made:
    """What a task made of one package: what is to be recorded, and files to be written.

    Of EMIT the files are the package, of BENCH its `measured/`. The records say whether it went well.
    """

    origin: Origin
    records: tuple[Record, ...]
    files: Mapping[str, bytes]
    seconds: Mapping[str, float]  # by stage or step


@dataclass(frozen=True, slots=True)
class Lost:
    """A task whose process ended, again and again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a task, whatever it is: what was made of each of its packages, or why nothing was."""

    task: Task
    outcome: tuple[Made, ...] | Lost
