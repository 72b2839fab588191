"""The compiled rules of the GEMM family on one arch: what the hardware allows and what the templates print."""

from functools import cache
from pathlib import Path

from kgen.errors.base import Where
from kgen.errors.target import FamilyNotOnArchError, UnknownSourceError
from kgen.families.gemm.rules_facts import GEMM_VOCABULARY, GemmFacts
from kgen.resources import resource_root, targets_dir, templates_dir
from kgen.rules.model import RulesFile
from kgen.rules.nearest import nearest_name
from kgen.rules.parse import parse_rules
from kgen.rules.ruleset import RuleSet, compile_rules
from kgen.rules.solve import BoundRules, bind
from kgen.target import Arch, Device, load_sources


def gemm_rules(arch: Arch, *, lowered: bool = True) -> RuleSet:
    """Return the rules of an arch; without `lowered`, what the hardware allows alone."""
    files = [targets_dir() / arch.name / "gemm.rules"]
    if lowered:
        files.append(templates_dir() / arch.backend / arch.templates / "gemm" / "lowered.rules")
    for path in files:
        if not path.is_file():
            raise FamilyNotOnArchError(family="gemm", arch=arch.title, missing=_shown(path))
    return _compiled(tuple(files))


def bind_gemm(facts: GemmFacts, device: Device, *, lowered: bool = True) -> BoundRules:
    """Give the rules of a device's arch the facts of one problem."""
    return bind(gemm_rules(device.arch, lowered=lowered), {**device.rule_fields(), **facts.as_mapping()})


@cache
def _compiled(paths: tuple[Path, ...]) -> RuleSet:
    files = tuple(parse_rules(path.read_text(encoding="utf-8"), _shown(path)) for path in paths)
    for file in files:
        _check_sources(file)
    return compile_rules(files, GEMM_VOCABULARY)


def _shown(path: Path) -> str:
    return path.relative_to(resource_root()).as_posix()


def _check_sources(file: RulesFile) -> None:
    known = load_sources()
    for statement in file.statements:
        if statement.source and statement.source not in known:
            line = file.lines[statement.span.line - 1]
            column = line.rfind(statement.source) + 1
            where = Where(file.name, statement.span.line, column, line)
            raise UnknownSourceError(
                where=where, source=statement.source, nearest=nearest_name(statement.source, known)
            )
