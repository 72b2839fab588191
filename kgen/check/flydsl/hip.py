"""The HIP stub seen from Python: every kernel launch of the process comes here.

Used in the simulating subprocess. The stub has to be loaded before FlyDSL launches a kernel, and before anything else
brings a HIP runtime of its own.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.check.flydsl.code_object import Argument


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """One launch as the host code made it; `grid` counts workgroups, `block` work-items.

    `arguments` are the addresses of the kernel's arguments, which are gone when the launch returns.
    """

    code_object: bytes
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds_bytes: int
    arguments: Any

    def kernarg(self, places: tuple[Argument, ...], total_bytes: int) -> bytes:
        """Return the kernel argument segment, with the arguments at their places."""
        segment = bytearray(total_bytes)
        for index, place in enumerate(places):
            value = ctypes.string_at(self.arguments[index], place.size)
            segment[place.offset : place.offset + place.size] = value
        return bytes(segment)


class _Launch(ctypes.Structure):
    """`struct launch` of hip_stub.c."""

    _fields_ = (
        ("image", ctypes.c_void_p),
        ("image_bytes", ctypes.c_size_t),
        ("kernel", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_lds_bytes", ctypes.c_uint32),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
    )


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Launch))


class HipStub:
    """The loaded stub. FlyDSL only prints that a launch failed, so what went wrong is kept here for `raise_error`."""

    def __init__(self, library: Path, on_launch: Callable[[HostLaunch], None]) -> None:
        """Load it for every library of this process; `on_launch` returns when the kernel is done."""
        self._library = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._on_launch = on_launch
        self._error: BaseException | None = None
        self._callback = _Callback(self._launched)  # C holds no reference to it
        self._library.kgen_hip_on_launch(self._callback)

    def raise_error(self) -> None:
        """Raise what a launch since the last call failed with."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _launched(self, pointer: Any) -> int:
        row = pointer.contents
        launch = HostLaunch(
            code_object=ctypes.string_at(row.image, row.image_bytes),
            kernel=row.kernel.decode(),
            grid=tuple(row.grid),
            block=tuple(row.block),
            dynamic_lds_bytes=row.dynamic_lds_bytes,
            arguments=row.arguments,
        )
        if self._error is not None:  # what follows a failed launch works on garbage
            return 1
        try:
            self._on_launch(launch)
        except BaseException as error:
            self._error = error
            return 1
        return 0
