"""What is finished already: known from the packages that stand there and from the records, and from nothing else.

A step is finished where the newest record of it is of the same spec, device, kgen and tools, says that it went well or
was refused, and the package is still the one it speaks of. What failed is tried again.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from kgen.check.package import read_package
from kgen.errors.base import KgenError
from kgen.package.folder import PLAN_FILE, file_names, measured_kernel
from kgen.records import Kind, Record, Status, Store
from kgen.regen.identity import check_toolchain, emit_toolchain
from kgen.regen.tasks import Origin
from kgen.target import Device


class Finished:
    """Answers what is finished, from one database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def emit(self, origin: Origin, folder: Path) -> Record | None:
        """Return the record of a package that is there as it was emitted, or of its refusal."""
        found = self._newest(origin, Kind.EMIT, emit_toolchain())
        if found is None or found.status is Status.REFUSED:
            return found
        return found if found.status is Status.OK and _stands(folder, found.kernel_digest) else None

    def check(self, origin: Origin, kernel: str, device: Device, *, on_gpu: bool) -> Record | None:
        """Return the record of a kernel that was found right: in the way of a machine with no GPU, or on a GPU."""
        found = self._newest(origin, Kind.CHECK, check_toolchain(device.arch.backend))
        is_right = found is not None and found.status is Status.OK and found.kernel_digest == kernel
        return found if is_right and found is not None and (found.gpu is not None or not on_gpu) else None

    def bench(self, origin: Origin, kernel: str, folder: Path) -> tuple[Record, ...]:
        """Return the records of all cases of a kernel that was measured; nothing where one is missing."""
        if measured_kernel(folder) != kernel:
            return ()
        rows = self._store.find(spec=origin.spec, device=origin.device, kind=Kind.BENCH, latest=True)
        known = {r.case: r for r in rows if _is_of(r, origin) and r.kernel_digest == kernel}
        cases = json.loads((folder / "shapes.json").read_text(encoding="utf-8"))
        found = [known[case] for case in cases if case in known and known[case].status is not Status.FAILED]
        return tuple(found) if len(found) == len(cases) else ()

    def _newest(self, origin: Origin, kind: Kind, tools: Mapping[str, str]) -> Record | None:
        """Return the newest record of a step, if it is of the same origin and tools."""
        rows = self._store.find(spec=origin.spec, device=origin.device, kind=kind, latest=True)
        same = (r for r in rows if _is_of(r, origin) and all(tools.get(n, v) == v for n, v in r.toolchain.items()))
        return next(same, None)


def _is_of(record: Record, origin: Origin) -> bool:
    return all(getattr(record, name) == value for name, value in origin.fields().items())


def _stands(folder: Path, kernel: str | None) -> bool:
    """Whether a folder holds a package whole, with that kernel.py."""
    try:
        package = read_package(folder)
        names = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))["files"]
    except (KgenError, OSError, ValueError, KeyError):
        return False
    return package.kernel_digest == package.planned_digest == kernel and file_names(folder) == set(names)
