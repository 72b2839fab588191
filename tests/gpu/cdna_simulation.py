"""Programs as CDNA kernels in kgen's simulator: what the scripts `cdna_programs.py` and `cdna_mixed.py` share.

A script emits the kernel.py of each program, then calls itself in a subprocess, as FlyDSL is for one arch a process;
there each kernel is compiled and its machine code executed, in two orders of waves and with two patterns in what
nothing has written: the results have to be the same bytes, and right, and the simulator may find nothing (races,
missing waits, accesses out of bounds).
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch
from compare import bits, tensors_of

from kgen.target import Device, load_device

Made = list[tuple[torch.Tensor, torch.Tensor]]


class Simulated(Protocol):
    """A program as the simulator runs it."""

    def make(self) -> tuple[Made, list[torch.Tensor]]:
        """Return fresh inputs, each with the memory it lies in, and fresh tensors that the kernel takes after them."""

    def updated(self, tensors: list[torch.Tensor], hidden: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return those of them that the program writes."""

    def wrong(self, out: Any, tensors: list[torch.Tensor], hidden: list[torch.Tensor]) -> list[str]:
        """Return what is wrong with a result, and with what the program has written."""


class Simulation:
    """This process as the host of kernels in the simulator."""

    def __init__(self, device: Device) -> None:
        from kgen.check.flydsl.capture import captured
        from kgen.check.flydsl.device import SimulatedDevice
        from kgen.check.flydsl.executor import Executor
        from kgen.check.flydsl.hip import HipStub
        from kgen.check.flydsl.stand_ins import hip_stub

        self.device, self.memory = device, SimulatedDevice(device)
        self.stack = ExitStack()  # what is captured stays so until the process ends
        compiles = self.stack.enter_context(captured())
        self.executor = Executor(lambda on_launch: HipStub(hip_stub(), on_launch), compiles)

    def faults(self, p: Simulated, kernel: ModuleType) -> list[str]:
        """Run a program under each of the free choices; return what is wrong."""
        from kgen.check.flydsl.executor import CHOICES

        found, results = list[str](), list[list[torch.Tensor]]()
        for choice in CHOICES:
            made, hidden = p.make()
            tensors = [tensor for tensor, _ in made]
            self.memory.clear()
            self.memory.put(*(base for _, base in made), *tensors, *hidden)
            with self.executor.on(self.memory, choice):
                out = kernel.kernel(*tensors, *hidden)
            for execution in self.executor.take_executions():
                found += [str(finding) for finding in execution.report.findings] if execution.report else []
            results.append([bits(x).clone() for x in (*tensors_of(out), *p.updated(tensors, hidden))])
        if any(not torch.equal(one, other) for one, other in zip(*results, strict=True)):
            found.append("the results depend on the order of waves, or on what nothing has written")
        return found + p.wrong(out, tensors, hidden)


@dataclass(frozen=True, slots=True)
class Script:
    """A script of this kind: its file, what its programs are called, and how each is emitted and loaded.

    `emit` writes a program into `folder / f"p{index}.py"`, and what `load` reads of it beside that file.
    """

    file: Path
    labels: Mapping[int, str]
    emit: Callable[[int, Device, Path], None]
    load: Callable[[int, Device, Path], Simulated]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what these scripts have in common."""
    parser.add_argument("--target", default="mi300x")
    parser.add_argument("--only", type=int, nargs="+", help="indices of programs")
    parser.add_argument("--simulate", type=Path, help="a folder of emitted kernels: the subprocess")


def answer(script: Script, arguments: argparse.Namespace, indices: Sequence[int]) -> int:
    """Do what the command line says with the chosen programs; return the exit status."""
    if arguments.simulate:
        _simulate(script, arguments.simulate, arguments.target, indices)
        return 0
    return _run(script, arguments.target, indices)


def _simulate(script: Script, folder: Path, target: str, indices: Sequence[int]) -> None:
    """Simulate programs that were emitted, one JSON line each: the program of the subprocess."""
    torch.set_grad_enabled(False)
    simulation = Simulation(load_device(target))
    for index in indices:
        try:
            p = script.load(index, simulation.device, folder)
            faults = simulation.faults(p, _loaded(folder / f"p{index}.py"))
        except Exception as error:
            faults = [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        print(json.dumps({"index": index, "faults": faults}), flush=True)


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _run(script: Script, target: str, indices: Sequence[int]) -> int:
    """Emit programs, simulate them, and print what is wrong; return 1 if anything is."""
    device = load_device(target)
    with tempfile.TemporaryDirectory() as folder:
        for index in indices:
            script.emit(index, device, Path(folder))
        rows = _simulated(script, Path(folder), device, indices)
    for row in rows:
        if row["faults"]:
            print(script.labels.get(row["index"], "the compiler"), *row["faults"][:3], sep="\n  ")
    wrong = sum(bool(row["faults"]) for row in rows)
    print(f"{len(indices)} programs on {target}, {wrong} wrong")
    return 1 if wrong else 0


def _simulated(script: Script, folder: Path, device: Device, indices: Sequence[int]) -> list[dict[str, Any]]:
    """Simulate programs in a process of their own; return a row for each, and one for what the compiler said."""
    from kgen.check.flydsl.stand_ins import rocm_path
    from kgen.check.flydsl.toolchain import cross_environment

    options = ["--target", device.name, "--simulate", str(folder), "--only", *map(str, indices)]
    command = [sys.executable, str(script.file), *options]
    environment = {**os.environ, **cross_environment(device.arch.isa, rocm_path())}
    with (folder / "stderr").open("w+", encoding="utf-8") as stderr:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
        stderr.seek(0)
        errors = [line for line in stderr if "error:" in line]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"index"')]
    missing = [i for i in indices if i not in {row["index"] for row in rows}]
    rows += [{"index": i, "faults": [f"not reached, exit status {done.returncode}"]} for i in missing]
    return rows + ([{"index": -1, "faults": errors}] if errors else [])
