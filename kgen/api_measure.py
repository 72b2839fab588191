"""The part of the library that runs kernels on a GPU and keeps what was measured. `import kgen` re-exports it.

Like `kgen.api` a thin layer that imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.errors.cli import ArgumentsConflictError

if TYPE_CHECKING:
    from kgen.bench.harness import BenchResult
    from kgen.rules.model import Value
    from kgen.spec.model import Spec
    from kgen.target import Device
    from kgen.tune import Tuned


def bench(
    folder: str | Path,
    *,
    mode: str = "bench",
    cases: Sequence[str] = (),
    version: str = "v0",
    profile: bool = False,
    again: bool = False,
    progress: Callable[[str], None] | None = None,
) -> BenchResult:
    """Build, check and measure a package against its incumbent on the GPU of this machine.

    A run over all cases (no `cases`) writes `measured/`. `mode` of "build" or "check" stops there. Raises `NoGpuError`.
    """
    from kgen.bench.harness import Asked, Mode
    from kgen.bench.harness import bench as run
    from kgen.bench.memory import memory_file
    from kgen.tune import silent

    if mode not in set(Mode):
        raise ArgumentsConflictError(reason=f"mode {mode!r} is none of {', '.join(Mode)}", fix="e.g. mode='check'")
    memory_file(Path(), version)  # refuses what is no version before anything runs
    command = f"kgen.bench({str(folder)!r})"
    asked = Asked(mode=Mode(mode), cases=tuple(cases), version=version, profile=profile, again=again, command=command)
    return run(folder, asked, progress or silent)


def tune(
    spec: Spec | str | Path,
    target: Device | str | None = None,
    folder: str | Path | None = None,
    *,
    case: str | None = None,
    tries: Sequence[Mapping[str, Value]] = (),
    sweep: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Tuned:
    """Measure the first plan of a spec and at most three variants of it; deliver the best correct one in `folder`.

    `tries` pins axes instead of trying the runners-up; `sweep` measures that many candidates, outside of the budget.
    Raises `NoGpuError`, and `BudgetSpentError` where `tries` go beyond the budget.
    """
    from kgen.sweep import sweep as sweep_candidates
    from kgen.tune import goal_of, silent
    from kgen.tune import tune as tune_variants

    if sweep and tries:
        reason = "sweep measures the best candidates, tries names variants"
        raise ArgumentsConflictError(reason=reason, fix="leave one out")
    if sweep < 0:
        raise ArgumentsConflictError(reason=f"sweep is {sweep}, a number of candidates", fix="e.g. sweep=12")
    goal = goal_of(spec, target, folder, case, tries)
    if sweep:
        return sweep_candidates(goal, sweep, progress=progress or silent)
    return tune_variants(goal, progress=progress or silent)


def port(
    spec: Spec | str | Path,
    incumbent: str,
    target: Device | str | None = None,
    folder: str | Path | None = None,
    *,
    case: str | None = None,
    falsify: bool = False,
    integration: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Tuned:
    """Replace a kernel (`file.py::fn` or `package.module:fn`) by a generated one, measured against a copy of it.

    `falsify` times the incumbent against itself once; `integration` is a shell command that runs once on the final
    build, with the package's folder in $KGEN_PACKAGE. Raises `NoGpuError`.
    """
    from kgen.incumbents import incumbent_of
    from kgen.port import Closing
    from kgen.port import port as port_kernel
    from kgen.tune import goal_of, silent

    goal = goal_of(spec, target, folder, case)
    return port_kernel(goal, incumbent_of(incumbent), Closing(falsify, integration), progress=progress or silent)
