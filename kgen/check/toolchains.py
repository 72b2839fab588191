"""Which tool chain compiles and reads the packages of a back-end: the one place that names them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kgen.check.cutedsl import CuteDsl
from kgen.check.evidence import KernelEvidence
from kgen.check.flydsl.toolchain import FlyDsl
from kgen.check.package import Expectation, PackageFolder
from kgen.check.result import Finding, VariantEvidence
from kgen.target import Arch


class Limits(Protocol):
    """What the hardware gives one kernel."""

    def findings(self, expected: Expectation, kernel: KernelEvidence) -> Iterator[Finding]:
        """Yield which resources of a kernel are not as planned, or more than there are."""
        ...


class Simulator(Protocol):
    """How a package's test runs with no GPU, in a subprocess that executes its kernels."""

    def command(self) -> list[str]:
        """Return the program of the subprocess; kgen/check/flydsl/simulation.py has its protocol."""
        ...

    def environment(self, isa: str) -> dict[str, str]:
        """Return its environment."""
        ...

    def request(self, package: PackageFolder) -> dict[str, Any]:
        """Return the request that it answers with the events of each case."""
        ...


class Toolchain(Protocol):
    """How the packages of one back-end are compiled, in a subprocess, and read; made anew for each check.

    `distribution` is the DSL on PyPI, `distributions` are all whose versions decide what a kernel is compiled to,
    `extra` is the extra of kgen that brings them, `dsl_module` what kernels import.
    `simulates` says whether `simulator` returns one. `readers` are the modules of kgen/check that turn a kernel.py into
    evidence. `probe_kernel` is a small kernel.py that shows whether all of it works here.
    """

    distribution: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]]
    simulates: ClassVar[bool]
    extra: ClassVar[str]
    dsl_module: ClassVar[str]
    readers: ClassVar[tuple[str, ...]]
    probe_kernel: ClassVar[Path | None]

    def __init__(self) -> None:
        """Find the tools; raises a `KgenError` that names the one that is missing."""

    @staticmethod
    def limits_of(arch: Arch) -> Limits:
        """Return what the hardware gives one kernel."""
        ...

    @staticmethod
    def simulator() -> Simulator | None:
        """Return what runs kernels with no GPU; None where nothing does."""
        ...

    def made_with(self) -> dict[str, Any]:
        """Return what the evidence is made with beyond the readers: versions, tools, variables that compilers heed."""
        ...

    def command(self) -> list[str]:
        """Return the program of the compile subprocess; kgen/check/compile_runner.py has its protocol."""
        ...

    def environment(self, isa: str, scratch: Path) -> dict[str, str]:
        """Return its environment; `scratch` is a private folder."""
        ...

    def read(self, event: dict[str, Any], isa: str) -> VariantEvidence:
        """Return the evidence of a compiled variant from the subprocess's event, and remove its files."""
        ...


TOOLCHAINS: Mapping[str, type[Toolchain]] = {"cutedsl": CuteDsl, "flydsl": FlyDsl}


def has_simulator(arch: Arch) -> bool:
    """Whether packages of an arch can run with no GPU."""
    return arch.backend in TOOLCHAINS and TOOLCHAINS[arch.backend].simulates
