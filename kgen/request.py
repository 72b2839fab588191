"""What a request means: the spec behind a path or a callable, the device behind a name, the case behind an id.

Shared by the library and the command line; the first thing either does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.errors.cli import ArgumentsConflictError, NoTargetError, SeveralTargetsError, UnknownCaseError
from kgen.spec.model import Case, Spec
from kgen.target import Device, list_devices, load_device

if TYPE_CHECKING:
    import torch

    from kgen.spec.dynamic import DynamicAxes


def as_spec(
    source: Spec | str | Path | Callable[..., Any],
    example_inputs: Sequence[torch.Tensor] | None = None,
    dynamic: DynamicAxes | None = None,
) -> Spec:
    """Return the spec that a path, a callable with example inputs, or a spec stands for.

    `dynamic` leaves an extent of a callable's tensors to run time; a spec says so itself.
    """
    if dynamic and not callable(source):
        raise ArgumentsConflictError(
            reason="dynamic axes are those of a callable's tensors", fix="write a range into the spec's extents"
        )
    if isinstance(source, Spec):
        return source
    if isinstance(source, str | Path):
        from kgen.spec.load import load_spec

        return load_spec(source)
    if not callable(source):
        raise ArgumentsConflictError(
            reason=f"{source!r} is neither a spec nor a path nor a callable", fix="e.g. kgen.emit('gelu.yaml')"
        )
    if example_inputs is None:
        name = getattr(source, "__name__", type(source).__name__)
        raise ArgumentsConflictError(
            reason=f"{name} is a callable, and nothing says which tensors it is called with",
            fix="pass example_inputs=[...], one tensor per argument",
        )
    from kgen.frontend.dynamic_axes import with_dynamic_axes
    from kgen.frontend.importers import spec_from_callable

    spec = spec_from_callable(source, example_inputs)
    return with_dynamic_axes(spec, dynamic) if dynamic else spec


def as_device(spec: Spec, target: Device | str | None) -> Device:
    """Return the device that was asked for, or the only one that the spec names."""
    if isinstance(target, Device):
        return target
    if target is not None:
        return load_device(target)
    if not spec.targets:
        raise NoTargetError(name=spec.name, known=", ".join(list_devices()))
    if len(spec.targets) > 1:
        raise SeveralTargetsError(name=spec.name, targets=", ".join(spec.targets))
    return load_device(spec.targets[0], spec.target_place(spec.targets[0]))


def as_devices(spec: Spec, targets: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices of these names or, when there are none, all that the spec names."""
    if targets:
        return tuple(load_device(name) for name in targets)
    if not spec.targets:
        return (as_device(spec, None),)
    return tuple(load_device(name, spec.target_place(name)) for name in spec.targets)


def as_case(spec: Spec, case: str | None) -> Case:
    """Return the case of that id, or the first one."""
    known = {c.id: c for c in spec.cases}
    if case is None:
        return spec.cases[0]
    if case not in known:
        raise UnknownCaseError(name=spec.name, case=case, known=", ".join(known))
    return known[case]
