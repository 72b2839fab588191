"""The support matrix, ISA x family, computed from which files exist: no list of it is kept anywhere."""

from dataclasses import dataclass

from kgen.resources import targets_dir, templates_dir
from kgen.target import Arch, all_devices


@dataclass(frozen=True, slots=True)
class Support:
    """What there is for one family on one arch."""

    arch: str
    isa: str
    family: str
    rules: bool
    templates: bool

    @property
    def level(self) -> str:
        """In words: "kernels" when it can be emitted, "rules" when it can be solved only, else "none"."""
        if not self.rules:
            return "none"
        return "kernels" if self.templates else "rules"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "arch": self.arch,
            "isa": self.isa,
            "family": self.family,
            "rules": self.rules,
            "templates": self.templates,
            "level": self.level,
        }


def support_matrix() -> tuple[Support, ...]:
    """Return an entry per arch and family, archs in the order of their folders, families by name."""
    archs = {device.arch.name: device.arch for device in all_devices()}
    families = sorted({path.stem for path in targets_dir().glob("*/*.rules")})
    return tuple(_support(arch, family) for arch in archs.values() for family in families)


def _support(arch: Arch, family: str) -> Support:
    rules = (targets_dir() / arch.name / f"{family}.rules").is_file()
    templates = (templates_dir() / arch.backend / arch.templates / family / "lowered.rules").is_file()
    return Support(arch.name, arch.isa, family, rules, templates)
