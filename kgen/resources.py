"""Where `templates/` and `targets/` are: beside the package in a checkout, inside it in an installed wheel."""

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def resource_root() -> Path:
    """Return the folder that holds `templates/` and `targets/`."""
    for root in (_PACKAGE / "_resources", _PACKAGE.parent):
        if (root / "templates").is_dir() and (root / "targets").is_dir():
            return root
    raise FileNotFoundError(
        f"kgen's templates/ and targets/ are neither in {_PACKAGE / '_resources'} nor beside {_PACKAGE}"
    )


def templates_dir() -> Path:
    """Return the folder of the Jinja templates."""
    return resource_root() / "templates"


def targets_dir() -> Path:
    """Return the folder of the target description files."""
    return resource_root() / "targets"
