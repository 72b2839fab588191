"""Where `templates/` and `targets/` are: beside the package in a checkout, inside it in an installed wheel."""

import hashlib
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


@cache
def sources_digest() -> str:
    """Return the digest of kgen's code, templates and rules: in a checkout a version number says too little.

    Device files are left out: what is made for one device does not change with the file of another.
    """
    digest = hashlib.sha256()
    for folder in (_PACKAGE, templates_dir(), targets_dir()):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and _is_source(p)):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _is_source(path: Path) -> bool:
    return "__pycache__" not in path.parts and path.parent.name != "devices"
