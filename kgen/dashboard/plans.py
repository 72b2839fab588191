"""plan.json, condensed to what the page shows: the choice, its predicted terms, what the rules removed, who came next.

Rules are many packages' common text, so they are kept once for the page and named by number.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgen.bench.plan_facts import PlanFacts, read_plan
from kgen.errors.check import PlanFileError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PackagePlan:
    """A package folder: what its plan.json says, typed as far as a measurement needs it, and as it stands."""

    folder: str  # as the page shows it: from the root's name on, never absolute
    device: str
    arch: str
    kernel_digest: str | None  # of the kernel.py that is there, which may have been edited; None where it is missing
    facts: PlanFacts
    text: Mapping[str, Any]

    @property
    def is_edited(self) -> bool:
        """Whether kernel.py is not the one that the plan describes."""
        return self.kernel_digest != self.text.get("kernel_digest")


@dataclass(slots=True)
class RuleBook:
    """The rules that removed points anywhere, each once, in the order they were met."""

    places: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def number(self, rule: str, because: str, place: str) -> int:
        """Return the number of a rule, a new one for a new rule."""
        return self.places.setdefault((rule, because, place), len(self.places))

    def to_json(self) -> list[list[str]]:
        """Return [rule, because, place] by number."""
        return [list(entry) for entry in self.places]


def read_package(folder: Path, root: Path) -> PackagePlan:
    """Read a package below `root`; raises `NotAPackageError` or `PlanFileError`."""
    facts = read_plan(folder)
    text = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    kernel = folder / "kernel.py"
    digest = hashlib.sha256(kernel.read_bytes()).hexdigest() if kernel.is_file() else None
    target = text.get("target", {})
    shown = folder_name(folder, root)
    package = PackagePlan(shown, target.get("device", "?"), target.get("arch", "?"), digest, facts, text)
    try:
        plan_json(package, RuleBook())
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # another version's: it must not stop the page
        reason = f"not a plan that the dashboard can show: {type(error).__name__} {error}"
        raise PlanFileError(file=folder / "plan.json", reason=reason) from None
    return package


def folder_name(folder: Path, root: Path) -> str:
    """Return a folder as the page names it: the same wherever the root lies."""
    return (Path(root.resolve().name) / folder.relative_to(root)).as_posix()


def plan_json(package: PackagePlan, rules: RuleBook) -> Json:
    """Return the plan of a package for its section."""
    text = package.text
    return {
        "computation": list(package.facts.computation),
        "cut": text.get("cut", []),
        "fixed": [_fixed(entry) for entry in text.get("fixed", [])],
        "tolerance": package.facts.tolerance.rel_err,
        "incumbent": package.facts.incumbent.origin if package.facts.incumbent else None,
        "evidence": {entry["variant"]: _expected(entry) for entry in text.get("evidence", [])},
        "variants": [_variant(variant, rules) for variant in text.get("variants", [])],
    }


def short(value: float) -> float:
    """Return a number with the five digits that a reader can use, so that the page stays small."""
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def _fixed(entry: Mapping[str, Any]) -> list[str]:
    """Return [axis and value, reason] of an axis that the spec decided."""
    case = f" in case {entry['case']}" if "case" in entry else ""
    return [f"{entry['axis']} {entry['value']}{case}", str(entry["because"])]


def _expected(entry: Mapping[str, Any]) -> Json:
    """Return what the machine code of a variant must show, without what is not stated."""
    return {key: value for key, value in entry.items() if key != "variant" and value is not None}


def _variant(variant: Mapping[str, Any], rules: RuleBook) -> Json:
    choice = variant["choice"]
    return {
        "name": variant["name"],
        "case": variant["case"],
        "kernel": variant["kernel"],
        "guard": [_guard(entry) for entry in variant.get("guard", [])],
        **_candidate(choice),
        "choices": choice["choices"],
        "derived": {name: _plain(value) for name, value in choice["derived"].items()},
        "grid": {name: _plain(choice[name]) for name in _GRID if name in choice},
        "raster": choice.get("raster"),
        "points": variant.get("points"),
        "legal": variant.get("legal"),
        "removed": [
            [rules.number(entry["rule"], entry["because"], entry["place"]), entry["removed"]]
            for entry in variant.get("rejections", [])
        ],
        "runners": [_runner(runner, choice) for runner in variant.get("runners_up", [])],
    }


_GRID = ("ctas", "waves", "wave_efficiency", "padding_efficiency")


def _guard(entry: Mapping[str, Any]) -> str:
    return f"{entry['tensor']} aligned to {entry['base_align_bytes']} bytes"


def _candidate(choice: Mapping[str, Any]) -> Json:
    terms = {name: short(value) for name, value in choice.get("terms_us", {}).items()}
    return {"us": short(choice["time_us"]), "bound": choice["bound_by"], "terms": terms}


def _runner(runner: Mapping[str, Any], chosen: Mapping[str, Any]) -> Json:
    """Return a runner-up: the axes and predicted terms in which it differs from the choice."""
    differs = {axis: value for axis, value in runner["choices"].items() if chosen["choices"].get(axis) != value}
    found = _candidate(runner)
    own = {name: short(value) for name, value in chosen.get("terms_us", {}).items()}
    found["terms"] = {name: value for name, value in found["terms"].items() if own.get(name) != value}
    return {**found, "differs": differs}


def _plain(value: object) -> object:
    return short(value) if isinstance(value, float) else value
