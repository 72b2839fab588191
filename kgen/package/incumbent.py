"""The incumbent in a package: a copy of its text, byte for byte, and what `plan.json` says of it.

The copy is the comparison arm of every measurement; the original may change under it.
"""

from kgen.package.folder import text_digest
from kgen.spec.model import Reference, ReferenceKind

INCUMBENT_FILE = "incumbent.py"


def incumbent_files(incumbent: Reference | None) -> dict[str, str]:
    """Return the copy of an incumbent whose text is known; one that is imported by name has none."""
    return {INCUMBENT_FILE: incumbent.source} if incumbent is not None and incumbent.source else {}


def incumbent_json(incumbent: Reference | None) -> dict[str, object] | None:
    """Return where the incumbent is and what is called: a file of the package, or a module to import."""
    if incumbent is None:
        return None
    is_import = incumbent.kind is ReferenceKind.IMPORT
    return {
        "file": None if is_import else INCUMBENT_FILE,
        "module": incumbent.file if is_import else None,
        "entry": incumbent.entry,
        "origin": incumbent.file,
        "init_args": list(incumbent.init_args),
        "init_kwargs": dict(incumbent.init_kwargs),
        "sha256": None if is_import else text_digest(incumbent.source),
    }
