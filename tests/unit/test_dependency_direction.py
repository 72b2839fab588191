"""Imports point one way, and third-party libraries have homes: walks every import statement of kgen.

The rule is docs/architecture.md's. What it does not say by itself, and this test states:
- `package` (files of a package, and their writer) stands between the back-ends and the pipeline; it sees `frontend`
  for the reference's text, and `render`.
- `render` may be imported by `backends` and `package`, whose texts it renders.
- `frontend`, `check`, `bench` and `render` are outside of the chain: few modules may see them, and they see few.
- `simulator` executes machine code and knows nothing of the compiler; `check` runs it.
- `records` keeps what folders and their reports say, and sees no compiler module either.
- `dashboard` works on folders and records, and renders one page.
- `bench` works on folders and sees no compiler module; `tune`, `sweep` and `port` stand above both and emit as well.
- `diff` compares plans as documents, and plans anew to find out why they differ.
- `probe` describes a GPU as a device file: it asks drivers as `check` does, and times as `bench` does.
- Above the pipeline stand `request`, `solution`, `support` and `golden` (what the command line asks), `built`
  (`kgen.build`), `doctor`, and `api`; `show` makes what `cli` prints, and
  `cli_bench`, `cli_records`, `cli_dashboard`, `cli_diff`, `cli_measure`, `cli_probe` and `cli_regen` hold the commands
  of `cli` that work on measurements and records, show them, compare, measure, probe and regenerate.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "kgen"

# Module or sub-package of kgen -> the others it may import.
MAY_SEE = {
    "errors": "",
    "resources": "",
    "ir": "errors resources",
    "target_yaml": "errors resources",
    "target": "errors resources ir layout target_yaml",
    "rules": "errors resources ir",
    "spec": "errors resources ir frontend exchange",  # frontend: only the importer of Python modules, found at the call
    "frontend": "errors resources ir spec",
    "render": "errors resources",
    "families": "errors resources ir spec target rules",
    "planning": "errors resources ir spec target rules families",
    "backends": "errors resources ir spec target rules families planning render",
    "exchange": "",
    "layout": "",
    "package": "errors resources ir spec target rules families planning render frontend exchange layout",
    "pipeline": "errors resources ir spec target rules families planning backends package frontend",
    "simulator": "errors",
    "check": "errors target simulator",
    "bench": "errors target check render exchange layout",
    "records": "errors target check bench layout exchange",
    "dashboard": "errors target bench render records exchange",
    "doctor": "errors target check",
    "probe": "errors target check bench exchange",
    "support": "errors resources target",
    "request": "errors spec target frontend",
    "solution": "errors ir spec target rules families planning pipeline request",
    "built": "errors resources ir spec target frontend package pipeline check doctor",
    "api": "errors spec target planning package pipeline check request solution built",
    "golden": "errors spec target package api",
    "incumbents": "errors spec",
    "tune": "errors spec target rules planning package check bench request api golden",
    "sweep": "errors planning check bench api tune",
    "port": "errors spec check bench api tune",
    "diff": "errors ir spec target rules planning package pipeline solution records layout",
    "regen": "errors resources spec target layout exchange package pipeline golden check bench records",
    "show": "errors target rules planning support solution golden records probe diff regen",
    "cli_bench": "errors target bench show",
    "cli_diff": "errors diff show",
    "cli_probe": "probe show",
    "cli_records": "errors records show",
    "cli_measure": "errors spec rules planning check bench request api golden incumbents tune sweep port show",
    "cli_dashboard": "dashboard show cli_records",
    "cli_regen": "errors golden check records regen show cli_records",
    "cli": (
        "errors spec target pipeline check doctor api request solution support golden show "
        "cli_bench cli_dashboard cli_diff cli_measure cli_probe cli_records cli_regen"
    ),
    "api_measure": "errors rules spec target bench request incumbents tune sweep port",
    "__init__": "errors api api_measure",
}
# Third-party package -> who may import it. `built` and the annotations of `api` and `request` speak of tensors.
HOMES = {
    "torch": "frontend bench built api request check probe",
    "lark": "rules",
    "sympy": "rules",
    "numpy": "rules families planning simulator check",
    "jinja2": "render",
    "jsonschema": "bench",
    "ruamel": "spec target target_yaml",
    "pydantic": "spec bench",
    "pyarrow": "records",
    "pydantic_core": "spec",
    "rich": "check bench doctor show cli cli_bench cli_dashboard cli_measure cli_records",
    "matplotlib": "bench",
    "elftools": "check",
    "msgpack": "check",
    "ray": "regen",
    "typer": "cli cli_bench cli_dashboard cli_diff cli_measure cli_probe cli_records cli_regen",
}
MAY_BE_LATE = {("spec", "frontend")}  # inside a function only: loading a YAML spec imports no torch
NEVER = ("cutlass", "flydsl")
# Programs of their own processes, in which a DSL is.
DSL_PROCESSES = {PACKAGE / "check" / "flydsl" / name for name in ("capture.py", "probe/kernel.py")}


def owner(file: Path) -> str:
    """Return the module or sub-package of kgen that a file belongs to."""
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full names of everything that is imported, by statement or by import_module("...")."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" if module == "kgen" else module for alias in names)
            case ast.ImportFrom():
                raise AssertionError("kgen imports by absolute names")
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"), args=[arg, *_]):
                if isinstance(arg, ast.Constant):
                    yield str(arg.value)


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", files(), ids=lambda f: f.relative_to(PACKAGE).as_posix())
def test_imports_point_one_way(file: Path) -> None:
    me = owner(file)
    for name in imports(ast.parse(file.read_text())):
        top, _, rest = name.partition(".")
        if top == "kgen":
            seen = rest.partition(".")[0]
            assert seen == me or seen in MAY_SEE[me].split(), f"{me} imports kgen.{seen}"
        elif top not in sys.stdlib_module_names:
            if file in DSL_PROCESSES and top in NEVER:
                continue
            assert top not in NEVER, f"kgen never imports {top}"
            assert me in HOMES.get(top, "").split(), f"{me} imports {top}"


@pytest.mark.parametrize(("me", "seen"), MAY_BE_LATE)
def test_some_imports_happen_only_at_a_call(me: str, seen: str) -> None:
    for file in (f for f in files() if owner(f) == me):
        at_import = [n for n in ast.parse(file.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)]
        names = imports(ast.Module(at_import, []))
        assert not any(name.startswith(f"kgen.{seen}") for name in names), file


def test_the_rule_has_no_cycles_but_the_late_ones() -> None:
    edges = {me: {s for s in seen.split() if (me, s) not in MAY_BE_LATE} for me, seen in MAY_SEE.items()}
    placed: set[str] = set()
    while len(placed) < len(edges):
        free = [me for me, seen in edges.items() if me not in placed and seen <= placed]
        assert free, {me: seen - placed for me, seen in edges.items() if me not in placed}
        placed.update(free)


def test_every_part_of_kgen_is_in_the_rule() -> None:
    assert {owner(file) for file in files()} == set(MAY_SEE)


@pytest.mark.parametrize("module", ["print", "exit"])
def test_only_the_command_line_prints_or_exits(module: str) -> None:
    apart = {PACKAGE / "cli.py", PACKAGE / "check" / "compile_runner.py"}  # the latter is a script of its own process
    for file in files():
        calls = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
        names = {n.func.id for n in calls if isinstance(n.func, ast.Name)}
        assert file in apart or module not in names, file
