"""The records of what could not be carried out: of each package of a task, and of a measurement for each case."""

import json
import platform

from kgen.errors.base import BadInputError, KgenError, UnsupportedError
from kgen.package.folder import PLAN_FILE
from kgen.records import Kind, Record, Status, now
from kgen.regen.identity import emit_toolchain
from kgen.regen.tasks import EmitTask, Made, Origin, Step, Task

KIND_OF = {Step.EMIT: Kind.EMIT, Step.CHECK: Kind.CHECK, Step.TEST: Kind.CHECK, Step.BENCH: Kind.BENCH}
_ERROR_CHARACTERS = 4000  # of an error that is recorded: a compiler can say much


def refused(origin: Origin, error: KgenError) -> Record:
    """Return the record of a package that was not made: refused for what the spec says, or failed."""
    status = Status.REFUSED if isinstance(error, UnsupportedError | BadInputError) else Status.FAILED
    return _record(origin, Step.EMIT, status, error.text())


def not_made(origin: Origin, reason: str) -> Record:
    """Return the record of a package that could not be written, or whose process ended."""
    return _record(origin, Step.EMIT, Status.FAILED, reason)


def failed(task: Task, reason: str) -> tuple[Made, ...]:
    """Return what is recorded of a task that could not be carried out."""
    if isinstance(task, EmitTask):
        return tuple(Made(origin, (not_made(origin, reason),), {}, {}) for origin in task.origins)
    digest: str | None = json.loads(task.files[PLAN_FILE]).get("kernel_digest")
    cases = tuple(json.loads(task.files["shapes.json"])) if task.step is Step.BENCH else (None,)
    rows = tuple(_record(task.origin, task.step, Status.FAILED, reason, digest, case) for case in cases)
    return (Made(task.origin, rows, {}, {}),)


def unread(origin: Origin, step: Step, reason: str) -> Record:
    """Return the record of a later step of a package whose files could not be read."""
    return _record(origin, step, Status.FAILED, reason)


def short(text: str) -> str:
    """Return an error as it is recorded."""
    return text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]} ..."


def _record(
    origin: Origin, step: Step, status: Status, reason: str, kernel_digest: str | None = None, case: str | None = None
) -> Record:
    return Record(
        **origin.fields(),
        kind=KIND_OF[step],
        kernel_digest=kernel_digest,
        toolchain=emit_toolchain(),
        host=platform.node(),
        gpu=None,
        status=status,
        error=short(reason),
        case=case,
        how="not carried out",
        figures={},
        plan=None,
        at=now(),
    )
