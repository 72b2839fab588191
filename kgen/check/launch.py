"""Launch arguments from the compiled host code: threads of a CTA and dynamic shared memory.

A cubin does not hold them. After compilation the DSL's module is in MLIR's LLVM dialect, where each launch fills a
`cudaLaunchConfig_t` (grid, block, dynamic shared memory, stream, attributes) and passes it to `_cudaLaunchKernelEx`.
A number that the host code computes at run time is `None`.
"""

import re
from dataclasses import dataclass
from math import prod

_CONSTANT = re.compile(r"^(?P<name>%\w+) = llvm\.mlir\.constant\((?P<value>-?\d+) : i(?:32|64)\)")
_FIELD = re.compile(
    r"^(?P<name>%\w+) = llvm\.getelementptr (?P<base>%\w+)\[0, (?P<field>1, [012]|2)\] : \(!llvm\.ptr\) -> !llvm\.ptr, "
    r"!llvm\.struct<\(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32\)>"
)
_STORE = re.compile(r"^llvm\.store (?P<value>%\w+), (?P<address>%\w+) : i(?:32|64), !llvm\.ptr")
_SYMBOL = re.compile(r"^(?P<name>%\w+) = llvm\.mlir\.addressof @(?P<symbol>\w+) :")
_LOAD = re.compile(r"^(?P<name>%\w+) = llvm\.load (?P<address>%\w+) :")
_CALL = re.compile(r"llvm\.call @_cudaLaunchKernelEx\(%\w+, (?P<kernel>%\w+), ")


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch of the host code."""

    symbol: str
    threads: int | None
    dynamic_smem_bytes: int | None

    def is_of(self, kernel: str) -> bool:
        """Whether this launches that kernel; the host prefixes it with the device module's name, "kernels"."""
        return self.symbol == f"kernels_{kernel}"


def launches_of(host_ir: str) -> tuple[Launch, ...]:
    """Return the kernel launches of a module in MLIR's LLVM dialect, in program order."""
    result: list[Launch] = []
    for function in re.split(r"^  llvm\.func ", host_ir, flags=re.MULTILINE):
        if "@_cudaLaunchKernelEx(" in function:
            result += _launches_in(function)
    return tuple(result)


def _launches_in(function: str) -> list[Launch]:
    constants: dict[str, int] = {}
    fields: dict[str, str] = {}
    symbols: dict[str, str] = {}
    filled: dict[str, int | None] = {}
    result = []
    for line in map(str.strip, function.splitlines()):
        if m := _CONSTANT.match(line):
            constants[m["name"]] = int(m["value"])
        elif m := _FIELD.match(line):
            fields[m["name"]] = m["field"]
        elif (m := _STORE.match(line)) and m["address"] in fields:
            filled[fields[m["address"]]] = constants.get(m["value"])
        elif m := _SYMBOL.match(line):
            symbols[m["name"]] = m["symbol"]
        elif (m := _LOAD.match(line)) and m["address"] in symbols:
            symbols[m["name"]] = symbols[m["address"]]
        elif m := _CALL.search(line):
            result.append(_launch(symbols.get(m["kernel"], ""), filled))
            filled = {}
    return result


def _launch(symbol: str, filled: dict[str, int | None]) -> Launch:
    block = [filled.get(f"1, {axis}") for axis in range(3)]
    sizes = [size for size in block if size is not None]
    return Launch(symbol, prod(sizes) if len(sizes) == len(block) else None, filled.get("2"))
