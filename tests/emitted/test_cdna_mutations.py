"""Mutations of compiled machine code: without any one of its waits or barriers, a product is found to be wrong.

The kernel is FlyDSL's compile of cdna_packages/small_gemm. Each mutation deletes one instruction from the ISA text.
"""

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cdna_fixtures
import numpy as np
import pytest

from kgen.check.hardware import isa_of, toolchain_of
from kgen.check.package import read_package
from kgen.simulator import Buffer, FindingKind, InstructionClass, Poison, Report, WaveOrder, simulate

pytestmark = pytest.mark.emitted
RECORDER = Path(__file__).with_name("cdna_recorder.py")


@dataclass(frozen=True)
class Recording:
    """A launch as kgen.check simulated it."""

    isa_text: str
    launch: Any
    buffers: list[tuple[int, np.ndarray, str]]

    def simulate(self, isa_text: str | None = None, **choice: Any) -> tuple[Report, list[bytes]]:
        """Simulate the launch, or the same of another text; return the report and what the buffers hold then."""
        buffers = [Buffer(address, data.copy(), name) for address, data, name in self.buffers]
        report = simulate(isa_text or self.isa_text, self.launch, buffers, **choice)
        return report, [buffer.data.tobytes() for buffer in buffers]

    def without(self, line: int) -> str:
        """Return the text without one of its lines, numbered from 1."""
        lines = self.isa_text.splitlines()
        lines[line - 1] = ""
        return "\n".join(lines)


@pytest.fixture(scope="module", params=["mi300x", "mi355x"])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Compile the package and record its largest launch, in a process of its own."""
    folder = tmp_path_factory.mktemp(request.param)
    package = read_package(cdna_fixtures.write("small_gemm", request.param, folder / "small_gemm"))
    toolchain = toolchain_of(package)
    simulator = toolchain.simulator()
    assert simulator is not None
    file = folder / "launch.pickle"
    done = subprocess.run(
        [sys.executable, "-P", RECORDER, file],
        env=simulator.environment(isa_of(package)),
        input=json.dumps(simulator.request(package)) + "\n",
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert file.exists(), done.stderr
    return Recording(*pickle.loads(file.read_bytes()))


def test_the_compiled_product_is_right_whatever_is_free(recording: Recording) -> None:
    runs = [recording.simulate(wave_order=order, poison=poison) for order in WaveOrder for poison in Poison]
    assert not any(report.findings for report, _ in runs)
    assert all(memory == runs[0][1] for _, memory in runs)
    assert runs[0][1] != [data.tobytes() for _, data, _ in recording.buffers]


def test_every_wait_that_is_executed_is_missed(recording: Recording) -> None:
    waits = recording.simulate()[0].counts.waits
    assert len(waits) > 5
    for wait in waits:
        report, _ = recording.simulate(recording.without(wait.line))
        kinds = {finding.kind for finding in report.findings}
        assert kinds & {FindingKind.MISSING_WAIT, FindingKind.LDS_RACE}, recording.isa_text.splitlines()[wait.line - 1]


@pytest.mark.parametrize("order", WaveOrder)
def test_every_barrier_is_missed_but_the_last(recording: Recording, order: WaveOrder) -> None:
    """Behind the last barrier no wave touches LDS: without it the kernel is as right."""
    counts = recording.simulate()[0].counts.instructions
    barriers = [count.line for count in counts if count.unit is InstructionClass.BARRIER and count.executed]
    last_access = max(count.line for count in counts if count.unit is InstructionClass.LDS)
    assert [line for line in barriers if line > last_access] == barriers[-1:]
    for line in barriers:
        report = recording.simulate(recording.without(line), wave_order=order)[0]
        assert bool(report.races) is (line < last_access), line


def test_lds_is_accessed_without_bank_conflicts(recording: Recording) -> None:
    counts = recording.simulate()[0].counts
    assert counts.flops == 4 * 2 * 64 * 64 * 192  # four tiles, the ragged ones whole
    assert counts.lds_bytes > 0
    assert counts.bank_conflict_cycles == 0
