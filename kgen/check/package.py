"""The folder under check: reads `plan.json` and names what the plan expects of the compiled kernels.

First step of a check. Only files are read here; nothing of the package is imported.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kgen.errors.check import NotAPackageError, PlanFileError


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the plan expects of one variant. `None` means "not stated": it is not compared.

    `mma` is the class of the matrix instructions ("HGMMA", "v_mfma", ...) or "none" when the variant must use none.
    `smem_bytes` is the dynamic shared memory of the launch, on CDNA all LDS of a workgroup; `threads` are those of one
    CTA. `access_bytes` is the width of the widest access to device memory that it must have. `cluster_stores` is of
    stores into the smem of other CTAs of a cluster, `grid_waits` of each kernel's wait for the one before it,
    `async_loads` of loads from device memory into LDS past the registers, `waves_per_simd` how many waves a SIMD holds
    at least: CDNA.
    """

    variant: str
    mma: str | None = None
    mma_shape: str | None = None
    tma_loads: bool | None = None
    tma_stores: bool | None = None
    multicast: bool | None = None
    threads: int | None = None
    smem_bytes: int | None = None
    spills: int | None = None
    access_bytes: int | None = None
    cluster_stores: bool | None = None
    grid_waits: bool | None = None
    async_loads: bool | None = None
    waves_per_simd: int | None = None


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """An emitted package as far as a check needs it."""

    folder: Path
    name: str
    device: str
    arch: str
    kernel_digest: str
    planned_digest: str | None
    expectations: tuple[Expectation, ...]
    estimates_us: tuple[tuple[str, float], ...] = ()  # variant -> the time that the plan expects of it: an estimate

    @property
    def kernel_file(self) -> Path:
        """The emitted kernel."""
        return self.folder / "kernel.py"

    @property
    def is_edited(self) -> bool:
        """Whether kernel.py changed since it was emitted."""
        return self.planned_digest is not None and self.planned_digest != self.kernel_digest

    def expectation(self, variant: str) -> Expectation | None:
        """Return what the plan expects of the variant of that name."""
        return next((e for e in self.expectations if e.variant == variant), None)


_KINDS: dict[str, type] = {
    "variant": str,
    "mma": str,
    "mma_shape": str,
    "tma_loads": bool,
    "tma_stores": bool,
    "multicast": bool,
    "threads": int,
    "smem_bytes": int,
    "spills": int,
    "access_bytes": int,
    "cluster_stores": bool,
    "grid_waits": bool,
    "async_loads": bool,
    "waves_per_simd": int,
}
assert set(_KINDS) == {field.name for field in fields(Expectation)}


def read_package(folder: Path) -> PackageFolder:
    """Read the package in `folder`; raises `NotAPackageError` or `PlanFileError`."""
    for name in ("kernel.py", "plan.json"):
        if not (folder / name).is_file():
            raise NotAPackageError(folder=folder, missing=name)
    plan_file = folder / "plan.json"
    plan = _read_json(plan_file)
    target = _field(plan_file, plan, "target", dict)
    digest = plan.get("kernel_digest")
    return PackageFolder(
        folder=folder,
        name=_field(plan_file, plan, "name", str),
        device=_field(plan_file, target, "device", str),
        arch=_field(plan_file, target, "arch", str),
        kernel_digest=hashlib.sha256((folder / "kernel.py").read_bytes()).hexdigest(),
        planned_digest=None if digest is None else str(digest),
        expectations=_expectations(plan_file, _field(plan_file, plan, "evidence", list)),
        estimates_us=tuple(_estimates(_field(plan_file, {"variants": [], **plan}, "variants", list))),
    )


def _estimates(rows: list[Any]) -> Iterator[tuple[str, float]]:
    """Yield the time of each variant's candidate; a plan need not state one."""
    for row in rows:
        choice = row.get("choice") if isinstance(row, dict) else None
        if isinstance(choice, dict) and isinstance(time_us := choice.get("time_us"), int | float):
            yield str(row.get("name")), float(time_us)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PlanFileError(file=file, reason=f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise PlanFileError(file=file, reason=f"expected a JSON object, found {type(value).__name__}")
    return value


def _field(file: Path, value: dict[str, Any], name: str, kind: type) -> Any:
    if name not in value:
        raise PlanFileError(file=file, reason=f"the field {name!r} is missing")
    if not isinstance(value[name], kind):
        raise PlanFileError(file=file, reason=f"{name!r} must be a {kind.__name__}, found {value[name]!r}")
    return value[name]


def _expectations(file: Path, rows: list[Any]) -> tuple[Expectation, ...]:
    result = tuple(_expectation(file, index, row) for index, row in enumerate(rows))
    names = [e.variant for e in result]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PlanFileError(file=file, reason=f"evidence names the variant {twice!r} twice")
    return result


def _expectation(file: Path, index: int, row: Any) -> Expectation:
    if not isinstance(row, dict) or "variant" not in row:
        raise PlanFileError(file=file, reason=f"evidence[{index}] must be an object with a 'variant', found {row!r}")
    for name, value in row.items():
        if name not in _KINDS:
            known = ", ".join(_KINDS)
            raise PlanFileError(file=file, reason=f"evidence[{index}] has an unknown field {name!r}; known: {known}")
        # bool is a subclass of int: `type` keeps `"threads": true` out
        if value is not None and type(value) is not _KINDS[name]:
            raise PlanFileError(
                file=file, reason=f"evidence[{index}].{name} must be a {_KINDS[name].__name__}, found {value!r}"
            )
    return Expectation(**row)
