"""Machine code behind the arms: what is read, what holds none, and two builds that are not the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_reports as made_up
import pytest
from bench_machine import kernel

from kgen.bench import arm_code
from kgen.bench.arm_code import build_notes, release_of_variants, second_arm
from kgen.bench.measure import Measured
from kgen.bench.report import Agreement, Gpu, Machine
from kgen.check.binary import BinaryEvidence
from kgen.check.result import CheckResult, VariantEvidence
from kgen.errors.check import DisassemblerMissingError, NoDeviceCodeError

Binaries = Callable[[dict[str, Any]], None]


@pytest.fixture
def binaries(monkeypatch: pytest.MonkeyPatch) -> Binaries:
    """Say what each file's code is by its name: a digest, or the error that reading it raises."""

    def install(said: dict[str, Any]) -> None:
        def read(file: Path, isa: str) -> BinaryEvidence:
            found = said[file.name]
            if isinstance(found, Exception):
                raise found
            return BinaryEvidence(file, isa, isa, (isa,), (kernel(kernel=file.stem, instructions_digest=found),))

        monkeypatch.setattr(arm_code, "read_binary", read)

    return install


def measured(first: str = "", twin: str = "", second: str = "", libraries: str = "") -> Measured:
    """Return a measurement with these cubins and libraries, names apart by blanks."""
    gpu = Gpu(name="Made-up GPU", isa="sm_90", compute_units=132, l2_bytes=None, driver=None)
    cubins = {"first": first, "twin": twin, "second": second}
    return Measured(
        machine=Machine(gpu=gpu, python="3.11", versions={}),
        agreement=Agreement(rel_err=0.0, limit=0.01, operand_scale=1.0, decides=False),
        comparison=made_up.comparison(),
        cubins={arm: tuple(map(Path, names.split())) for arm, names in cubins.items()},
        libraries=tuple(Path("/build") / name for name in libraries.split()),
    )


def missing(name: str) -> NoDeviceCodeError:
    return NoDeviceCodeError(file=name)


def no_tool() -> DisassemblerMissingError:
    return DisassemblerMissingError(tool="cuobjdump", distribution="nvidia-cuda-cuobjdump")


def test_two_builds_of_the_same_code_need_no_note(binaries: Binaries) -> None:
    binaries({"a1": "x", "b1": "y", "a2": "y", "b2": "x"})
    assert list(build_notes(measured("a1 b1", "a2 b2"), "sm_90a")) == []  # in whatever order they were written


def test_builds_without_machine_code_are_noted(binaries: Binaries) -> None:
    binaries({"a": "x"})
    nothing = "the machine code of the two builds was not compared: no cubin of them was left"
    assert list(build_notes(measured(), "sm_90a")) == [nothing]
    assert list(build_notes(measured("", "a"), "sm_90a")) == [nothing]


@pytest.mark.parametrize(("first", "twin"), [("a", "b"), ("a", "a b"), ("a", "")])
def test_two_builds_that_differ_are_noted(binaries: Binaries, first: str, twin: str) -> None:
    binaries({"a": "x", "b": "y"})
    assert list(build_notes(measured(first, twin), "sm_90a")) == [
        "the two builds of the A/A pair differ in their machine code"
    ]


def test_builds_that_cannot_be_read_are_noted(binaries: Binaries) -> None:
    binaries({"a": no_tool()})
    (note,) = build_notes(measured("a", "a"), "sm_90a")
    assert note.startswith("the machine code of the two builds was not compared: cuobjdump is neither installed")
    assert "\n" not in note


def test_the_incumbents_cubins_and_libraries(binaries: Binaries) -> None:
    binaries({"gemm.cubin": "x", "ours.so": "y"})
    code, release, notes = second_arm(measured(second="gemm.cubin", libraries="ours.so"), "sm_90a")
    assert [(c.arm, c.origin, c.arch) for c in code] == [
        ("incumbent", "cubin of the DSL", "sm_90a"),
        ("incumbent", "ours.so", "sm_90a"),
    ]
    assert [k.kernel for c in code for k in c.kernels] == ["gemm", "ours"]
    assert code[0].digest != code[1].digest and notes == ()
    assert [r.arm for r in release] == ["incumbent"]  # flags are those of the library: a DSL has none
    assert release[0].target == "sm_90a"


def test_libraries_without_device_code_are_skipped(binaries: Binaries) -> None:
    binaries({"host.so": missing("host.so"), "ours.so": "y"})
    code, release, notes = second_arm(measured(libraries="host.so ours.so"), "sm_90a")
    assert [c.origin for c in code] == ["ours.so"] and len(release) == 1 and notes == ()


@pytest.mark.parametrize("libraries", ["", "host.so"])
def test_an_incumbent_without_device_code_is_noted(binaries: Binaries, libraries: str) -> None:
    binaries({"host.so": missing("host.so")})
    assert second_arm(measured(libraries=libraries), "sm_90a") == (
        (),
        (),
        ("no machine code of the incumbent was found: neither a DSL's cubin nor an extension library",),
    )


def test_code_that_could_not_be_read_is_not_said_to_be_absent(binaries: Binaries) -> None:
    binaries({"ours.so": no_tool()})
    code, release, (note,) = second_arm(measured(libraries="ours.so"), "sm_90a")
    assert code == () and release == ()
    assert note.startswith("ours.so was not read: cuobjdump is neither installed") and "\n" not in note


def test_the_release_evidence_of_kgens_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_code, "users_environment", lambda: {})
    (tmp_path / "kernel.py").write_text("import cutlass.cute as cute\n")
    variant = VariantEvidence("one_tma", 1.0, "sm_90a", (kernel(),))

    def release(*variants: VariantEvidence) -> Any:
        compiled = CheckResult(tmp_path, "one", "h200", "sm_90a", variants, (), (), False, 1.0)
        return release_of_variants(tmp_path, compiled, "sm_90a")

    right = release(variant)
    assert (right.arm, right.target, right.asserts_off) == ("kgen", "sm_90a", True)
    assert release(VariantEvidence("one_tma", 1.0, "sm_90a", (kernel(traps=1),))).asserts_off is False
    assert "lost was not compiled" in release(variant, VariantEvidence("lost")).problems
