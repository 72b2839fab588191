"""What is installed, which GPU is here, what is missing and how to get it: the data behind `kgen doctor`.

Versions come from package metadata and GPUs from their drivers, and what is tried out runs in subprocesses: no torch,
no DSL is imported here, so that the diagnosis cannot crash on the very thing it is meant to diagnose.
"""

import platform
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from kgen.check.flydsl.capture import MADE_FOR as FLYDSL_MADE_FOR
from kgen.check.gpu import cuda_driver_version, find_gpus
from kgen.check.match import GpuMatch, match_gpus
from kgen.check.probe import Probe, probe_toolchains
from kgen.check.toolchain import find_tool, installed_version
from kgen.target import all_devices

_HOPPER = "pip install 'kgen[hopper]'"
_CDNA = "pip install 'kgen[cdna]'"

# Distribution -> (what kgen does with it, how to get it).
_DISTRIBUTIONS = {
    "torch": ("traces references; runs test_kernel.py", "pip install torch"),
    "nvidia-cutlass-dsl": ("compiles Hopper packages", _HOPPER),
    "apache-tvm-ffi": ("launches Hopper packages", _HOPPER),
    "torch-c-dlpack-ext": ("the quickest conversion of launch arguments", _HOPPER),
    "flydsl": ("compiles CDNA packages", _CDNA),
    "ziglang": ("links CDNA kernels; compiles the HIP stub", _CDNA),
    "pyelftools": ("reads CDNA code objects", _CDNA),
    "msgpack": ("reads their metadata", _CDNA),
}
_TOOLS = {
    "nvdisasm": "instruction evidence of Hopper packages",
    "cuobjdump": "register and memory evidence of Hopper packages",
}


@dataclass(frozen=True, slots=True)
class Component:
    """Something that kgen uses; `version` is `None` when it is not here."""

    name: str
    purpose: str
    version: str | None
    remedy: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that would be needed, and how to get it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of this machine as far as kgen depends on it."""

    kgen: str | None
    python: str
    executable: str
    system: str
    components: tuple[Component, ...]
    cuda_driver: str | None
    gpus: tuple[GpuMatch, ...]
    probes: tuple[Probe, ...]
    missing: tuple[Missing, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as one JSON object."""
        return asdict(self)


def diagnose(tries_out: bool = False) -> Diagnosis:
    """Look at this machine; with `tries_out` also compile a small kernel with each tool chain that has one.

    That takes seconds, and happens in subprocesses.
    """
    components = (
        *(Component(name, use, installed_version(name), get) for name, (use, get) in _DISTRIBUTIONS.items()),
        *(
            Component(name, use, tool.version if (tool := find_tool(name)) else None, _HOPPER)
            for name, use in _TOOLS.items()
        ),
    )
    gpus = match_gpus(find_gpus(), all_devices())
    probes = probe_toolchains() if tries_out else ()
    return Diagnosis(
        kgen=installed_version("kgen"),
        python=platform.python_version(),
        executable=sys.executable,
        system=platform.platform(),
        components=components,
        cuda_driver=cuda_driver_version(),
        gpus=gpus,
        probes=probes,
        missing=(*_missing(components, gpus), *_not_working(components, probes)),
    )


def _missing(components: tuple[Component, ...], gpus: tuple[GpuMatch, ...]) -> Iterable[Missing]:
    for component in components:
        if component.version is None:
            yield Missing(f"{component.name}: {component.purpose}", component.remedy)
    if not gpus:
        yield Missing(
            "a GPU: `kgen check` of Hopper packages without --compile-only, `kgen build`, measurements",
            "run on a machine that has one",
        )
    torch = next(component.version for component in components if component.name == "torch")
    if torch is not None and torch.endswith("+cpu") and gpus:
        yield Missing(f"torch {torch} is built without GPU support", "install the torch build of this GPU: pytorch.org")
    for match in gpus:
        if match.device is None:
            yield Missing(
                f"a device file for {match.gpu.name} ({match.gpu.isa}, {match.gpu.compute_units} units)",
                "`kgen probe -o FILE` writes one for --target FILE; or name the nearest device",
            )


def _not_working(components: tuple[Component, ...], probes: tuple[Probe, ...]) -> Iterable[Missing]:
    flydsl = next(component.version for component in components if component.name == "flydsl")
    if flydsl not in (None, FLYDSL_MADE_FOR):
        yield Missing(f"flydsl {FLYDSL_MADE_FOR}: kgen reads private parts of it, and {flydsl} is installed", _CDNA)
    for probe in probes:
        if probe.failure is not None:
            yield Missing(f"{probe.what}: {probe.failure}", _CDNA)


def doctor_table(diagnosis: Diagnosis) -> RenderableType:
    """Return the diagnosis for a terminal."""
    have = Table("component", "version", "used for", title="installed", title_justify="left")
    have.add_row("kgen", diagnosis.kgen or "from a checkout", "")
    have.add_row("python", diagnosis.python, diagnosis.executable)
    have.add_row("CUDA driver", diagnosis.cuda_driver or "not here", "launches on NVIDIA GPUs")
    for component in diagnosis.components:
        have.add_row(component.name, component.version or "not here", component.purpose)
    for probe in diagnosis.probes:
        have.add_row(probe.what, probe.outcome, "tried out just now")
    for match in diagnosis.gpus:
        have.add_row(match.gpu.name, f"{match.gpu.compute_units} units", f"device file: {match.device or 'none'}")
    lacks = Table("missing", "how to get it", title="missing", title_justify="left")
    for item in diagnosis.missing:
        lacks.add_row(escape(item.what), escape(item.remedy))  # `kgen[hopper]` is no markup
    return Group(have, lacks) if diagnosis.missing else Group(have)
