"""Executes the kernel launches of this process in the simulator: finds the assembly of each, and keeps the reports."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from types import ModuleType

from kgen.check.flydsl.capture import Compiled
from kgen.check.flydsl.code_object import KernelMetadata, kernels_of
from kgen.check.flydsl.device import SimulatedDevice
from kgen.check.flydsl.hip import HipStub, HostLaunch
from kgen.simulator import Launch, Poison, Report, WaveOrder, simulate


@dataclass(frozen=True, slots=True)
class Choice:
    """What hardware is free to choose, and which part of the grid runs: `most_workgroups` of it, all where None.

    Launches after the first `most_launches` do not run, with `is_rehearsal` none does: they are only counted.
    """

    wave_order: WaveOrder = WaveOrder.FORWARD
    poison: Poison = Poison.QUIET_NAN
    most_workgroups: int | None = None
    most_launches: int | None = None
    is_rehearsal: bool = False

    def leaves_out(self, launch: int) -> bool:
        """Whether the launch of this number in its call, from 0, does not run."""
        return self.is_rehearsal or (self.most_launches is not None and launch >= self.most_launches)


CHOICES = (Choice(WaveOrder.FORWARD, Poison.QUIET_NAN), Choice(WaveOrder.REVERSED, Poison.FINITE))


@dataclass(frozen=True, slots=True)
class Execution:
    """One launch and its report; `variant` is the row of VARIANTS that it was compiled for, where that is known."""

    variant: str | None
    kernel: str
    workgroups: int
    executed_workgroups: int
    report: Report | None


@dataclass(frozen=True, slots=True)
class _Code:
    assembly: str
    variant: str | None
    kernels: tuple[KernelMetadata, ...]


class Executor:
    """Runs what the HIP stub is asked to launch; `choice` says how."""

    def __init__(self, stub: Callable[[Callable[[HostLaunch], None]], HipStub], compiles: list[Compiled]) -> None:
        """`stub` loads the HIP stub with a callback; `compiles` is the list that `captured` fills."""
        self._stub = stub(self._launch)
        self._compiles = compiles
        self._codes: dict[str, _Code] = {}
        self._read = 0
        self._variant: str | None = None
        self._device: SimulatedDevice | None = None
        self.choice = Choice()
        self.executions: list[Execution] = []

    @contextmanager
    def on(self, device: SimulatedDevice, choice: Choice) -> Iterator[None]:
        """Run the launches of the body on a device; raises what one of them failed with, as the cause of the rest."""
        self._device, self.choice = device, choice
        try:
            with device.active():
                yield
        finally:
            self._device = None
            self._stub.raise_error()

    def name_variants(self, module: ModuleType) -> None:
        """Note from now on which variant a compile of a kernel.py is for."""
        original = module.compile_variant

        def compile_variant(name: str) -> object:
            self._take_in()
            self._variant = name
            try:
                return original(name)
            finally:
                self._take_in()
                self._variant = None

        module.compile_variant = compile_variant  # type: ignore[attr-defined]

    def take_executions(self) -> tuple[Execution, ...]:
        """Return the launches since the last call."""
        taken = tuple(self.executions)
        self.executions.clear()
        return taken

    def _take_in(self) -> None:
        for compiled in self._compiles[self._read :]:
            code = _Code(compiled.assembly, self._variant, kernels_of(compiled.code_object))
            self._codes.setdefault(hashlib.sha256(compiled.code_object).hexdigest(), code)
        self._read = len(self._compiles)

    def _launch(self, host: HostLaunch) -> None:
        self._take_in()
        code = self._codes[hashlib.sha256(host.code_object).hexdigest()]
        workgroups = prod(host.grid)
        if self.choice.leaves_out(len(self.executions)) or not workgroups:
            self.executions.append(Execution(code.variant, host.kernel, workgroups, 0, None))
            return
        assert self._device is not None, "a kernel was launched outside of a simulated call"
        metadata = next(kernel for kernel in code.kernels if kernel.name == host.kernel)
        kernarg = host.kernarg(metadata.arguments, metadata.kernarg_bytes)
        launch = Launch(host.kernel, host.grid, host.block, kernarg, host.dynamic_lds_bytes)
        chosen = chosen_workgroups(host.grid, self.choice.most_workgroups)
        report = simulate(
            code.assembly,
            launch,
            self._device.buffers(),
            wave_order=self.choice.wave_order,
            poison=self.choice.poison,
            workgroups=chosen,
        )
        executed = workgroups if chosen is None else len(chosen)
        self.executions.append(Execution(code.variant, host.kernel, workgroups, executed, report))


def chosen_workgroups(grid: tuple[int, int, int], most: int | None) -> tuple[tuple[int, int, int], ...] | None:
    """Return which workgroups run, None for all: the corners of the grid, where tiles are ragged, and evenly spread."""
    total = prod(grid)
    if most is None or total <= most:
        return None
    corners = {(x, y, z) for x in (0, grid[0] - 1) for y in (0, grid[1] - 1) for z in (0, grid[2] - 1)}
    chosen = list(sorted(corners)[:most])
    spread = max(most - len(chosen), 0)
    for index in range(spread):
        place = (2 * index + 1) * total // (2 * spread)
        chosen.append((place % grid[0], place // grid[0] % grid[1], place // (grid[0] * grid[1])))
    return tuple(dict.fromkeys(chosen))


def limited(choice: Choice, most_workgroups: int | None) -> Choice:
    """Return a choice for a part of the grid."""
    return replace(choice, most_workgroups=most_workgroups)
