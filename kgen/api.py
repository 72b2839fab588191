"""The library: what a Python program calls. `import kgen` re-exports it.

A thin layer over the pipeline: it turns paths, callables and names into a Spec and a Device, runs the stages, and
returns typed values. Everything that is slow to import (sympy, torch) is imported where it is used, so that
`import kgen` costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.planning import TOP

if TYPE_CHECKING:
    import torch

    from kgen.built import BuiltKernel
    from kgen.check import PackageCheck
    from kgen.package.write import Written
    from kgen.planning.choice import Candidates
    from kgen.planning.plan import Plan
    from kgen.spec.dynamic import DynamicAxes
    from kgen.spec.model import Spec
    from kgen.target import Device


@dataclass(frozen=True, slots=True)
class Package:
    """One emitted package: its files as text, and where it was written, if it was."""

    name: str
    device: Device
    plan: Plan
    files: Mapping[str, str]
    seconds: Mapping[str, float]  # by stage
    written: Written | None

    @property
    def folder(self) -> Path | None:
        """The folder it was written to, or None."""
        return None if self.written is None else self.written.folder

    def to_json(self) -> dict[str, object]:
        """Return a JSON object: what was made, not its text."""
        return {
            "name": self.name,
            "device": self.device.name,
            "folder": None if self.folder is None else str(self.folder),
            "outcome": None if self.written is None else str(self.written.outcome),
            "measurements": None if self.written is None else str(self.written.measurements),
            "files": sorted(self.files),
            "variants": [
                {
                    "name": v.name,
                    "case": v.case,
                    "kernel": v.kernel,
                    "guard": str(v.guard),
                    "choice": v.choice.to_json(),
                }
                for v in self.plan.variants
            ],
            "seconds": {stage: round(time, 4) for stage, time in self.seconds.items()},
        }


def load_spec(path: str | Path) -> Spec:
    """Load a spec from a `.yaml` file, or from a Python file with Model, get_inputs and get_init_inputs."""
    from kgen.spec.load import load_spec

    return load_spec(path)


def candidates(
    spec: Spec | str | Path,
    target: Device | str | None = None,
    case: str | None = None,
    top: int | None = TOP,
    kernel: str | None = None,
) -> Candidates:
    """Return the best legal candidates of one kernel in one case (default: the first), and what the rules removed.

    `target` may be left out where the spec names exactly one, `kernel` where its program has one. `top` of None lists
    the whole legal set.
    """
    from kgen.request import as_device, as_spec
    from kgen.solution import kernel_questions, question_of

    spec = as_spec(spec)
    asked = question_of(spec, kernel_questions(spec, as_device(spec, target), case), kernel)
    return asked.solver.solve(asked.fixed, top)


def plan(spec: Spec | str | Path, target: Device | str | None = None) -> Plan:
    """Return the guarded variants of every case, each with its choice; nothing is printed yet."""
    from kgen.pipeline import run
    from kgen.planning.plan import Plan
    from kgen.request import as_device, as_spec

    spec = as_spec(spec)
    made = run(spec, as_device(spec, target), stop_after="plan").made["plan"]
    assert isinstance(made, Plan)
    return made


def emit(
    spec_or_fn: Spec | str | Path | Callable[..., Any],
    example_inputs: Sequence[torch.Tensor] | None = None,
    target: Device | str | None = None,
    folder: str | Path | None = None,
    dynamic: DynamicAxes | None = None,
) -> Package:
    """Return the package of a spec, or of a function or module on tensors like the examples; write it to `folder`.

    Of the examples only the types are read: no kernel runs. `target` may be left out where a spec names exactly one.
    `dynamic` leaves an extent of a callable's tensors to run time: argument -> axis -> lowest and highest extent.
    """
    from kgen.package.write import write_package
    from kgen.pipeline import run
    from kgen.request import as_device, as_spec

    spec = as_spec(spec_or_fn, example_inputs, dynamic)
    device = as_device(spec, target)
    done = run(spec, device)
    files: Mapping[str, str] = done.made["render"]
    written = None if folder is None else write_package(files, Path(folder))
    return Package(spec.name, device, done.made["plan"], files, done.seconds, written)


def check(folder: str | Path, *, compile_only: bool = False) -> PackageCheck:
    """Compile a package and inspect it, then run its tests on the GPU of this machine unless `compile_only`."""
    from kgen.check import check

    return check(folder, compile_only=compile_only)


def build(
    fn: Callable[..., Any],
    example_inputs: Sequence[torch.Tensor],
    target: Device | str | None = None,
    dynamic: DynamicAxes | None = None,
) -> BuiltKernel:
    """Return a callable that computes what `fn` (a function or nn.Module) computes, with a generated kernel.

    The package is written to the cache folder and loaded from there; see `kgen.built.BuiltKernel` for what the callable
    sees of its arguments, and for what it is baked for. `target` defaults to the GPU of this machine. `dynamic` leaves
    an extent to run time, e.g. `{"x": {0: (1, 8192)}}`: argument -> axis -> lowest and highest extent.
    """
    from kgen.built import BuiltKernel

    built = BuiltKernel(fn, target, dynamic)
    built.prepare(example_inputs)
    return built
