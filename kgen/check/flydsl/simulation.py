"""The simulating process: one package's own test, with FlyDSL's host code and its kernels in the simulator.

Run as `python -P -m kgen.check.flydsl.simulation`, in the environment that `toolchain.cross_environment` makes. One
JSON request a line on standard input, `{"folder": path, "device": name, "hip": path}`; one JSON event a line on
standard output:
    {"event": "ready"}                     the subprocess is up
    {"event": "case", "case": id, ...}     the fields of `kgen.check.simulated.SimulatedCase`
    {"event": "failed", "error": text}     the package could not be loaded
    {"event": "ended", "status": number}   the package ended its process, with a status as `subprocess` gives it
    {"event": "done"}                      the request is finished
Each package has a process of its own, forked from this one, which has imported torch and FlyDSL once. What kernels
and compilers print goes to standard error.
"""

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from kgen.check.compile_runner import die_with_parent, load, open_channel, tell, told

# What every package needs and takes seconds to import; torch and FlyDSL start no threads of theirs by that.
IMPORTED = ("flydsl.compiler", "flydsl.expr", "kgen.check.flydsl.cases")
KERNEL = "kernel"  # the module under test, which is in the package's folder
FRESH_SEED = 20261  # of the second drawing of the inputs; a fixed one, so that a check repeats


def serve(request: dict[str, Any], channel: TextIO) -> None:
    """Tell the cases of one package, the ones with the least work first."""

    def send(**event: Any) -> None:
        tell(channel, event)

    try:
        for outcome in simulate_package(request):
            send(event="case", **outcome)
    except BaseException as error:
        send(event="failed", error=told(error))


def serve_apart(request: dict[str, Any], channel: TextIO) -> None:
    """Answer a request in a process of its own, forked from this one, and tell the end of it."""
    child = os.fork()
    if not child:
        die_with_parent()
        serve(request, channel)
        sys.stderr.flush()
        os._exit(0)  # nothing of the parent is to be cleaned up
    _, status = os.waitpid(child, 0)
    if status:
        tell(channel, {"event": "ended", "status": os.waitstatus_to_exitcode(status)})
    tell(channel, {"event": "done"})


def simulate_package(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each case; the first one is tested most thoroughly."""
    import torch

    from kgen.check.flydsl.capture import captured
    from kgen.check.flydsl.device import SimulatedDevice
    from kgen.check.flydsl.executor import Executor
    from kgen.check.flydsl.hip import HipStub
    from kgen.target import device_of_package

    if torch.version.hip is not None:
        raise RuntimeError(
            f"torch {torch.__version__} brings a HIP runtime of its own, which the simulator's cannot stand in for: "
            "simulate with the torch of PyPI or the one for CPUs, or run the package on a GPU"
        )
    torch.set_grad_enabled(False)
    folder = Path(request["folder"])
    with captured() as compiles:
        executor = Executor(lambda on_launch: HipStub(Path(request["hip"]), on_launch), compiles)
        test = load(str(folder / "test_kernel.py"), "test_kernel")
        device = SimulatedDevice(device_of_package(folder, request["device"]))
        yield from _cases(folder, test, executor, device)


def _cases(folder: Path, test: Any, executor: Any, device: Any) -> Iterator[dict[str, Any]]:
    from kgen.check.flydsl.cases import CaseOutcome, Subject, simulate_case

    _, arguments = test.parse(["--workspace", str(folder)])
    arguments.fresh_seed = FRESH_SEED
    cases = json.loads((folder / "shapes.json").read_text(encoding="utf-8"))
    sys.path.insert(0, str(folder))
    executor.name_variants(import_module(KERNEL))
    subject = Subject(test, executor, device, cases, arguments)
    for index, case in enumerate(sorted(cases, key=subject.work_of)):
        try:
            outcome = simulate_case(subject, case, is_first=index == 0)
        except Exception as error:
            outcome = CaseOutcome(case, failures=[f"{case}: {told(error)}"])
        yield outcome.to_json()


def main() -> None:
    """Answer requests until standard input ends."""
    channel = open_channel()  # before the imports, which take seconds: the parent waits for the first event
    for module in IMPORTED:
        import_module(module)
    for line in sys.stdin:
        serve_apart(json.loads(line), channel)


if __name__ == "__main__":
    main()
