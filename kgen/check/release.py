"""Evidence that what is measured is a release build: its target, its optimization, no asserts, nothing for debuggers.

Two makers, each of which joins what several witnesses say: of a package, its machine code, the compile options in
kernel.py and the environment; of a PyTorch extension, its machine code and the build.ninja beside it. The compiler
is asked for its defaults in its files: nothing of it is imported.
"""

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from kgen.check.binary import BinaryEvidence
from kgen.check.evidence import KernelEvidence
from kgen.check.result import VariantEvidence
from kgen.check.toolchain import installed_file

_BEST = "3"
# Where nvidia-cutlass-dsl states its compile options and their defaults (4.8.1).
_DSL_OPTIONS_FILE = "cutlass/base_dsl/compiler.py"
# What CUTE_DSL_COMPILER_OPT can say that changes the code; the rest of it only reports.
_DSL_VARIABLE = re.compile(r"\b(?:opt-level|enable-assertions|ptx-options|iket)\b")
_TRUE = ("1", "true", "yes", "on")
_DEBUG_FLAGS = ("-g", "-G", "--device-debug")
# Options of nvcc that hand the next word to another program.
_HANDED_ON = ("-Xcompiler", "--compiler-options", "-Xptxas", "--ptxas-options", "-Xlinker", "-Xcudafe", "-ccbin")
_OPTIMIZATION = re.compile(r"(?:-O|--optimize=)(?P<level>\w+)")
_TARGETS = re.compile(
    r"(?:--?(?:gencode|generate-code|gpu-architecture|arch|gpu-code|code)=)?(?:arch=\w+,code=)?\[?sm_.*"
)


@dataclass(frozen=True, slots=True)
class ReleaseBuild:
    """How something was built; `None` is not known. `evidence` says where each thing was read.

    `optimization` is in the compiler's own spelling, "3" of CuTe DSL and "-O3" of nvcc.
    """

    target: str | None
    optimization: str | None
    asserts_off: bool | None
    evidence: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of what is not known."""
        facts = {"target": self.target, "optimization": self.optimization, "asserts_off": self.asserts_off}
        return tuple(name for name, value in facts.items() if value is None)

    @property
    def ok(self) -> bool:
        """Whether everything is known and nothing speaks against a release build."""
        return not self.problems and not self.unknown

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**asdict(self), "unknown": self.unknown, "ok": self.ok}


def release_of_package(
    folder: Path, variants: tuple[VariantEvidence, ...], isa: str, environment: Mapping[str, str]
) -> ReleaseBuild:
    """Return how a package of CuTe DSL is built; `environment` is that of the process which compiles and runs it."""
    targets = tuple(dict.fromkeys(variant.arch for variant in variants if variant.arch))
    others = tuple(target for target in targets if target != isa)  # one such variant is one too many
    missing = tuple(f"{variant.variant} was not compiled" for variant in variants if not variant.kernels)
    kernels = tuple((f"{v.variant}: {k.kernel}", k) for v in variants for k in v.kernels)
    # the DSL's assert is a message and a trap; nothing else of it traps
    asserting = tuple(name for name, kernel in kernels if kernel.traps or kernel.assert_calls)
    return _joined(
        _target(others or targets, isa, "the cubins"),
        ReleaseBuild(None, None, None, (), missing),
        _asserts(kernels, asserting),
        _compile_options((folder / "kernel.py").read_text(encoding="utf-8")),
        _dsl_environment(environment),
    )


def release_of_extension(library: Path, isa: str, binary: BinaryEvidence | None = None) -> ReleaseBuild:
    """Return how a PyTorch extension was built, from the build.ninja beside it and, where it was read, its code."""
    parts = []
    if binary is not None:
        kernels = tuple((kernel.kernel, kernel) for kernel in binary.kernels)
        asserting = tuple(name for name, kernel in kernels if kernel.assert_calls)
        parts.append(_target((binary.arch,) if binary.arch else binary.arches, isa, library.name))
        parts.append(_asserts(kernels, asserting))
    ninja = library.parent / "build.ninja"
    variables = _ninja_variables(ninja.read_text(encoding="utf-8")) if ninja.is_file() else {}
    if "cuda_cflags" not in variables:
        words = f"compile flags: not known, no build.ninja with cuda_cflags beside {library.name}"
        return _joined(*parts, ReleaseBuild(None, None, None, (words,), ()))
    return _joined(*parts, _nvcc_flags(_flags_of(variables, "cuda_"), isa), _host_flags(_flags_of(variables, "")))


def _joined(*parts: ReleaseBuild) -> ReleaseBuild:
    """Return what several witnesses say: of each fact the first that knows it, but an assert that any of them sees."""
    asserts = [part.asserts_off for part in parts if part.asserts_off is not None]
    return ReleaseBuild(
        target=next((part.target for part in parts if part.target), None),
        optimization=next((part.optimization for part in parts if part.optimization), None),
        asserts_off=all(asserts) if asserts else None,
        evidence=tuple(dict.fromkeys(words for part in parts for words in part.evidence)),
        problems=tuple(dict.fromkeys(words for part in parts for words in part.problems)),
    )


def _target(found: tuple[str, ...], isa: str, where: str) -> ReleaseBuild:
    target = isa if isa in found else ", ".join(found) or None
    if target is None:
        return ReleaseBuild(None, None, None, (f"target: not known, {where} states none",), ())
    problems = () if target == isa else (f"target is {target}, not {isa}",)
    return ReleaseBuild(target, None, None, (f"target {target}: {where}",), problems)


def _asserts(kernels: tuple[tuple[str, KernelEvidence], ...], asserting: tuple[str, ...]) -> ReleaseBuild:
    if not kernels:
        return ReleaseBuild(None, None, None, ("asserts: not known, no machine code was read",), ())
    count = f"asserts: in the machine code of {len(asserting)} of {len(kernels)} kernels"
    problems = tuple(f"asserts are in the machine code of {name}" for name in asserting)
    return ReleaseBuild(None, None, not asserting, (count,), problems)


def _compile_options(source: str) -> ReleaseBuild:
    """Return what kernel.py tells the compiler, with the compiler's default where it says nothing."""
    try:
        options = set(_options_of_calls(ast.parse(source)))
    except SyntaxError:
        options = {None}
    literal = sorted(text for text in options if text is not None)
    if None in options or not literal:
        words = "optimization: not known, kernel.py does not state its compile options as one text"
        return ReleaseBuild(None, None, None, (words,), ())
    return _joined(*(_dsl_options(_words(text)) for text in literal))


def _options_of_calls(tree: ast.Module) -> Iterator[str | None]:
    """Yield the `options` of each call of `cute.compile`, `None` where they are no literal text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="compile", value=ast.Name(id="cute"))):
                given = [keyword.value for keyword in node.keywords if keyword.arg in ("options", None)]
                yield _literal(given[0]) if given else ""
            case ast.Call(func=ast.Subscript(value=ast.Attribute(attr="compile", value=ast.Name(id="cute")))):
                yield None  # cute.compile[OptLevel(2)](...)


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _dsl_options(words: list[str]) -> ReleaseBuild:
    level = _value_of(words, "--opt-level")
    where = "compile options of kernel.py"
    if level is None:
        level, where = _default_opt_level()
    problems = [f"compiled with --opt-level {level}"] if level not in (None, _BEST) else []
    asserts = "--enable-assertions" in words
    problems += ["compiled with --enable-assertions"] * asserts
    problems += _ptxas_problems(_words((_value_of(words, "--ptxas-options") or "").strip("'")))
    notes = ["--generate-line-info: the same code, larger files"] * ("--generate-line-info" in words)
    evidence = (f"optimization {level or 'not known'}: {where}", *notes)
    return ReleaseBuild(None, level, False if asserts else None, evidence, tuple(problems))


def _default_opt_level() -> tuple[str | None, str]:
    """Return the DSL's default optimization and where it was read."""
    if (found := installed_file(_DSL_OPTIONS_FILE)) is None:
        return None, f"no installed {_DSL_OPTIONS_FILE} to read the default from"
    where = f"default of {found.distribution} ({_DSL_OPTIONS_FILE})"
    for node in ast.parse(found.path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "OptLevel":
            for line in node.body:
                match line:
                    case ast.Assign(targets=[ast.Name(id="_default")], value=ast.Constant(value=int(level))):
                        return str(level), where
    return None, f"{where} was not found"


def _dsl_environment(environment: Mapping[str, str]) -> ReleaseBuild:
    """Return what the DSL's variables change; debug mode includes line information and checks at launch."""

    def is_on(name: str) -> bool:
        return environment.get(f"CUTE_DSL_{name}", "").strip().lower() in _TRUE

    problems = [f"CUTE_DSL_{name} is on" for name in ("ENABLE_ASSERTIONS", "DEBUG", "DRYRUN") if is_on(name)]
    options = environment.get("CUTE_DSL_COMPILER_OPT", "")
    if _DSL_VARIABLE.search(options):
        problems.append(f"CUTE_DSL_COMPILER_OPT is {options!r}")
    notes = ("CUTE_DSL_LINEINFO: the same code, larger files",) if is_on("LINEINFO") else ()
    asserts_off = False if is_on("ENABLE_ASSERTIONS") else None
    return ReleaseBuild(None, None, asserts_off, notes, tuple(problems))


def _nvcc_flags(words: list[str], isa: str) -> ReleaseBuild:
    own, ptxas = _own_and_ptxas(words)
    levels = [level for word in own if (level := _OPTIMIZATION.fullmatch(word))]
    optimization = levels[-1][0].replace("--optimize=", "-O") if levels else None
    defines = [word for word in own if word.removeprefix("-D").removeprefix("-U").split("=")[0] == "NDEBUG"]
    is_ndebug = bool(defines) and not defines[-1].startswith("-U")
    targets = tuple(
        target
        for word in own
        if _TARGETS.fullmatch(word)
        for target in re.findall(r"sm_\w+", word.rpartition("code=")[2])
    )
    problems = [] if optimization else ["no -O3"]
    problems += [f"compiled with {optimization}"] * (optimization not in (None, f"-O{_BEST}"))
    problems += [] if is_ndebug else ["no -DNDEBUG"]
    problems += [f"compiled with {word}" for word in own if word in ("-G", "--device-debug")]
    notes = [
        f"{word} in build.ninja" for word in own if word in ("-g", "-lineinfo", "--use_fast_math", "-use_fast_math")
    ]
    evidence = (
        f"optimization {optimization or 'not stated'}: cuda_cflags of build.ninja",
        f"asserts: -DNDEBUG {'is' if is_ndebug else 'is not'} in cuda_cflags of build.ninja",
        *notes,
    )
    flags = ReleaseBuild(None, optimization, is_ndebug, evidence, (*problems, *_ptxas_problems(ptxas)))
    return _joined(_target(tuple(dict.fromkeys(targets)), isa, "cuda_cflags of build.ninja"), flags)


def _host_flags(words: list[str]) -> ReleaseBuild:
    levels = [word for word in words if _OPTIMIZATION.fullmatch(word)]
    problems = ("host code compiled with -O0",) if levels and levels[-1] == "-O0" else ()
    return ReleaseBuild(None, None, None, (), problems)


def _own_and_ptxas(words: list[str]) -> tuple[list[str], list[str]]:
    """Return nvcc's own flags, with a value joined to its flag by "=", and those that it hands to ptxas."""
    own: list[str] = []
    ptxas: list[str] = []
    waiting = iter(words)
    for word in waiting:
        name, equals, value = word.partition("=")
        if name in _HANDED_ON:
            value = value if equals else next(waiting, "")
            ptxas += value.split(",") if name in ("-Xptxas", "--ptxas-options") else []
        elif word in ("-O", "-D", "-U", "--optimize"):
            own.append(f"{'-O' if word == '--optimize' else word}{next(waiting, '')}")
        else:
            own.append(word)
    return own, ptxas


def _ptxas_problems(words: list[str]) -> list[str]:
    slow = [word for word in words if re.fullmatch(r"-O[0-2]", word) or word in _DEBUG_FLAGS]
    return [f"ptxas is given {word}" for word in slow]


def _flags_of(variables: dict[str, str], prefix: str) -> list[str]:
    """Return the flags before and after the source file, in the order of the command."""
    return _words(f"{variables.get(f'{prefix}cflags', '')} {variables.get(f'{prefix}post_cflags', '')}")


def _ninja_variables(text: str) -> dict[str, str]:
    """Return the variables of a build.ninja: `name = value` lines that are not indented, "$" before what is escaped."""
    lines = re.sub(r"\$\n\s*", "", text).splitlines()
    found = (re.fullmatch(r"(\w+) = ?(.*)", line) for line in lines)
    return {line[1]: re.sub(r"\$([$: ])", r"\1", line[2]) for line in found if line}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unbalanced quote
        return text.split()


def _value_of(words: list[str], option: str) -> str | None:
    """Return the last value of an option that is written `--option value` or `--option=value`."""
    found = [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]
    found += [value for word, value in pairwise(words) if word == option]
    return found[-1] if found else None
