"""The steps of a probe in their order: facts, measurements, description, file."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kgen.errors.probe import NoGpuToProbeError
from kgen.exchange import write_whole
from kgen.probe.compare import Difference, differences, shipped_of
from kgen.probe.describe import Described, arch_of, check_said, describe
from kgen.probe.driver import Facts, find_facts
from kgen.probe.measure import Measurement, measure
from kgen.probe.sizes import request_of
from kgen.probe.text import check_place, device_text
from kgen.target import Device, all_arches, all_devices, load_device


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found: the device as its file loads, what the file is made of, and the shipped file beside it."""

    device: Device
    text: str
    facts: Facts
    measured: Measurement
    described: Described
    shipped: Device | None
    differences: tuple[Difference, ...]
    file: Path | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "file": None if self.file is None else str(self.file),
            "device": self.device.to_json(),
            "driver": self.facts.to_json(),
            "measurement": self.measured.to_json(),
            "missing": [{"name": m.name, "reason": m.reason} for m in self.described.missing],
            "taken_over_from": self.described.nearest,
            "shipped": None if self.shipped is None else self.shipped.name,
            "differences": [difference.to_json() for difference in self.differences],
            "text": self.text,
            "seconds": round(self.seconds, 1),
        }


def probe(out: Path | None, step: Callable[[str], object]) -> Probed:
    """Probe the first GPU that the drivers show, and write its device file; `step` is told what comes next.

    Raises `NoGpuToProbeError` where there is none. What cannot be written is refused before anything is measured.
    """
    started = time.monotonic()
    if out is not None:
        check_place(out)
    step("drivers are asked")
    found = find_facts()
    if not found:
        raise NoGpuToProbeError()
    facts, known = found[0], all_devices()
    arch = arch_of(facts, all_arches())
    check_said(facts)
    measured = measure(facts, request_of(facts, arch), step)
    described = describe(facts, measured, arch, known, datetime.now(UTC).date().isoformat())
    text = device_text(described)
    device = _loaded(text, "probed.yaml" if out is None else out.name)
    if out is not None:
        write_whole(out, text.encode())
    shipped = shipped_of(facts.name, facts.isa, known)
    differ = () if shipped is None else differences(shipped, device)
    return Probed(device, text, facts, measured, described, shipped, differ, out, time.monotonic() - started)


def _loaded(text: str, name: str) -> Device:
    """Return the device as every command will load it: nothing is written that does not load."""
    with tempfile.TemporaryDirectory(prefix="kgen-probe-") as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8")
        return load_device(file)
