"""What a measurement needs of a package's `plan.json` and `shapes.json`: work, variants, grids, the incumbent.

Only files are read; nothing of the package is imported.
"""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kgen.bench.report import Constraint
from kgen.bench.validation import first_problem
from kgen.errors.check import NotAPackageError, PlanFileError

T = TypeVar("T")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Work(_Part):
    """Least work of one case: operations, and bytes when every element is touched once."""

    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.bytes_read + self.bytes_written


class Derived(_Part):
    """The lets of a candidate that a measurement reads; families of small needs count no shared memory."""

    ctas_per_unit: int  # that one compute unit holds at once
    threads: int | None = None  # an axis in some families
    smem_bytes: int | None = None


class Choice(_Part):
    """One candidate with its predicted time; `choices` are the axes of its family."""

    choices: dict[str, Any]
    derived: Derived
    time_us: float
    bound_by: str
    ctas: int

    def __str__(self) -> str:
        return ", ".join(f"{axis} {value}" for axis, value in self.choices.items())


class Variant(_Part):
    """One kernel of the plan, and the choices that came next."""

    name: str
    case: str
    kernel: str
    choice: Choice
    runners_up: tuple[Choice, ...]

    @property
    def words(self) -> str:
        """The configuration in words: tile, threads, grid, and the rest of the choices."""
        derived = self.choice.derived
        threads = f"{derived.threads} threads, " if derived.threads is not None else ""
        smem = f"{derived.smem_bytes} bytes of smem, " if derived.smem_bytes is not None else ""
        return f"{self.choice}; {threads}{smem}{self.choice.ctas} CTAs"


class Output(_Part):
    """One result of the reference."""

    name: str
    dtype: str


class Tolerance(_Part):
    """Limits on the error of an output."""

    rel_err: float
    atol: float | None


class StatedIncumbent(_Part):
    """The incumbent that the spec names: a file of the package, or a module to import."""

    file: str | None
    module: str | None
    entry: str
    origin: str
    init_args: tuple[Any, ...] = ()
    init_kwargs: dict[str, Any] = {}
    sha256: str | None = None


class PlanFacts(_Part):
    """plan.json as far as a measurement needs it."""

    name: str
    family: str
    computation: tuple[str, ...]
    files: tuple[str, ...]
    tolerance: Tolerance
    product_dtype: str
    outputs: tuple[Output, ...]
    work: dict[str, Work]
    incumbent: StatedIncumbent | None
    constraints: tuple[Constraint, ...]
    variants: tuple[Variant, ...]

    def variants_of(self, case: str) -> tuple[Variant, ...]:
        """Return of each kernel, in launch order, the variant that is tried first: aligned operands run it."""
        first: dict[str, Variant] = {}
        for variant in self.variants:
            if variant.case == case:
                first.setdefault(variant.kernel, variant)
        return tuple(first.values())

    def slowest_of(self, case: str) -> Variant:
        """Return the one of these that takes the most of a case's predicted time."""
        return max(self.variants_of(case), key=lambda variant: variant.choice.time_us)

    def predicted_us(self, case: str) -> float:
        """Return the predicted time of all kernels of a case."""
        return sum(variant.choice.time_us for variant in self.variants_of(case))


class ShapeCase(_Part):
    """One case of shapes.json; no constructor's arguments where kernel.py offers a function."""

    init_kwargs: dict[str, Any] | None
    input_kwargs: dict[str, Any]


def read_plan(folder: Path) -> PlanFacts:
    """Read plan.json; raises `NotAPackageError` or `PlanFileError`."""
    return _read(folder / "plan.json", TypeAdapter(PlanFacts))


def read_shapes(folder: Path) -> dict[str, ShapeCase]:
    """Read shapes.json, case by case; raises `NotAPackageError` or `PlanFileError`."""
    return _read(folder / "shapes.json", TypeAdapter(dict[str, ShapeCase]))


def _read(file: Path, kind: TypeAdapter[T]) -> T:
    try:
        return kind.validate_python(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotAPackageError(folder=file.parent, missing=file.name) from None
    except ValidationError as error:
        raise PlanFileError(file=file, reason=first_problem(error)) from None
    except ValueError as error:
        raise PlanFileError(file=file, reason=f"not valid JSON: {error}") from None
