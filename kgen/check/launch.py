"""Launch arguments from the compiled host code: threads of a CTA, dynamic shared memory, cluster.

A cubin does not hold them. After compilation the DSL's module is in MLIR's LLVM dialect, where each launch fills a
`cudaLaunchConfig_t` (grid, block, dynamic shared memory, stream, attributes) and passes it to `_cudaLaunchKernelEx`.
An attribute is a `cudaLaunchAttribute`: an id, padding, and a union that holds three numbers for a cluster.
A number that the host code computes at run time is `None`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

_CONSTANT = re.compile(r"^(?P<name>%\w+) = llvm\.mlir\.constant\((?P<value>-?\d+) : i(?:32|64)\)")
_FIELD = re.compile(
    r"^(?P<name>%\w+) = llvm\.getelementptr (?P<base>%\w+)\[0, (?P<field>1, [012]|2)\] : \(!llvm\.ptr\) -> !llvm\.ptr, "
    r"!llvm\.struct<\(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32\)>"
)
_ATTRIBUTE = r"!llvm\.struct<\(i32, array<4 x i8>, array<64 x i8>\)>"
_POINTER = r"^(?P<name>%\w+) = llvm\.getelementptr (?P<base>%\w+)"
_ID = re.compile(rf"{_POINTER}\[0, 0\] : \(!llvm\.ptr\) -> !llvm\.ptr, {_ATTRIBUTE}")
_UNION = re.compile(rf"{_POINTER}\[0, 2\] : \(!llvm\.ptr\) -> !llvm\.ptr, {_ATTRIBUTE}")
_AXIS = re.compile(
    rf"{_POINTER}\[0, (?P<axis>[012])\] : \(!llvm\.ptr\) -> !llvm\.ptr, !llvm\.struct<\(i32, i32, i32\)>"
)
_STORE = re.compile(r"^llvm\.store (?P<value>%\w+), (?P<address>%\w+) : i(?:32|64), !llvm\.ptr")
_SYMBOL = re.compile(r"^(?P<name>%\w+) = llvm\.mlir\.addressof @(?P<symbol>\w+) :")
_LOAD = re.compile(r"^(?P<name>%\w+) = llvm\.load (?P<address>%\w+) :")
_CALL = re.compile(r"llvm\.call @_cudaLaunchKernelEx\(%\w+, (?P<kernel>%\w+), ")
_CLUSTER_DIMENSION = 4  # cudaLaunchAttributeClusterDimension, driver_types.h of CUDA 12 and 13


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch of the host code; `cluster` is also `None` where the launch has no such attribute."""

    symbol: str
    threads: int | None
    dynamic_smem_bytes: int | None
    cluster: tuple[int, int, int] | None = None

    def is_of(self, kernel: str) -> bool:
        """Whether this launches that kernel; the host prefixes it with the device module's name, "kernels"."""
        return self.symbol == f"kernels_{kernel}"


def launches_of(host_ir: str) -> tuple[Launch, ...]:
    """Return the kernel launches of a module in MLIR's LLVM dialect, in program order."""
    result: list[Launch] = []
    for text in re.split(r"^  llvm\.func ", host_ir, flags=re.MULTILINE):
        if "@_cudaLaunchKernelEx(" in text:
            function = _Function()
            result += [launch for line in text.splitlines() if (launch := function.read(line.strip()))]
    return tuple(result)


@dataclass(slots=True)
class _Function:
    """What the lines of one function have said so far: names of values, and what was stored where.

    A place is a field of the configuration, ("config", "1, 0") for the first axis of the block, or a part of the
    attribute at an address: ("id", "%119") or ("axis 0", "%119").
    """

    constants: dict[str, int] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    unions: dict[str, str] = field(default_factory=dict)  # address of an attribute's value -> of the attribute
    places: dict[str, tuple[str, str]] = field(default_factory=dict)
    stored: dict[tuple[str, str], int | None] = field(default_factory=dict)

    def read(self, line: str) -> Launch | None:
        """Take in one line; return the launch when it is one."""
        if m := _CONSTANT.match(line):
            self.constants[m["name"]] = int(m["value"])
        elif m := _FIELD.match(line):
            self.places[m["name"]] = ("config", m["field"])
        elif m := _ID.match(line):
            self.places[m["name"]] = ("id", m["base"])
        elif m := _UNION.match(line):
            self.unions[m["name"]] = m["base"]
        elif (m := _AXIS.match(line)) and m["base"] in self.unions:
            self.places[m["name"]] = (f"axis {m['axis']}", self.unions[m["base"]])
        elif (m := _STORE.match(line)) and m["address"] in self.places:
            self.stored[self.places[m["address"]]] = self.constants.get(m["value"])
        elif m := _SYMBOL.match(line):
            self.symbols[m["name"]] = m["symbol"]
        elif (m := _LOAD.match(line)) and m["address"] in self.symbols:
            self.symbols[m["name"]] = self.symbols[m["address"]]
        elif m := _CALL.search(line):
            return self._launch(self.symbols.get(m["kernel"], ""))
        return None

    def _launch(self, symbol: str) -> Launch:
        """Return the launch that what was stored describes; the next one starts afresh."""
        stored, self.stored = self.stored, {}
        block = _three(stored.get(("config", f"1, {axis}")) for axis in range(3))
        clusters = [base for (what, base), value in stored.items() if what == "id" and value == _CLUSTER_DIMENSION]
        cluster = _three(stored.get((f"axis {axis}", clusters[0])) for axis in range(3)) if clusters else None
        return Launch(symbol, prod(block) if block else None, stored.get(("config", "2")), cluster)


def _three(numbers: Iterable[int | None]) -> tuple[int, int, int] | None:
    """Return three numbers, or `None` when one is not known."""
    x, y, z = numbers
    return None if x is None or y is None or z is None else (x, y, z)
