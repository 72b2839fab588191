"""`kgen emit --all`: every spec of a folder on each of its devices, and what stands in `generated/` with no spec.

Works through jobs one at a time; one that fails is an outcome like the others, and the rest goes on.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.api import Package, emit, load_spec
from kgen.errors.base import KgenError
from kgen.errors.cli import FaultError, NoSpecsError, NoTargetError, SameFolderError
from kgen.package.folder import GENERATOR, PLAN_FILE, Differences, compare_package
from kgen.spec.model import Spec
from kgen.target import list_devices, load_device

SPECS = "specs/*.yaml"
GENERATED = Path("generated")


@dataclass(frozen=True, slots=True)
class Job:
    """One package to make, or the error that says why it cannot be."""

    spec_file: Path
    spec: Spec | None
    device: str
    folder: Path | None
    error: KgenError | None = None

    @property
    def title(self) -> str:
        """The job in one line."""
        return f"{self.spec_file} for {self.device}" if self.device else str(self.spec_file)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: a package (written, or compared), or an error."""

    job: Job
    package: Package | None
    differences: Differences | None
    error: KgenError | None

    @property
    def exit_code(self) -> int:
        """What the command line returns for it."""
        if self.error is not None:
            return self.error.exit_code
        return 1 if self.differences else 0

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        found: dict[str, object] = {"spec": str(self.job.spec_file), "ok": self.exit_code == 0}
        if self.job.device:
            found["device"] = self.job.device
        if self.package is not None:
            found |= self.package.to_json()
            found["folder"] = str(self.job.folder)
        if self.differences is not None:
            kinds = {"missing": self.differences.missing, "extra": self.differences.extra}
            found |= {name: list(names) for name, names in {**kinds, "changed": self.differences.changed}.items()}
        return found if self.error is None else {**found, **self.error.to_json()}


def spec_files(folder: Path) -> tuple[Path, ...]:
    """Return the specs of a folder, by name; raises `NoSpecsError` when there is none."""
    files = tuple(sorted(folder.glob(SPECS)))
    if not files:
        raise NoSpecsError(pattern=SPECS, folder=folder.resolve())
    return files


def jobs_of(files: Iterable[Path], targets: Sequence[str], out: Path) -> tuple[Job, ...]:
    """Return a job per spec and device; `targets` replaces the devices that a spec names, if it is not empty."""
    jobs: list[Job] = []
    makers: dict[Path, Path] = {}
    for file in files:
        try:
            spec = load_spec(file)
            if not (targets or spec.targets):
                raise NoTargetError(name=spec.name, known=", ".join(list_devices()))
        except Exception as error:
            jobs.append(Job(file, None, "", None, as_kgen_error(error)))
            continue
        for device in dict.fromkeys(targets or spec.targets):
            jobs.append(_job(file, spec, device, out, makers))
    return tuple(jobs)


def _job(file: Path, spec: Spec, target: str, out: Path, makers: dict[Path, Path]) -> Job:
    try:
        folder = out / load_device(target, spec.target_place(target)).name / spec.name
    except KgenError as error:
        return Job(file, spec, target, None, error)
    if folder in makers:
        clash = SameFolderError(spec=file, other=makers[folder], folder=folder)
        return Job(file, spec, target, folder, clash)
    makers[folder] = file
    return Job(file, spec, target, folder)


def do_jobs(jobs: Iterable[Job], *, compare: bool) -> Iterator[Outcome]:
    """Yield the outcome of each job in order; `compare` reads the folders and writes nothing."""
    for job in jobs:
        try:
            yield _do(job, compare)
        except Exception as error:
            yield Outcome(job, None, None, as_kgen_error(error))


def as_kgen_error(error: Exception) -> KgenError:
    """Return a refusal as it is, and a fault of kgen as one that the other jobs survive."""
    if isinstance(error, KgenError):
        return error
    fault = FaultError(kind=type(error).__name__, reason=error)
    fault.__cause__ = error
    return fault


def original(error: KgenError) -> BaseException:
    """Return what was raised: of a fault the exception itself, which has the traceback."""
    return error.__cause__ or error if isinstance(error, FaultError) else error


def _do(job: Job, compare: bool) -> Outcome:
    if job.error is not None:
        return Outcome(job, None, None, job.error)
    assert job.spec is not None and job.folder is not None
    package = emit(job.spec, target=job.device, folder=None if compare else job.folder)
    differences = compare_package(package.files, job.folder) if compare else None
    return Outcome(job, package, differences, None)


def orphans(jobs: Sequence[Job], targets: Sequence[str], out: Path) -> tuple[Path, ...]:
    """Return the packages below `out` that no job makes, on `targets` only if there are any.

    None while a spec cannot be read: its packages cannot be told from those that no spec makes.
    """
    if any(job.folder is None for job in jobs):
        return ()
    made = {job.folder for job in jobs}
    devices = {load_device(target).name for target in targets}
    found = (folder for folder in out.glob("*/*") if not devices or folder.parent.name in devices)
    return tuple(sorted(folder for folder in found if _is_package(folder) and folder not in made))


def _is_package(folder: Path) -> bool:
    try:
        plan = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(plan, dict) and plan.get("generator") == GENERATOR
