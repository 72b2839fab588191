"""Specs load into plain frozen values: shapes, strides, cases, tolerances, references."""

import subprocess
import sys
from pathlib import Path

import pytest

from kgen.errors.spec import FileEscapesFolderError, SpecFileError, SpecFormatError
from kgen.ir.tensor import ExtentRange
from kgen.spec.load import load_spec, parse_spec
from kgen.spec.model import Case, ReferenceKind, Spec, Tolerance, ordered_strides
from kgen.target import list_devices

SPECS = sorted((Path(__file__).parent.parent.parent / "specs").glob("*.yaml"))
HEAD = "name: gemm\nreference: |\n  def gemm(a, b):\n      return a @ b\n"


def spec_of(rest: str) -> Spec:
    return parse_spec(HEAD + rest, Path("gemm.yaml"))


def strides_of(a: str) -> tuple[int, ...]:
    spec = spec_of(f"inputs:\n  a: {a}\n  b: {{shape: [K, 2], dtype: bf16}}\nextents: {{M: 4, K: 6}}\n")
    return spec.input_types(spec.cases[0])[0].strides


@pytest.mark.parametrize(
    ("a", "strides"),
    [
        ("{shape: [M, K], dtype: bf16}", (6, 1)),
        ("{shape: [M, K], dtype: bf16, layout: row}", (6, 1)),
        ("{shape: [M, K], dtype: bf16, layout: col}", (1, 4)),
        ("{shape: [M, K], dtype: bf16, leading: 8}", (8, 1)),
        ("{shape: [M, K], dtype: bf16, layout: col, leading: K}", (1, 6)),
        ("{shape: [3, M, K], dtype: bf16, layout: col}", (24, 1, 4)),
        ("{shape: [3, M, K], dtype: bf16, order: [1, 0, 2], leading: 8}", (8, 24, 1)),
        ("{shape: [3, M, K], dtype: bf16, strides: [0, K, 1]}", (0, 6, 1)),
        ("{shape: [], dtype: bf16}", ()),
    ],
)
def test_strides(a: str, strides: tuple[int, ...]) -> None:
    assert strides_of(a) == strides


def test_ordered_strides_nest_in_the_given_order() -> None:
    assert ordered_strides((2, 3, 5), (2, 0, 1)) == (3, 1, 6)


def test_cases_bind_ranges_and_may_change_numbers() -> None:
    spec = spec_of(
        "inputs:\n  a: {shape: [M, K], dtype: fp16}\n  b: {shape: [K, N], dtype: fp16}\n"
        "extents:\n  M: {range: [1, 8192], multiple_of: 64}\n  N: 512\n  K: 256\n"
        "cases:\n  small: {M: 64}\n  wide: {M: 8192, N: 1024}\n"
    )
    assert spec.extents[0] == ("M", ExtentRange("M", 1, 8192, 64))
    assert spec.cases == (
        Case("small", (("M", 64), ("N", 512), ("K", 256))),
        Case("wide", (("M", 8192), ("N", 1024), ("K", 256))),
    )
    assert str(spec.input_types(spec.case("wide"))[1]) == "fp16[256,1024]"


@pytest.mark.parametrize(
    ("dtypes", "rel_err"),
    [(("bf16", "bf16"), 0.01), (("fp32", "fp32"), 1e-5), (("bf16", "fp8_e4m3"), 0.05), (("int8", "int8"), 0.0)],
)
def test_default_tolerance_is_that_of_the_coarsest_input(dtypes: tuple[str, str], rel_err: float) -> None:
    a, b = dtypes
    spec = spec_of(f"inputs:\n  a: {{shape: [4, 4], dtype: {a}}}\n  b: {{shape: [4, 4], dtype: {b}}}\n")
    assert spec.tolerance == Tolerance(rel_err)


def test_every_part_is_kept() -> None:
    spec = spec_of(
        "inputs:\n  a: {shape: [4, 4], dtype: bf16}\n  b: {shape: [4, 4], dtype: bf16}\n"
        "tolerance: {rel_err: 0.002, atol: 1}\ntargets: [h20]\naccepts: {base_alignment: 16}\n"
        "fixed:\n  tile_n: {value: 128, because: fits the epilogue}\n  cluster: {value: [2, 1], because: shares A}\n"
        "incumbent: torch:matmul\n"
    )
    assert spec.tolerance == Tolerance(0.002, 1.0) and spec.targets == ("h20",)
    assert spec.accepts.base_alignment_bytes == 16
    assert [(f.axis, f.value, f.because) for f in spec.fixed] == [
        ("tile_n", 128, "fits the epilogue"),
        ("cluster", (2, 1), "shares A"),
    ]
    assert spec.fixed[0].where is not None and spec.fixed[0].where.line == 12
    assert spec.incumbent is not None and spec.incumbent.kind is ReferenceKind.IMPORT
    assert spec.reference.first_line == 3 and spec.reference.where(4).text == "    return a @ b"


def test_reference_file_must_stay_in_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "specs"
    inner.mkdir()
    (tmp_path / "outside.py").write_text("def gemm(a, b):\n    return a @ b\n")
    (inner / "link.py").symlink_to(tmp_path / "outside.py")
    inputs = "inputs:\n  a: {shape: [4, 4], dtype: bf16}\n  b: {shape: [4, 4], dtype: bf16}\n"
    for reference in ("link.py::gemm", f"{tmp_path}/outside.py::gemm", "sub/../../outside.py::gemm"):
        with pytest.raises(FileEscapesFolderError):
            parse_spec(f"name: gemm\nreference: {reference}\n{inputs}", inner / "gemm.yaml")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SpecFileError, match="No such file"):
        load_spec(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(SpecFileError, match="not UTF-8"):
        load_spec(tmp_path / "latin.yaml")
    with pytest.raises(SpecFormatError, match=r"'\.toml' is not a spec format"):
        load_spec(tmp_path / "gemm.toml")


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_shipped_specs_are_named_after_themselves(path: Path) -> None:
    spec = load_spec(path)
    assert spec.name == path.stem and set(spec.targets) <= set(list_devices()) and spec.targets


def test_loading_a_yaml_spec_imports_no_torch() -> None:
    code = (
        f"import sys; from kgen.spec.load import load_spec; load_spec({str(SPECS[0])!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_documented_example_loads() -> None:
    text = (SPECS[0].parent.parent / "docs" / "spec.md").read_text()
    example = text.split("```yaml\n")[1].split("```")[0]
    spec = parse_spec(example, Path("example.yaml"))
    assert [i.name for i in spec.inputs] == ["x", "weight", "bias"] and spec.targets == ("h200", "h20")
