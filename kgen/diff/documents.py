"""Plans as documents: what plan.json or a record says of each variant, read with nothing of the compiler."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgen.errors.diff import PlanUnreadableError

Value = int | str
_TENSORS, _BUFFER = ("input ", "output ", "updated "), "buffer_"


@dataclass(frozen=True, slots=True)
class StatedChoice:
    """A choice as a plan states it, with the times that were predicted for it."""

    choices: Mapping[str, Value]
    derived: Mapping[str, float]
    time_us: float
    terms_us: Mapping[str, float]
    bound_by: str
    waves: int
    wave_efficiency: float
    raster: Mapping[str, Value] | None  # of products: the order of tiles


@dataclass(frozen=True, slots=True)
class StatedVariant:
    """A variant as a plan states it; `place` is its number among the variants of its kernel."""

    name: str
    case: str
    kernel: str
    place: int
    guard: Mapping[str, int]  # tensor -> bytes that its base address is a multiple of
    choice: StatedChoice
    runners_up: tuple[StatedChoice, ...]
    rejections: Mapping[str, tuple[str, str]]  # rule -> its place and reason
    evidence: Mapping[str, Any]  # what its machine code must show; nothing where that is not known


@dataclass(frozen=True, slots=True)
class StatedPlan:
    """One package's plan on one device, with what was measured of it; `made_by` says who made it, as far as known.

    `kernels` are the kernels of the first case as texts, without their names; empty where they are not known.
    `inputs` digests what the user decided, `templates` what kernel.py was printed from; None where they are not known.
    `folder` is that of a package, None for a plan from the records.
    """

    name: str
    device: str
    isa: str | None
    origin: str
    variants: tuple[StatedVariant, ...]
    kernels: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    inputs: str | None = None
    kernel_digest: str | None = None
    templates: Mapping[str, str] = field(default_factory=dict)
    made_by: Mapping[str, str] = field(default_factory=dict)
    compiled: Mapping[str, float] = field(default_factory=dict)  # registers, spills, ... of the machine code
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # case -> latency_us, ratio, ...
    folder: Path | None = None

    def kernels_of(self, case: str) -> tuple[str, ...]:
        """Return the names of a case's kernels in launch order."""
        return tuple(dict.fromkeys(v.kernel for v in self.variants if v.case == case))

    @property
    def signature(self) -> frozenset[str]:
        """The tensors of the caller's in the first case, whatever kernels take them; nothing where it is not known."""
        lines = (line.strip() for kernel in self.kernels for line in kernel.splitlines())
        tensors = {line for line in lines if line.startswith(_TENSORS)}
        return frozenset(line for line in tensors if not line.split()[1].startswith(_BUFFER))

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases in order."""
        return tuple(dict.fromkeys(v.case for v in self.variants))


def plan_of_document(document: Mapping[str, Any], origin: str) -> StatedPlan:
    """Return the plan that a plan.json states. Raises `PlanUnreadableError`."""
    try:
        evidence = {entry["variant"]: entry for entry in document["evidence"]}
        return StatedPlan(
            name=document["name"],
            device=document["target"]["device"],
            isa=document["target"]["arch"],
            origin=origin,
            variants=variants_of(document["variants"], origin, evidence),
            kernels=tuple(kernel_texts(document["computation"])),
            cut=tuple(document["cut"]),
            inputs=document["input_digest"],
            kernel_digest=document["kernel_digest"],
            templates=dict(document["templates"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unreadable(origin, error) from error


def variants_of(
    found: list[Mapping[str, Any]], origin: str, evidence: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[StatedVariant, ...]:
    """Return the variants of a plan.json's list. Raises `PlanUnreadableError`."""
    places: dict[tuple[str, str], int] = {}
    made = []
    try:
        for entry in found:
            kernel = (entry["case"], entry["kernel"])
            place = places[kernel] = places.get(kernel, -1) + 1
            made.append(_variant(entry, place, (evidence or {}).get(entry["name"], {})))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unreadable(origin, error) from error
    return tuple(made)


def _unreadable(origin: str, error: Exception) -> PlanUnreadableError:
    reason = f"no {error} in its plan" if isinstance(error, KeyError) else f"its plan is not what kgen writes: {error}"
    return PlanUnreadableError(place=origin, reason=reason)


def _variant(entry: Mapping[str, Any], place: int, evidence: Mapping[str, Any]) -> StatedVariant:
    return StatedVariant(
        name=entry["name"],
        case=entry["case"],
        kernel=entry["kernel"],
        place=place,
        guard={g["tensor"]: g["base_align_bytes"] for g in entry["guard"]},
        choice=_choice(entry["choice"]),
        runners_up=tuple(_choice(r) for r in entry["runners_up"]),
        rejections={r["rule"]: (r["place"], r["because"]) for r in entry["rejections"]},
        evidence={name: value for name, value in evidence.items() if name != "variant"},
    )


def _choice(entry: Mapping[str, Any]) -> StatedChoice:
    raster = entry.get("raster")
    return StatedChoice(
        choices=dict(entry["choices"]),
        derived=dict(entry["derived"]),
        time_us=float(entry["time_us"]),
        terms_us=dict(entry["terms_us"]),
        bound_by=str(entry["bound_by"]),
        waves=int(entry["waves"]),
        wave_efficiency=float(entry["wave_efficiency"]),
        raster=None if raster is None else dict(raster),
    )


def kernel_texts(computation: Iterable[str]) -> Iterator[str]:
    """Yield each kernel's text without its name: a kernel is the same whatever number it has in its program."""
    lines: list[str] = []
    for line in computation:
        if line.startswith("problem ") and lines:
            yield "\n".join(lines)
            lines = []
        lines.append(f"problem {line.partition('[')[2]}" if line.startswith("problem ") else line)
    if lines:
        yield "\n".join(lines)
