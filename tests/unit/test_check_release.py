"""What counts as a release build: each trap is one problem, and what cannot be read is not known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kgen.check import release
from kgen.check.binary import BinaryEvidence
from kgen.check.evidence import KernelEvidence
from kgen.check.release import ReleaseBuild, release_of_extension, release_of_package
from kgen.check.result import VariantEvidence
from kgen.check.toolchain import InstalledFile

COUNTS = (
    "mma_waits",
    "tma_loads",
    "tma_multicasts",
    "tma_stores",
    "matrix_stores",
    "ffma",
    "spill_loads",
    "spill_stores",
    "instructions",
)
KERNEL = KernelEvidence("gemm", (), **dict.fromkeys(COUNTS, 0))
COMPILED = VariantEvidence("tma", arch="sm_90a", kernels=(KERNEL,))

# How torch.utils.cpp_extension writes it, shortened.
NINJA = """\
ninja_required_version = 1.3
cxx = c++
nvcc = /usr/local/cuda/bin/nvcc

cflags = -DTORCH_EXTENSION_NAME=ext -fPIC -std=c++20 -O2
post_cflags =
cuda_cflags = -DTORCH_EXTENSION_NAME=ext -gencode=arch=compute_90a,code=sm_90a --compiler-options '-fPIC' -O3 -DNDEBUG
cuda_post_cflags =
ldflags = -shared

rule cuda_compile
  command = $nvcc $cuda_cflags -c $in -o $out $cuda_post_cflags
"""


@pytest.fixture
def dsl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a stand-in for the file in which the DSL states its options."""
    file = tmp_path / "compiler.py"
    file.write_text(
        '@register_option\nclass OptLevel(CompileOption):\n    _option_name = "opt-level"\n    _default = 3\n'
    )
    monkeypatch.setattr(release, "installed_file", lambda ending: InstalledFile(file, "nvidia-cutlass-dsl 4.8.1"))
    return file


def of_package(
    folder: Path,
    call: str = 'cute.compile(f, x, options="--enable-tvm-ffi")',
    *variants: VariantEvidence,
    **environment: str,
) -> ReleaseBuild:
    (folder / "kernel.py").write_text(f"def compile_variant(name):\n    return {call}\n")
    return release_of_package(folder, variants or (COMPILED,), "sm_90a", environment)


def of_extension(folder: Path, ninja: str | None, binary: BinaryEvidence | None = None) -> ReleaseBuild:
    if ninja is not None:
        (folder / "build.ninja").write_text(ninja)
    return release_of_extension(folder / "ext.so", "sm_90a", binary)


def in_code(arch: str | None, *kernels: KernelEvidence) -> BinaryEvidence:
    return BinaryEvidence(Path("ext.so"), "sm_90a", arch, (arch or "sm_80",), kernels)


def test_a_package_as_emitted_is_a_release_build(tmp_path: Path, dsl: Path) -> None:
    found = of_package(tmp_path)
    assert found == ReleaseBuild(
        target="sm_90a",
        optimization="3",
        asserts_off=True,
        evidence=(
            "target sm_90a: the cubins",
            "asserts: in the machine code of 0 of 1 kernels",
            "optimization 3: default of nvidia-cutlass-dsl 4.8.1 (cutlass/base_dsl/compiler.py)",
        ),
        problems=(),
    )
    assert found.ok and json.loads(json.dumps(found.to_json()))["unknown"] == []


@pytest.mark.parametrize(
    ("options", "optimization", "problems"),
    [
        ("--opt-level 3", "3", ()),
        ("--opt-level=1", "1", ("compiled with --opt-level 1",)),
        ("--enable-assertions", "3", ("compiled with --enable-assertions",)),
        ("--ptxas-options '-O1 -g'", "3", ("ptxas is given -O1", "ptxas is given -g")),
        ("--generate-line-info", "3", ()),
    ],
)
def test_compile_options_of_the_dsl(
    tmp_path: Path, dsl: Path, options: str, optimization: str, problems: tuple[str, ...]
) -> None:
    found = of_package(tmp_path, f'cute.compile(f, x, options="--enable-tvm-ffi {options}")')
    assert (found.optimization, found.problems) == (optimization, problems)
    assert found.asserts_off is ("assertions" not in options)
    assert ("--generate-line-info: the same code, larger files" in found.evidence) is ("line-info" in options)


@pytest.mark.parametrize(
    "call",
    ["cute.compile(f, x, options=OPTIONS)", "cute.compile(f, **more)", "cute.compile[OptLevel(0)](f)", "made(f)", "="],
)
def test_options_that_are_no_literal_text_are_not_known(tmp_path: Path, dsl: Path, call: str) -> None:
    found = of_package(tmp_path, call)
    assert (found.optimization, found.unknown, found.problems, found.ok) == (None, ("optimization",), (), False)


def test_a_default_that_the_dsl_no_longer_states_is_not_known(tmp_path: Path, dsl: Path) -> None:
    assert of_package(tmp_path, "cute.compile(f, x)").optimization == "3"
    dsl.write_text("class OptLevel: ...\n")
    found = of_package(tmp_path)
    assert found.optimization is None and found.evidence[-1].endswith("(cutlass/base_dsl/compiler.py) was not found")


def test_machine_code_and_environment_speak_against_a_package(tmp_path: Path, dsl: Path) -> None:
    plain = replace(COMPILED, arch="sm_90", kernels=(replace(KERNEL, traps=1),))
    failed = VariantEvidence("staged", failure="no")
    options = {"CUTE_DSL_DEBUG": "On", "CUTE_DSL_ENABLE_ASSERTIONS": "0", "CUTE_DSL_COMPILER_OPT": "opt-level=0"}
    found = of_package(tmp_path, "cute.compile(f)", plain, failed, **options)
    assert (found.target, found.asserts_off) == ("sm_90", False)
    assert found.problems == (
        "target is sm_90, not sm_90a",
        "staged was not compiled",
        "asserts are in the machine code of tma: gemm",
        "CUTE_DSL_DEBUG is on",
        "CUTE_DSL_COMPILER_OPT is 'opt-level=0'",
    )
    mixed = of_package(tmp_path, "cute.compile(f)", COMPILED, replace(COMPILED, arch="sm_90"))
    assert mixed.problems == ("target is sm_90, not sm_90a",)
    assert of_package(tmp_path, CUTE_DSL_ENABLE_ASSERTIONS="1").asserts_off is False
    assert of_package(tmp_path, CUTE_DSL_COMPILER_OPT="warnings{nvvm}").ok


def test_the_installed_dsl_states_its_default(tmp_path: Path) -> None:
    pytest.importorskip("nvidia_cutlass_dsl")
    assert of_package(tmp_path).optimization == "3"


def test_an_extension_for_release(tmp_path: Path) -> None:
    found = of_extension(tmp_path, NINJA)
    assert (found.target, found.optimization, found.asserts_off, found.ok) == ("sm_90a", "-O3", True, True)
    assert found.evidence == (
        "target sm_90a: cuda_cflags of build.ninja",
        "optimization -O3: cuda_cflags of build.ninja",
        "asserts: -DNDEBUG is in cuda_cflags of build.ninja",
    )


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ("-O3", "", ("no -O3",)),
        ("-O3", "-O 0", ("compiled with -O0",)),
        ("-DNDEBUG", "", ("no -DNDEBUG",)),
        ("-DNDEBUG", "-DNDEBUG -UNDEBUG", ("no -DNDEBUG",)),
        ("-DNDEBUG", "-D NDEBUG=1", ()),
        ("-O3", "-O3 -g -G", ("compiled with -G",)),
        ("cuda_post_cflags =", "cuda_post_cflags = '-G'", ("compiled with -G",)),
        ("code=sm_90a", "code=sm_90", ("target is sm_90, not sm_90a",)),
        ("-gencode=arch=compute_90a,code=sm_90a", "-gencode arch=compute_90,code=[sm_90,compute_90]", None),
        ("-gencode=arch=compute_90a,code=sm_90a", "-arch sm_90a", ()),
        ("-gencode", "-gencode=arch=compute_80,code=sm_80 -gencode", ()),
        ("-O3", "-O3 -Xptxas -O1,-v", ("ptxas is given -O1",)),
        ("-O3", "-O3 --ptxas-options=-v -Xcompiler -O0", ()),
        ("-O3", "-O3 --use_fast_math -lineinfo", ()),
        ("-O2", "-O0", ("host code compiled with -O0",)),
    ],
)
def test_each_trap_of_an_extension_is_a_problem(
    tmp_path: Path, old: str, new: str, problems: tuple[str, ...] | None
) -> None:
    assert old in NINJA
    found = of_extension(tmp_path, NINJA.replace(old, new))
    assert found.problems == (("target is sm_90, not sm_90a",) if problems is None else problems)
    noted = {f"{word} in build.ninja" for word in ("-g", "-lineinfo", "--use_fast_math") if word in new.split()}
    assert noted == {words for words in found.evidence if words.endswith(" in build.ninja")}


def test_without_build_ninja_the_flags_are_not_known(tmp_path: Path) -> None:
    found = of_extension(tmp_path, None)
    words = "compile flags: not known, no build.ninja with cuda_cflags beside ext.so"
    assert found == ReleaseBuild(None, None, None, (words,), ())
    assert found.unknown == ("target", "optimization", "asserts_off") and not found.ok
    found = of_extension(tmp_path, "cflags = -O3\n", in_code("sm_90a", KERNEL))
    assert (found.target, found.optimization, found.asserts_off, found.ok) == ("sm_90a", None, True, False)


def test_machine_code_has_the_last_word(tmp_path: Path) -> None:
    asserting = replace(KERNEL, assert_calls=2)
    found = of_extension(tmp_path, NINJA, in_code("sm_90a", KERNEL, asserting))
    assert (found.asserts_off, found.problems) == (False, ("asserts are in the machine code of gemm",))
    found = of_extension(tmp_path, NINJA, in_code(None))
    assert (found.target, found.problems) == ("sm_80", ("target is sm_80, not sm_90a",))
