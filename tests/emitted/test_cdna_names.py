"""Emitted CDNA files and their library say only names of FlyDSL that its `__all__` lists declare."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
ROOT = Path(__file__).resolve().parents[2]
FILES = [*ROOT.glob("generated/mi*/*/kernel.py"), *ROOT.glob("templates/flydsl/lib/*.py")]
# Sub-modules that fx names, and what is said of them: the declared names of their own files.
HOMES = {
    "": ("numeric", "typing", "enum", "primitive", "gpu", "derived", "struct", "arith", "math", "llvm"),
    "rocdl": ("rocdl/__init__",),
    "coop": ("../extension/coop/warp/__init__",),
    "gpu": ("gpu",),
    "arith": ("arith",),
}


def declared(home: str) -> set[str]:
    """Return the names of a module's `__all__`, read from its source: the DSL is not imported here."""
    spec = find_spec("flydsl")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs FlyDSL")
    folder = Path(spec.submodule_search_locations[0]) / "expr"
    found: set[str] = set()
    for name in HOMES[home]:
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        lists = [n.value for n in tree.body if isinstance(n, ast.Assign) and "__all__" in map(ast.unparse, n.targets)]
        assert lists, f"{name} declares nothing"
        found |= {c.value for c in ast.walk(lists[0]) if isinstance(c, ast.Constant)}
    return found


def said(file: Path) -> set[tuple[str, str]]:
    """Return the names that a file takes from fx, and from its sub-modules."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Attribute):
            continue
        home, _, rest = ast.unparse(node.value).partition("fx")
        if not home and rest in ("", *(f".{name}" for name in HOMES if name)):
            found.add((rest[1:], node.attr))
    return {pair for pair in found if not (pair[0] == "" and pair[1] in HOMES)}


def test_names_are_declared() -> None:
    assert len(FILES) > 30
    known = {home: declared(home) for home in HOMES}
    wrong = {
        f"{file.relative_to(ROOT)}: fx.{home + '.' * bool(home)}{name}"
        for file in FILES
        if "class Access" in file.read_text(encoding="utf-8") or "lib" in file.parts
        for home, name in said(file)
        if name not in known[home]
    }
    assert not wrong, "\n".join(sorted(wrong))
