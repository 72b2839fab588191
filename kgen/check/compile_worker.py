"""One of several workers: compiles packages in its subprocess, restarts that when it dies, reads the cubins."""

import tempfile
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from kgen.check.compile_process import CompileProcess, CompileRequest
from kgen.check.event_process import ProcessEnded
from kgen.check.launch import Launch, launches_of
from kgen.check.package import PackageFolder
from kgen.check.result import VariantEvidence
from kgen.check.sass import KernelEvidence, arch_of, kernels_of, machine_code_of
from kgen.check.toolchain import Disassemblers


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came out of one package; `failure` is why its kernel.py could not even be imported."""

    variants: tuple[VariantEvidence, ...]
    failure: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether everything compiled: only then is it worth keeping."""
        return self.failure is None and all(variant.failure is None for variant in self.variants)


class CompileWorker:
    """Compiles one package after the other; belongs to one thread, but for `interrupt`."""

    def __init__(self, scratch: Path, disassemblers: Disassemblers, limit_seconds: float) -> None:
        """`scratch` is a private folder that the caller removes."""
        self._scratch = scratch
        self._disassemblers = disassemblers
        self._limit_seconds = limit_seconds
        self._process: CompileProcess | None = None
        self._arch = ""
        self._is_interrupted = False
        self._modules = count()

    def compile(self, package: PackageFolder, arch: str) -> Compiled:
        """Compile every variant of the package for `arch`, as the DSL spells it."""
        process = self._process_for(arch)
        out = Path(tempfile.mkdtemp(dir=self._scratch))
        request = CompileRequest(package.kernel_file.resolve(), f"kgen_checked_{next(self._modules)}", out)
        variants: list[VariantEvidence] = []
        failure: str | None = None
        current: str | None = None
        try:
            for event in process.compile(request, self._limit_seconds):
                current = event["variant"]
                match event["event"]:
                    case "variant":
                        variants.append(self._read(event, arch))
                    case "failed" if current is None:
                        failure = event["error"]
                    case "failed":
                        variants.append(VariantEvidence(current, failure=event["error"]))
        except ProcessEnded as error:
            ending = f"the compile subprocess ended ({error.ending})\n{process.stderr_tail()}".strip()
            self.close()
            if current is None:
                failure = ending
            else:
                variants.append(VariantEvidence(current, failure=ending))
        return Compiled(tuple(variants), failure)

    def interrupt(self) -> None:
        """End the subprocess from another thread, so that `compile` returns at once, now and ever after."""
        self._is_interrupted = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the subprocess and free what belongs to it."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _process_for(self, arch: str) -> CompileProcess:
        if self._process is not None and self._arch != arch:
            self.close()
        if self._process is None:
            self._process = CompileProcess(arch, self._scratch)
            self._arch = arch
        if self._is_interrupted:  # while it started: `interrupt` could not see it yet
            self._process.kill()
        return self._process

    def _read(self, event: dict[str, Any], arch: str) -> VariantEvidence:
        cubin, host_ir = Path(event["cubin"]), Path(event["host_ir"])
        sass = self._disassemblers.listing(cubin)
        launches = launches_of(host_ir.read_text(encoding="utf-8"))
        kernels = kernels_of(sass, self._disassemblers.resource_usage(cubin), machine_code_of(arch))
        cubin.unlink()
        host_ir.unlink()
        return VariantEvidence(
            variant=event["variant"],
            seconds=event["seconds"],
            arch=arch_of(sass),
            kernels=tuple(_with_launch(kernel, launches) for kernel in kernels),
            sass=sass,
        )


def _with_launch(kernel: KernelEvidence, launches: tuple[Launch, ...]) -> KernelEvidence:
    """Add the launch arguments, when every launch of the kernel has the same ones."""
    mine = [launch for launch in launches if launch.is_of(kernel.kernel)]
    threads = {launch.threads for launch in mine}
    dynamic = {launch.dynamic_smem_bytes for launch in mine}
    clusters = {launch.cluster for launch in mine}
    return replace(
        kernel,
        threads=threads.pop() if len(threads) == 1 else None,
        dynamic_smem_bytes=dynamic.pop() if len(dynamic) == 1 else None,
        cluster=clusters.pop() if len(clusters) == 1 else None,
    )
