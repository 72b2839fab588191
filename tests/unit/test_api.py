"""The library: the same answers as the command line, as typed values."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_line import ROOT, SPEC

import kgen
from kgen.errors.base import BadInputError, UnsupportedError
from kgen.errors.cli import ArgumentsConflictError, NoTargetError, SeveralTargetsError, UnknownCaseError
from kgen.package.write import Outcome
from kgen.target import load_device

CASES = "cases: {few: {M: 128}, many: {M: 4096}}\n"


def two_cases(folder: Path) -> Path:
    file = folder / "two.yaml"
    text = SPEC.replace("small", "two").replace("M: 256", "M: {range: [1, 8192]}")
    file.write_text(f"{text}{CASES}targets: [h200, h20]\n")
    return file


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(256, 128, dtype=torch.bfloat16), torch.empty(128, 256, dtype=torch.bfloat16)


def test_candidates_of_a_case(tmp_path: Path) -> None:
    spec = kgen.load_spec(two_cases(tmp_path))
    few = kgen.candidates(spec, "h200", top=3)
    many = kgen.candidates(spec, load_device("h200"), case="many", top=3)
    assert len(few.ranked) == len(many.ranked) == 3
    assert few.ranked[0].time_us < many.ranked[0].time_us
    assert kgen.candidates(spec, "h200", case="few", top=3) == few


def test_a_plan_has_variants_of_every_case(tmp_path: Path) -> None:
    made = kgen.plan(two_cases(tmp_path), "h20")
    assert {variant.case for variant in made.variants} == {"few", "many"} and made.device.name == "h20"


def test_what_a_request_lacks_is_said(tmp_path: Path) -> None:
    file = two_cases(tmp_path)
    with pytest.raises(SeveralTargetsError, match="two has the targets h200, h20"):
        kgen.plan(file)
    with pytest.raises(UnknownCaseError, match="its cases are few, many"):
        kgen.candidates(file, "h200", case="some")
    with pytest.raises(NoTargetError, match="product names no target"):
        kgen.emit(product, tensors())
    with pytest.raises(ArgumentsConflictError, match="pass example_inputs"):
        kgen.emit(product, target="h200")
    (tmp_path / "one.yaml").write_text(f"{SPEC}targets: [h20]\n")
    assert kgen.plan(tmp_path / "one.yaml").device.name == "h20"


def test_emits_a_function_as_text_and_to_a_folder(tmp_path: Path) -> None:
    package = kgen.emit(product, tensors(), target="h200")
    assert package.folder is None and package.name == "product" and "kernel.py" in package.files
    written = kgen.emit(product, tensors(), target="h200", folder=tmp_path / "here")
    assert written.files == package.files and written.folder == tmp_path / "here"
    assert written.written is not None and written.written.outcome is Outcome.CREATED
    for name, text in package.files.items():
        assert (tmp_path / "here" / name).read_text(encoding="utf-8") == text
    assert written.to_json()["outcome"] == "created" and written.seconds["plan"] > 0


def test_check_is_the_function_also_after_its_package_was_loaded(tmp_path: Path) -> None:
    code = "import kgen, kgen.check.gpu, kgen.check; print(callable(kgen.check))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    with pytest.raises(BadInputError, match="is not a kgen package"):
        kgen.check(tmp_path, compile_only=True)


def test_unsupported_is_a_not_implemented_error() -> None:
    with pytest.raises(NotImplementedError, match=r"aten\.sort\.default is not supported") as caught:
        kgen.emit(lambda a, b: (a @ b).sort(-1)[0], tensors(), target="h200")
    assert isinstance(caught.value, kgen.KgenError) and caught.value.exit_code == 3


def test_the_public_names_are_there() -> None:
    assert all(hasattr(kgen, name) for name in kgen.__all__)
    assert issubclass(UnsupportedError, kgen.KgenError)


def test_parameters_whose_path_starts_with_a_digit_have_names() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(64, 32, dtype=torch.bfloat16), torch.nn.ReLU())
    package = kgen.emit(module, example_inputs=(torch.empty(64, 64, dtype=torch.bfloat16),), target="h200")
    assert "module_0_weight" in package.files["kernel.py"]


def test_without_gradients_the_graph_is_the_same() -> None:
    a, b = torch.empty(64, 64, dtype=torch.bfloat16), torch.empty(64, 64, dtype=torch.bfloat16)
    plain = kgen.emit(product, example_inputs=(a, b), target="h200")
    without = kgen.emit(torch.no_grad()(product), example_inputs=(a, b), target="h200")
    assert without.files["kernel.py"] == plain.files["kernel.py"]


def test_what_is_no_spec_is_refused() -> None:
    a = torch.empty(64, 64, dtype=torch.bfloat16)
    for source in (None, 5):
        with pytest.raises(ArgumentsConflictError, match="neither a spec nor a path nor a callable"):
            kgen.emit(source, target="h200")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="sparse_coo tensor, and a kernel takes dense tensors"):
        kgen.emit(product, example_inputs=(a.to_sparse(), a), target="h200")
