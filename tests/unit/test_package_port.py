"""The package of a port: the incumbent byte for byte, what is kept and what is free, and the files it lists."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kgen
from kgen.incumbents import incumbent_of
from kgen.spec.load import parse_spec

SPEC = """
name: two
reference: |
  import torch.nn.functional as F

  def product(a, b, bias):
      return F.gelu(a @ b.T + bias, approximate="tanh")
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
  bias: {shape: [N], dtype: bf16}
extents: {N: 1024, K: 512, M: {range: [128, 4096], multiple_of: 128}}
cases:
  small: {M: 512}
  large: {M: 4096}
targets: [h200]
tolerance: {rel_err: 0.02}
incumbent: kernels/old.py::gemm
fixed:
  tile_k: {value: 64, because: "callers pad to 64 | or 128"}
fixed_by_case:
  large:
    tile_n:
      value: 128
      because: |
        two lines
        of reasons
"""
INCUMBENTS = {
    "plain": b"def gemm(a, b, bias):\n    return a @ b.T + bias\n",
    "crlf": b"def gemm(a, b, bias):\r\n    return a @ b.T + bias\r\n",
    "mixed": b"# one\r\n# two\n# a\ttab and trailing blanks  \n\ndef gemm(a, b, bias):\n    return a\n\n\n",
    "non-ascii": "# Größe in µs — „schnell“ 速い 🚀\ndef gemm(a, b, bias):\n    return a\n".encode(),
    "no last line break": b"def gemm(a, b, bias): return a",
    "a jinja template": b"# {{ name }} {% if x %} {# note #}\ndef gemm(a, b, bias):\n    return a\n",
    "not formatted": b"import os,sys\ndef  gemm( a,b , bias ) :\n   return   a\n",
}


def emitted(folder: Path, data: bytes = INCUMBENTS["plain"], text: str = SPEC) -> Any:
    """Emit the spec with a file of these bytes as its incumbent."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "old.py").write_bytes(data)
    return kgen.emit(parse_spec(text, folder / "two.yaml"), folder=folder / "package")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return emitted(tmp_path_factory.mktemp("port"))


@pytest.fixture(scope="module")
def plan(package: Any) -> Mapping[str, Any]:
    return dict(json.loads(package.files["plan.json"]))


def constraints(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in plan["constraints"]}


@pytest.mark.parametrize("kind", INCUMBENTS)
def test_the_incumbent_is_kept_byte_for_byte(kind: str, tmp_path: Path) -> None:
    one_case = SPEC.partition("fixed_by_case")[0].replace("  large: {M: 4096}\n", "")
    data = INCUMBENTS[kind]
    made = emitted(tmp_path, data, one_case)
    assert (tmp_path / "package" / "incumbent.py").read_bytes() == data
    stated = json.loads(made.files["plan.json"])["incumbent"]
    assert stated["sha256"] == hashlib.sha256(data).hexdigest()
    assert stated["file"] == "incumbent.py" and stated["entry"] == "gemm" and stated["origin"] == "kernels/old.py"
    again = kgen.emit(parse_spec(one_case, tmp_path / "two.yaml"), folder=tmp_path / "package").written
    assert again is not None and str(again).startswith("unchanged")


def test_an_incumbent_of_the_command_line_is_kept_too(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_bytes(INCUMBENTS["crlf"])
    spec = parse_spec(SPEC.replace("incumbent: kernels/old.py::gemm\n", ""), tmp_path / "two.yaml")
    named = replace(spec, incumbent=incumbent_of(f"{tmp_path / 'old.py'}::gemm"))
    kgen.emit(named, folder=tmp_path / "package")
    assert (tmp_path / "package" / "incumbent.py").read_bytes() == INCUMBENTS["crlf"]
    texts = [p.read_text(encoding="utf-8") for p in (tmp_path / "package").rglob("*") if p.is_file()]
    assert not any(str(tmp_path) in text for text in texts)  # no folder of this machine


def test_the_files_are_listed(package: Any, plan: Mapping[str, Any]) -> None:
    assert {"incumbent.py", "plans/port.md"} <= set(package.files)
    assert plan["files"] == sorted(package.files)
    readme = package.files["README.md"]
    assert all(f"`{name}`" in readme for name in package.files if name != "README.md")
    assert "the kernel that this one replaces, byte for byte" in readme


def test_a_package_without_an_incumbent_has_none_of_it(tmp_path: Path) -> None:
    text = SPEC.replace("incumbent: kernels/old.py::gemm\n", "")
    files = kgen.emit(parse_spec(text, tmp_path / "two.yaml")).files
    assert not {"incumbent.py", "plans/port.md"} & set(files)
    assert "incumbent.py" not in files["README.md"] and "port.md" not in files["README.md"]
    made = json.loads(files["plan.json"])
    assert made["incumbent"] is None and made["constraints"] == []


def test_the_kernel_does_not_depend_on_the_incumbent(package: Any, tmp_path: Path) -> None:
    text = SPEC.replace("incumbent: kernels/old.py::gemm\n", "")
    alone = kgen.emit(parse_spec(text, tmp_path / "two.yaml")).files
    assert all(alone[name] == package.files[name] for name in ("kernel.py", "reference.py", "test_kernel.py"))


def test_what_is_kept(plan: Mapping[str, Any]) -> None:
    found = constraints(plan)
    fixed = {name: (c["value"], c["because"]) for name, c in found.items() if c["fixed"]}
    assert set(fixed) == {
        "call",
        "output format, case small",
        "output format, case large",
        "epilogue",
        "precision",
        "tile_k",
        "tile_n, case large",
    }
    assert fixed["call"][0].startswith("(a, b, bias) -> new tensors")
    assert fixed["output format, case small"][0].endswith("bf16 [512, 1024], strides [1024, 1]")
    assert fixed["output format, case large"][0].endswith("bf16 [4096, 1024], strides [1024, 1]")
    assert "gelu" in fixed["epilogue"][0] and "bias" in fixed["epilogue"][0]
    assert fixed["precision"][0] == "sums in fp32; rel_err at most 0.02 in float64"
    assert fixed["tile_k"] == ("64", "callers pad to 64 | or 128")
    assert fixed["tile_n, case large"][0] == "128"


def test_what_is_free_is_what_nothing_fixes(plan: Mapping[str, Any]) -> None:
    free = {name: c for name, c in constraints(plan).items() if not c["fixed"]}
    choices = {v["case"]: v["choice"]["choices"] for v in reversed(plan["variants"])}
    wanted = {
        f"{axis}, case {case}": str(value)
        for case, axes in choices.items()
        for axis, value in axes.items()
        if axis != "tile_k" and (axis, case) != ("tile_n", "large")
    }
    assert {name: c["value"] for name, c in free.items()} == wanted
    legal = next(v["legal"] for v in plan["variants"] if v["case"] == "small")
    assert free["tile_n, case small"]["because"] == f"free; first of {legal} legal candidates by predicted time"


def test_a_product_alone_says_that_it_has_no_epilogue(tmp_path: Path) -> None:
    text = SPEC.replace('F.gelu(a @ b.T + bias, approximate="tanh")', "a @ b.T")
    made = emitted(
        tmp_path,
        text=text.replace("product(a, b, bias)", "product(a, b)").replace("  bias: {shape: [N], dtype: bf16}\n", ""),
    )
    found = constraints(json.loads(made.files["plan.json"]))
    assert found["epilogue"]["value"] == "none: the product itself is the output"
    assert found["call"]["value"].startswith("(a, b) -> ")


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").replace("\\|", "\0").split("|")] for line in lines]


def test_port_md_says_the_same_in_tables(package: Any, plan: Mapping[str, Any]) -> None:
    text = package.files["plans/port.md"]
    assert text.startswith("# two: port of kernels/old.py::gemm\n")
    head, fixed, free = text.partition("## Fixed")[0], *text.partition("## Fixed")[2].split("## Free")
    assert "byte for byte" in head
    for part, is_fixed in ((fixed, True), (free, False)):
        rows = rows_of(part)
        assert {len(row) for row in rows} == {3}, rows  # no reason of the user breaks the table
        names = [row[0] for row in rows[2:]]
        assert names == [c["name"] for c in plan["constraints"] if c["fixed"] is is_fixed]
    assert "| callers pad to 64 \\| or 128 |" in text and "| two lines of reasons |" in text
    assert text.endswith("|\n") and "\n\n\n" not in text
