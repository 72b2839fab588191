"""One of several workers: compiles packages in its subprocess, restarts that when it dies, has the results read."""

import tempfile
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from kgen.check.compile_process import CompileProcess, CompileRequest
from kgen.check.event_process import ProcessEnded
from kgen.check.kept_process import KeptProcess
from kgen.check.package import PackageFolder
from kgen.check.result import VariantEvidence
from kgen.check.toolchains import Toolchain


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came out of one package; `failure` is why its kernel.py could not even be imported."""

    variants: tuple[VariantEvidence, ...]
    failure: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether everything compiled: only then is it worth keeping."""
        return self.failure is None and bool(self.variants) and all(v.failure is None for v in self.variants)


class CompileWorker:
    """Compiles one package after the other; belongs to one thread, but for `interrupt`."""

    def __init__(self, scratch: Path, limit_seconds: float) -> None:
        """`scratch` is a private folder that the caller removes."""
        self._scratch = scratch
        self._limit_seconds = limit_seconds
        self._kept = KeptProcess[CompileProcess]()
        self._modules = count()

    def compile(self, package: PackageFolder, toolchain: Toolchain, isa: str) -> Compiled:
        """Compile every variant of the package for an ISA, as the tool chain spells it."""
        process = self._kept.running((toolchain, isa), partial(self._started, toolchain, isa))
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
                        variants.append(toolchain.read(event, isa))
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
        except BaseException:
            self.close()  # what it still has to say is of this request
            raise
        return Compiled(tuple(variants), failure)

    def interrupt(self) -> None:
        """End the subprocess from another thread, so that `compile` returns at once, now and ever after."""
        self._kept.interrupt()

    def close(self) -> None:
        """End the subprocess and free what belongs to it."""
        self._kept.close()

    def _started(self, toolchain: Toolchain, isa: str) -> CompileProcess:
        return CompileProcess(toolchain.command(), toolchain.environment(isa, self._scratch), self._scratch)
