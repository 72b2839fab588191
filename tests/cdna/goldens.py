"""Golden packages too large to be simulated whole: their own kernel.py at full extents, on inputs that are mostly zero.

    python tests/cdna/goldens.py --target mi300x                    all that `kgen check` compares nothing of
    python tests/cdna/goldens.py --target mi355x --only full_sum_fp32

`kgen check` compares nothing of large launches that depend on one another, nor of tensors over 2 GiB. Here one
workgroup of the first launch runs, its first and then its last; the launches between run whole, of the last one the
corners of the grid and some in between. That proves something because of the inputs:

- they are zero but in what that one workgroup reads, and in what no workgroup of the first launch reads;
- the other workgroups of the first launch would thus all write what it writes when it reads zeros, one value for each
  buffer, which a run on zeros finds out; the buffers hold that value from the start.

The first workgroup has to read the first element of an input, the last one the last: a sum of all would be right of any
places. The result has to be the reference's wherever the last launch wrote, in two orders of waves and with two
patterns in never-written storage, with no finding. What the workgroups write that do not run is not shown here: the
same specs at small extents run whole (tests/emitted/test_cdna_specs.py). Memory that nothing touches is never made:
tensors of 4 GiB are zero pages. Every variant runs, one base after another.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch

from kgen.check.compile_runner import load
from kgen.check.flydsl import cases
from kgen.check.flydsl import executor as executing
from kgen.check.flydsl.capture import captured
from kgen.check.flydsl.device import SimulatedDevice
from kgen.check.flydsl.executor import CHOICES, Choice, Execution, Executor, chosen_workgroups
from kgen.check.flydsl.hip import HipStub
from kgen.check.flydsl.reference import AsOnGpu
from kgen.check.flydsl.stand_ins import hip_stub, rocm_path
from kgen.check.flydsl.toolchain import cross_environment
from kgen.simulator.global_memory import GlobalMemory
from kgen.target import load_device

GENERATED = Path(__file__).resolve().parents[2] / "generated"
LAST = 8  # workgroups of the last launch that run, at most
WHOLE = 512  # workgroups of a launch in between, which runs whole

Places = list[tuple[np.ndarray, int]]  # addresses, and the bytes of each access


class Touched(GlobalMemory):
    """Memory that remembers what was loaded from it and stored to it."""

    loads: ClassVar[Places] = []
    stores: ClassVar[Places] = []

    def load(self, addresses: Any, size: int, home: Any = None) -> Any:
        """Load, and note where."""
        self.loads.append((np.unique(addresses), size))
        return super().load(addresses, size, home)

    def store(self, addresses: Any, values: Any, workgroups: Any, home: Any = None) -> Any:
        """Store, and note where."""
        self.stores.append((np.unique(addresses), values.shape[1]))
        return super().store(addresses, values, workgroups, home)


@dataclass(slots=True)
class Launched:
    """Which workgroups of each launch of a call run, and what they touch; `first` is the one of the first launch."""

    count: int
    is_first: bool
    loads: list[Places] = field(default_factory=list)
    stores: list[Places] = field(default_factory=list)

    def chosen(self, grid: tuple[int, int, int], _: int | None) -> tuple[tuple[int, int, int], ...] | None:
        """Return the workgroups of the next launch."""
        Touched.loads, Touched.stores = [], []
        self.loads.append(Touched.loads)
        self.stores.append(Touched.stores)
        number = len(self.loads)
        if number == 1:
            x, y, z = grid
            return ((0, 0, 0),) if self.is_first else ((x - 1, y - 1, z - 1),)
        if number == self.count:
            return chosen_workgroups(grid, LAST)
        assert int(np.prod(grid)) <= WHOLE, f"launch {number} of {self.count} has {grid} workgroups"
        return None


def elements_of(places: Places, tensor: torch.Tensor) -> np.ndarray:
    """Return which elements of a tensor's memory, counted from its first one, lie in accesses."""
    size, start = tensor.element_size(), tensor.data_ptr()
    span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    found = [np.zeros(0, np.int64)]
    for addresses, width in places:
        at = addresses.astype(np.int64)[:, None] - start + np.arange(0, width, min(size, width))
        at = at[(at >= 0) & (at < span * size)] // size
        found.append(np.unique(at))
    return np.unique(np.concatenate(found))


def lazy(dtype: torch.dtype, shape: Any, stride: Any, offset: int = 0, value: torch.Tensor | None = None) -> Any:
    """Return a tensor whose first element lies `offset` elements beyond an aligned address: of zeros, or of a value."""
    span = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    memory = np.zeros((offset + span) * dtype.itemsize + 256, np.uint8)  # zero pages, until they are written to
    flat = torch.from_numpy(memory)[-memory.ctypes.data % 256 :]
    flat = flat[: (offset + span) * dtype.itemsize].view(dtype)
    if value is not None and bool(value.view(torch.uint8).any()):
        flat.fill_(value.item())
    return flat.as_strided(shape, stride, flat.storage_offset() + offset)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor from its first element on, in one axis."""
    span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((span,), (1,))


@dataclass(slots=True)
class Call:
    """A call: the tensors that it made, in order, those that it returned, its launches, and what they did."""

    made: list[torch.Tensor]
    results: list[torch.Tensor]
    executions: tuple[Execution, ...]
    launched: Launched


class Golden:
    """One golden package in this process."""

    def __init__(self, folder: Path, executor: Executor, device: SimulatedDevice) -> None:
        self.test: Any = load(str(folder / "test_kernel.py"), "test_kernel")
        _, self.arguments = self.test.parse(["--workspace", str(folder)])
        self.executor, self.device = executor, device
        self.cases = json.loads((folder / "shapes.json").read_text(encoding="utf-8"))

    def of_case(self, case: str) -> None:
        """Load function and reference."""
        kwargs = self.cases[case]
        self.function, self.reference = self.test.load(self.arguments.workspace, kwargs["init_kwargs"], 0, "cpu")
        module = import_module("input")
        self.layouts = module._layouts(**kwargs["input_kwargs"])
        self.ranges = module._ranges(**kwargs["input_kwargs"]) if hasattr(module, "_ranges") else {}
        state = self.function.state_dict() if isinstance(self.function, torch.nn.Module) else {}
        self.state = {name: tensor.clone() for name, tensor in state.items()}

    def inputs(self, offset: int) -> dict[str, torch.Tensor]:
        """Return inputs of zeros."""
        return {name: lazy(*layout, offset) for name, layout in self.layouts.items()}

    def call(
        self, inputs: dict[str, torch.Tensor], choice: Choice, launched: Launched, values: list[torch.Tensor]
    ) -> Call:
        """Call the function; what it makes holds `values`, in order, zeros where there are no more."""
        made: list[torch.Tensor] = []

        def empty_strided(shape: Any, stride: Any, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
            if str(device) == "meta":
                return original(shape, stride, dtype=dtype, device=device)
            made.append(lazy(dtype, shape, stride, 0, values[len(made)] if len(made) < len(values) else None))
            self.device.put(made[-1])
            return made[-1]

        def empty(count: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
            return empty_strided((count,), (1,), dtype=dtype, device=device)

        original = torch.empty_strided
        if self.state:
            self.function.load_state_dict(self.state)
        self.device.clear()
        self.device.put(*inputs.values(), *self.hidden())
        with (
            patch.object(executing, "chosen_workgroups", launched.chosen),
            patch.object(sys.modules["kgen.simulator.simulate"], "GlobalMemory", Touched),
            self.executor.on(self.device, choice),
            patch.multiple(torch, empty_strided=empty_strided, empty=empty),
        ):
            out = self.function(*inputs.values())
        return Call(made, list(self.test.tensors_in(out)), self.executor.take_executions(), launched)

    def hidden(self) -> list[torch.Tensor]:
        """Return the parameters and buffers of a module."""
        is_module = isinstance(self.function, torch.nn.Module)
        return [*self.function.parameters(), *self.function.buffers()] if is_module else []

    def fill(self, inputs: dict[str, torch.Tensor], zeros: Call, on_zeros: dict[str, torch.Tensor]) -> None:
        """Draw what the first launch's workgroup reads, and inputs that no workgroup of the first launch reads."""
        generator = torch.Generator().manual_seed(20261)
        for name, tensor in inputs.items():
            places = torch.from_numpy(elements_of(zeros.launched.loads[0], on_zeros[name]))
            if not len(places):
                places = torch.arange(flat(tensor).numel())
            if tensor.is_floating_point():
                values = torch.randn(len(places), generator=generator).to(tensor.dtype)
            else:
                low, high = self.ranges.get(name, (-8, 8))
                values = torch.randint(low, high, (len(places),), generator=generator).to(tensor.dtype)
            flat(tensor)[places] = values


def buffers_of(function: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the buffers of a module, which a call may update."""
    return [*function.named_buffers()] if isinstance(function, torch.nn.Module) else []


def expected_values(zeros: Call) -> list[torch.Tensor]:
    """Return what workgroups of the first launch that read zeros write into each tensor that was made: one value."""
    found = []
    for tensor in zeros.made:
        places = elements_of(zeros.launched.stores[0], tensor)
        values = flat(tensor)[torch.from_numpy(places)] if len(places) else torch.zeros(1, dtype=tensor.dtype)
        rows = values.view(torch.uint8).reshape(len(values), -1)
        assert bool((rows == rows[:1]).all()), "a workgroup that reads zeros writes several values"
        found.append(values[:1].clone())
    return found


def faults_of(golden: Golden, case: str, is_first: bool, offset: int) -> Iterator[str]:
    """Yield what is wrong with a case, with one workgroup of its first launch."""
    golden.of_case(case)
    count = len(golden.call(golden.inputs(offset), Choice(is_rehearsal=True), Launched(0, is_first), []).executions)
    on_zeros = golden.inputs(offset)
    zeros = golden.call(on_zeros, CHOICES[0], Launched(count, is_first), [])
    for name, tensor in on_zeros.items():
        places = elements_of(zeros.launched.loads[0], tensor)
        edge = 0 if is_first else flat(tensor).numel() - 1
        if len(places) and edge not in places:
            yield f"the workgroup does not read element {edge} of {name}"
    values, calls = expected_values(zeros) if count > 1 else [], []
    for choice in CHOICES:
        inputs = golden.inputs(offset)
        golden.fill(inputs, zeros, on_zeros)
        calls.append(golden.call(inputs, choice, Launched(count, is_first), values))
        yield from (str(f) for e in calls[-1].executions if e.report for f in e.report.findings)
    with AsOnGpu():
        expected = golden.test.tensors_in(golden.test.expect(golden.reference, inputs)[0])
    yield from compared(golden, expected, calls, zeros)
    for (name, wanted), (_, found) in zip(*map(buffers_of, (golden.reference, golden.function)), strict=True):
        problems = golden.test.compare_tensors(found, wanted, golden.arguments, golden.test.Result(case))
        yield from (f"{name}: {problem}" for problem in problems)


def compared(golden: Golden, expected: list[torch.Tensor], calls: list[Call], zeros: Call) -> Iterator[str]:
    """Yield how what the last launch wrote differs from the reference, or between two calls; say how much it was."""
    result, count, changed = golden.test.Result(""), 0, 0
    for index, wanted in enumerate(expected):
        outs = [call.results[index] for call in calls]
        parts = [torch.from_numpy(elements_of(call.launched.stores[-1], call.results[index])) for call in calls]
        if not torch.equal(*parts) or not len(parts[0]):
            yield f"output {index}: {len(parts[0])} and {len(parts[1])} elements written"
            continue
        one, other, want, idle = (flat(x)[parts[0]] for x in (*outs, wanted, zeros.results[index]))
        if not torch.equal(one.view(torch.uint8), other.view(torch.uint8)):
            yield f"output {index} depends on the order of waves, or on what nothing has written"
        yield from (f"output {index}: {p}" for p in golden.test.compare_tensors(one, want, golden.arguments, result))
        count, changed = count + len(one), changed + int((one != idle).sum())
    if not changed:
        yield "the part of the last launch that ran saw nothing but zeros"
    names = " ".join(dict.fromkeys(str(e.variant) for e in calls[0].executions))
    grids = ", ".join(f"{e.executed_workgroups} of {e.workgroups}" for e in calls[0].executions)
    words = f"{count} elements compared, {changed} not those of zeros; rel_err {result.rel_err or 0.0:.1e}"
    print(f"  {names}: {grids} workgroups; {words}", file=sys.stderr)


def check(folder: Path) -> list[str]:
    """Simulate a package in this process; return what is wrong."""
    torch.set_grad_enabled(False)
    sys.path.insert(0, str(folder))
    with captured() as compiles:
        executor = Executor(lambda on_launch: HipStub(hip_stub(), on_launch), compiles)
        device = SimulatedDevice(load_device(folder.parent.name))
        executor.name_variants(import_module("kernel"))
        golden = Golden(folder, executor, device)
        return [
            f"{case}, {'first' if is_first else 'last'} workgroup, offset {offset}: {fault}"
            for case in golden.cases
            for offset in golden.test.OFFSETS
            for is_first in (True, False)
            for fault in faults_of(golden, case, is_first, offset)
        ]


def too_large(folder: Path) -> bool:
    """Return whether `kgen check` compares no case of a package: they are too large, or have several launches."""
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))

    def is_left_out(case: str, work: dict[str, int]) -> bool:
        variants = [v for v in plan["variants"] if v["case"] == case]
        splits = any(v["choice"]["choices"].get("split_k", 1) > 1 for v in variants)
        launches = len({v["kernel"] for v in variants}) + splits
        moved = work["bytes_read"] + work["bytes_written"]
        share = max(work["flops"] / cases.WHOLE_FLOPS, moved / cases.WHOLE_BYTES)
        is_refused = work["flops"] > cases.MOST_FLOPS or moved > cases.MOST_BYTES
        return is_refused or (launches > 1 and share > cases.SEVERAL_LAUNCHES)

    return all(is_left_out(case, work) for case, work in plan["work"].items())


def simulated(folder: Path) -> list[str]:
    """Simulate a package in a process of its own, as FlyDSL is for one arch a process; return what is wrong."""
    device = load_device(folder.parent.name)
    environment = {**os.environ, **cross_environment(device.arch.isa, rocm_path())}
    command = [sys.executable, __file__, "--inside", str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else [f"ended with exit status {done.returncode}"]


def main() -> int:
    """Simulate packages and print what is wrong; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", default="mi300x")
    parser.add_argument("--generated", type=Path, default=GENERATED, help="the folder of all packages")
    parser.add_argument("--only", nargs="+", help="packages; else all that `kgen check` compares nothing of")
    parser.add_argument("--inside", type=Path, help="the package that this process simulates: the subprocess")
    arguments = parser.parse_args()
    if arguments.inside:
        print(json.dumps(check(arguments.inside)))
        return 0
    folders = sorted(path.parent for path in (arguments.generated / arguments.target).glob("*/plan.json"))
    names, wrong = arguments.only or [folder.name for folder in folders if too_large(folder)], 0
    for name in names:
        faults = simulated(arguments.generated / arguments.target / name)
        print(f"{name}: {len(faults)} faults", *faults[:4], sep="\n  ", flush=True)
        wrong += bool(faults)
    print(f"{len(names)} packages for {arguments.target}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
