"""One of several workers: simulates the tests of packages in its subprocess, which imports what they need once."""

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any

from kgen.check.command import ending_of
from kgen.check.event_process import EventProcess, ProcessEnded
from kgen.check.hardware import isa_of, toolchain_of
from kgen.check.kept_process import KeptProcess
from kgen.check.package import PackageFolder
from kgen.check.toolchains import Simulator

LIMIT_SECONDS = 900.0  # from one case to the next


@dataclass(frozen=True, slots=True)
class Simulated:
    """The events of the cases that were answered, and why there are no more where something went wrong."""

    cases: tuple[dict[str, Any], ...]
    failure: str | None


class SimulateWorker:
    """Simulates one package after the other; belongs to one thread at a time, but for `interrupt`."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS) -> None:
        """`limit_seconds` holds from one case to the next."""
        self._limit_seconds = limit_seconds
        self._kept = KeptProcess[EventProcess]()

    def simulate(self, package: PackageFolder) -> Simulated:
        """Run the test of a package in the simulator of its tool chain; a crash costs this package alone."""
        simulator = toolchain_of(package).simulator()
        assert simulator is not None
        isa = isa_of(package)
        process = self._kept.running((type(simulator), isa), partial(_started, simulator, isa))
        process.forget_stderr()
        cases, failure = [], None
        try:
            process.send(simulator.request(package))
            while (event := process.next_event(self._limit_seconds))["event"] != "done":
                match event.pop("event"):
                    case "case":
                        cases.append(event)
                    case "failed":
                        failure = f"the package's test could not run: {event['error']}"
                    case "ended":
                        failure = _ended(process, ending_of(event["status"]))
        except ProcessEnded as error:
            failure = _ended(process, error.ending)
            self.close()
        except BaseException:
            self.close()  # what it still has to say is of this request
            raise
        return Simulated(tuple(cases), failure)

    def interrupt(self) -> None:
        """End the subprocess from another thread, so that `simulate` returns at once, now and ever after."""
        self._kept.interrupt()

    def close(self) -> None:
        """End the subprocess and free what belongs to it."""
        self._kept.close()


def _started(simulator: Simulator, isa: str) -> EventProcess:
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the process closes it
    process = EventProcess(simulator.command(), simulator.environment(isa), stderr)
    process.wait_until_up()
    return process


def _ended(process: EventProcess, ending: str) -> str:
    return f"the simulating process ended ({ending})\n{process.stderr_tail()}".strip()
