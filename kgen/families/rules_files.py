"""The rules files of a family on an arch, compiled: what the hardware allows, and what the templates print of it."""

from functools import cache
from pathlib import Path

from kgen.errors.base import Where
from kgen.errors.target import FamilyNotOnArchError, UnknownSourceError
from kgen.resources import resource_root, targets_dir, templates_dir
from kgen.rules.model import RulesFile
from kgen.rules.nearest import nearest_name
from kgen.rules.parse import parse_rules
from kgen.rules.ruleset import RuleSet, Vocabulary, compile_rules
from kgen.target import Arch, load_sources


@cache
def family_rules(vocabulary: Vocabulary, arch: Arch, *, lowered: bool = True) -> RuleSet:
    """Return the rules of the vocabulary's family on an arch; without `lowered`, what the hardware allows alone.

    Raises `FamilyNotOnArchError` where a file is missing.
    """
    family = vocabulary.family
    files = [targets_dir() / arch.name / f"{family}.rules"]
    if lowered:
        files.append(_lowered_file(family, arch))
    for path in files:
        if not path.is_file():
            raise FamilyNotOnArchError(family=family, arch=arch.title, missing=_shown(path))
    return _compiled(tuple(files), vocabulary)


def has_rules(family: str, arch: Arch) -> bool:
    """Return whether there are rules of what the hardware of an arch allows."""
    return (targets_dir() / arch.name / f"{family}.rules").is_file()


def is_lowered(family: str, arch: Arch) -> bool:
    """Return whether templates print the kernels of a family on an arch."""
    return _lowered_file(family, arch).is_file()


def _lowered_file(family: str, arch: Arch) -> Path:
    return templates_dir() / arch.backend / arch.templates / family / "lowered.rules"


@cache
def _compiled(paths: tuple[Path, ...], vocabulary: Vocabulary) -> RuleSet:
    files = tuple(parse_rules(path.read_text(encoding="utf-8"), _shown(path)) for path in paths)
    for file in files:
        _check_sources(file)
    return compile_rules(files, vocabulary)


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
