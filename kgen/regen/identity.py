"""What decides a package and its evidence: digests of spec and device, kgen itself, the versions of its tools."""

import hashlib
import platform
from dataclasses import replace
from functools import cache

from kgen.check.toolchain import installed_version, installed_versions
from kgen.check.toolchains import TOOLCHAINS
from kgen.regen.tasks import Origin
from kgen.resources import sources_digest
from kgen.spec.model import ReferenceKind, Spec
from kgen.spec.reference_source import stands_alone
from kgen.target import Device, device_file


def origin_of(spec: Spec, device: Device) -> Origin:
    """Return what a package comes from."""
    probe = None if device.probe is None else device.probe.date
    return Origin(spec.name, spec_digest(spec), device.name, device_digest(device), probe, generator())


def spec_digest(spec: Spec) -> str:
    """Return the SHA-256 of everything that a spec says of its package: texts of files it names, no places, no targets.

    Of a reference that is imported by its name, or imports others, the spec has no text: `is_self_contained` tells.
    """
    fixed = tuple(replace(axis, where=None) for axis in spec.fixed)
    said = replace(spec, targets=(), target_places=(), fixed=fixed)
    return hashlib.sha256(repr(said).encode()).hexdigest()


def is_self_contained(spec: Spec) -> bool:
    """Whether the digest of a spec covers all that its package is made of."""
    incumbent = spec.incumbent
    return stands_alone(spec.reference) and (incumbent is None or incumbent.kind is not ReferenceKind.IMPORT)


def device_digest(device: Device) -> str:
    """Return the SHA-256 of a device's file."""
    if device.text:
        return hashlib.sha256(device.text.encode()).hexdigest()
    file = device_file(device.name)
    assert file is not None
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def generator() -> str:
    """Return which kgen this is: its version, and the digest of its code, templates and rules."""
    return f"{installed_version('kgen') or 'checkout'} {sources_digest()[:16]}"


@cache
def emit_toolchain() -> dict[str, str]:
    """Return the versions of what decides a package."""
    return _present({"torch": installed_version("torch")})


@cache
def check_toolchain(backend: str) -> dict[str, str]:
    """Return the versions of what decides the evidence of a back-end's packages."""
    return _present(installed_versions(TOOLCHAINS[backend].distributions))


def _present(versions: dict[str, str | None]) -> dict[str, str]:
    found = {name: version for name, version in versions.items() if version is not None}
    return found | {"python": platform.python_version()}
