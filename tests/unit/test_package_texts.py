"""The texts of a package: made from a real spec and plan, clean, deterministic, and readable by `kgen check`."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kgen.check.package import read_package
from kgen.errors.package import ExtentNameError, ShapesError
from kgen.families.classify import classify
from kgen.frontend.reference import ReferenceText
from kgen.ir.dtype import DType
from kgen.ir.tensor import TensorType
from kgen.package.extraction import layout_of
from kgen.package.files import package_files, package_texts, with_fixed_name
from kgen.package.folder import compare_package
from kgen.package.input_text import stride_text
from kgen.package.parts import PackageParts, expected_evidence
from kgen.package.plan_json import json_text, shapes_text
from kgen.package.views import ExtractionView, InputView, KernelTestView, RangedInputView, ReadmeView
from kgen.package.work import work_of
from kgen.package.write import write_package
from kgen.planning.plan_program import plan_program
from kgen.render import Page
from kgen.render.fields import unread_fields
from kgen.spec.load import load_spec
from kgen.spec.model import Case, InputSpec, input_type
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
SPEC = """
name: gemm_bf16_bias_gelu
reference: |
  import torch.nn.functional as F


  def reference(a, b, bias, scale):
      return F.gelu(a @ b.T + bias, approximate="tanh") * scale
inputs:
  a: {shape: [M, K], dtype: bf16, leading: LDA}
  b: {shape: [N, K], dtype: bf16, layout: col}
  bias: {shape: [N], dtype: bf16}
  scale: {shape: [], dtype: fp32}
extents: {M: 512, N: 256, K: 128, LDA: 136}
cases:
  even: {}
  ragged: {M: 100, N: 72, K: 56}
targets: [h200]
"""


@cache
def parts(text=SPEC, device="h200"):
    from kgen.frontend.lower import lower
    from kgen.frontend.trace import trace

    with TemporaryDirectory() as folder:
        (Path(folder) / "spec.yaml").write_text(text)
        spec = load_spec(Path(folder) / "spec.yaml")
    programs = tuple((case.id, lower(trace(spec, case), spec)) for case in spec.cases)
    base = spec.accepts.base_alignment_bytes
    target = load_device(device)
    forms = {case: tuple(classify(p, target) for p in program.problems) for case, program in programs}
    plan = plan_program(spec.name, forms, dict(programs), target, {}, base)
    reference = spec.reference.source.strip("\n") + "\n"
    return PackageParts(
        spec=spec,
        programs=programs,
        plan=plan,
        kernel="VARIANTS = {}\n",
        kernel_template="package/test_kernel.py.j2",
        reference=reference,
        is_module=False,
        init_kwargs=(),
        evidence=expected_evidence(plan),
    )


@pytest.fixture
def written(tmp_path):
    write_package(package_texts(parts()), tmp_path / "package")
    return tmp_path / "package"


def load_input(folder):
    names = {}
    exec((folder / "input.py").read_text(), names)
    return names


def test_the_files():
    assert sorted(package_texts(parts())) == [
        "README.md",
        "input.py",
        "kernel.py",
        "plan.json",
        "plans/v0_plan.md",
        "reference.py",
        "shapes.json",
        "test_kernel.py",
    ]


def test_a_run_of_the_pipeline_becomes_the_package():
    from kgen.frontend.trace import trace
    from kgen.package.input_text import input_view

    spec, page = parts().spec, Page("package/input.py.j2", input_view(parts()))
    graphs = {case.id: trace(spec, case) for case in spec.cases}
    made = {"trace": graphs, "partition": dict(parts().programs), "plan": parts().plan, "view": page}
    files = package_files(spec, made)
    assert files["kernel.py"] == page.render()
    assert files["README.md"] == package_texts(parts())["README.md"]
    assert json.loads(files["plan.json"])["templates"].keys() >= {page.template, "package/test_kernel.py.j2"}


@pytest.mark.parametrize(
    ("entry", "is_module", "end"),
    [
        ("reference", False, "pass\n"),
        ("my_gemm", False, "pass\n\n\nreference = my_gemm\n"),
        ("Model", True, "pass\n"),
        ("Mlp", True, "pass\n\n\nModel = Mlp\n"),
    ],
)
def test_the_reference_has_the_name_that_the_test_imports(entry, is_module, end):
    assert with_fixed_name(ReferenceText("pass\n", entry, is_module, True)) == end


@pytest.mark.parametrize(
    ("template", "view"),
    [
        ("package/test_kernel.py.j2", KernelTestView),
        ("package/input.py.j2", InputView),
        ("package/input_ranged.py.j2", RangedInputView),
        ("package/v0_plan.md.j2", ExtractionView),
        ("package/README.md.j2", ReadmeView),
    ],
)
def test_no_field_is_unread(template, view):
    assert unread_fields(template, view) == ()


@pytest.mark.parametrize("is_module", [False, True], ids=["function", "module"])
@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["lint", "format"])
def test_emitted_python_is_clean(tmp_path, command, is_module):
    files = package_texts(replace(parts(), is_module=is_module, init_kwargs=(("n", 3),)))
    written = write_package(files, tmp_path / "package").folder
    arguments = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", str(ROOT / "pyproject.toml"), "."]
    done = subprocess.run(arguments, cwd=written, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_texts_end_with_one_newline_and_have_no_trailing_space():
    for name, text in package_texts(parts()).items():
        assert text.endswith("\n") and not text.endswith("\n\n"), name
        assert not any(line != line.rstrip() for line in text.splitlines()), name


def test_nothing_of_this_machine_is_in_the_texts():
    for name, text in package_texts(parts()).items():
        for word in (str(ROOT), str(Path.home()) + "/", "/tmp", os.uname().nodename + " "):
            assert word not in text, f"{word} in {name}"


def test_the_writer_and_the_check_read_the_plan(written):
    assert not compare_package(package_texts(parts()), written)
    package = read_package(written)
    assert (package.name, package.device, package.arch) == ("gemm_bf16_bias_gelu", "h200", "sm_90a")
    assert not package.is_edited
    assert [e.variant for e in package.expectations] == [v.name for v in parts().plan.variants]
    tma = package.expectation("even_tma")
    assert (tma.mma, tma.tma_loads, tma.spills) == ("HGMMA", True, 0)


def test_plan_json_says_why(written):
    plan = json.loads((written / "plan.json").read_text())
    variant = plan["variants"][0]
    assert 0 < variant["legal"] < variant["points"]
    assert len(variant["runners_up"]) <= 3
    assert {"rule", "place", "removed", "because"} == set(variant["rejections"][0])
    assert plan["templates"].keys() == {"package/test_kernel.py.j2"}


def test_the_input_digest_follows_the_input_only():
    digests = [
        json.loads(package_texts(p)["plan.json"])["input_digest"]
        for p in (
            parts(),
            replace(parts(), kernel="another\n"),
            parts(SPEC.replace("M: 512", "M: 513")),
            parts(SPEC.replace('"tanh"', '"none"')),
        )
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_the_inputs_are_those_of_the_spec(written):
    import torch

    spec, names = parts().spec, load_input(written)
    for case in json.loads((written / "shapes.json").read_text()).values():
        assert case["init_kwargs"] is None
        inputs = names["_make_inputs"](**case["input_kwargs"], seed=3, device="cpu")
        again = names["_make_inputs"](**case["input_kwargs"], seed=3, offset=1, device="cpu")
        other = names["_make_inputs"](**case["input_kwargs"], seed=4, device="cpu")
        extents = Case("", tuple(case["input_kwargs"].items()))
        for declared in spec.inputs:
            tensor, wanted = inputs[declared.name], input_type(declared, extents)
            assert (tuple(tensor.shape), tensor.stride()) == (wanted.shape, wanted.strides)
            assert torch.equal(tensor, again[declared.name])
            assert again[declared.name].storage_offset() == tensor.storage_offset() + 1
            assert not torch.equal(tensor, other[declared.name])
            assert tensor.isfinite().all()
        rows, band = inputs["a"].shape[0], names["_band"](inputs["a"].stride(), 2)
        memory = torch.empty(0, dtype=torch.bfloat16).set_(inputs["a"].untyped_storage())
        assert int(memory.isnan().sum()) == (rows - 1) * (136 - inputs["a"].shape[1]) + 2 * band


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (InputSpec("x", DType.BF16, ("M", "K")), "(K, 1)"),
        (InputSpec("x", DType.BF16, ("B", "M", "K")), "(M * K, K, 1)"),
        (InputSpec("x", DType.BF16, (4, "M", 8)), "(8 * M, 8, 1)"),
        (InputSpec("x", DType.BF16, (4, 2, 8)), "(16, 8, 1)"),
        (InputSpec("x", DType.BF16, ("M", "K"), order=(1, 0)), "(1, M)"),
        (InputSpec("x", DType.BF16, ("B", "M", "K"), leading="LD"), "(M * LD, LD, 1)"),
        (InputSpec("x", DType.BF16, ("M", "Z")), "(max(Z, 1), 1)"),
        (InputSpec("x", DType.BF16, ("M",)), "(1,)"),
        (InputSpec("x", DType.BF16, ()), "()"),
        (InputSpec("x", DType.BF16, ("M", "K"), strides=(0, 1)), "(0, 1)"),
    ],
)
def test_strides_are_printed_as_the_spec_means_them(tensor, expected):
    values = {"B": 3, "M": 5, "K": 7, "LD": 9, "Z": 0}
    case = Case("c", tuple(values.items()))
    spec = replace(parts().spec, cases=(case,))
    assert stride_text(tensor, spec) == expected
    assert eval(expected, dict(values)) == input_type(tensor, case).strides


def test_an_extent_that_is_no_parameter_is_refused():
    with pytest.raises(ExtentNameError, match="'offset' cannot be a parameter"):
        package_texts(replace(parts(), spec=replace(parts().spec, extents=(("offset", 3),))))


def test_constructor_arguments_must_fit_into_json():
    module = replace(parts(), is_module=True, init_kwargs=(("n", 3), ("bias", True)))
    assert json.loads(shapes_text(module))["even"]["init_kwargs"] == {"n": 3, "bias": True}
    with pytest.raises(ShapesError, match="dtype = "):
        shapes_text(replace(module, init_kwargs=(("dtype", object()),)))


def test_least_work_counts_each_element_once():
    even, ragged = work_of(parts())
    assert even.flops == 2 * 512 * 256 * 128
    assert even.bytes_read == 2 * (512 * 128 + 256 * 128 + 256) + 4
    assert even.bytes_written == 2 * 512 * 256
    assert ragged.bytes_read == 2 * (100 * 56 + 72 * 56 + 72) + 4


def test_an_unsure_peak_judges_nothing():
    text = package_texts(parts(device="h20"))["test_kernel.py"]
    assert "PEAK_FLOPS = math.inf  # bf16 products, dense: not known well enough" in text


def test_only_aligned_bases():
    text = package_texts(parts(SPEC + "accepts: {base_alignment: 16}\n"))["test_kernel.py"]
    assert "OFFSETS = (0,)" in text and "REFUSED_OFFSETS = (1,)" in text


def test_steps_lift_the_limit_on_elements():
    text = package_texts(parts(SPEC.replace("* scale", "* (bias - scale > 0)")))["test_kernel.py"]
    assert "ELEMENT_FACTOR = math.inf" in text and "none, for gt has steps" in text
    exact = package_texts(parts(SPEC.replace("* scale", "* (scale > 0)")))["test_kernel.py"]
    assert "ELEMENT_FACTOR = 10 " in exact  # the reference compares the same values
    assert "ELEMENT_FACTOR = 10 " in package_texts(parts())["test_kernel.py"]


@pytest.mark.parametrize(
    ("shape", "strides", "words"),
    [
        ((4, 8), (8, 1), "dense, last axis contiguous"),
        ((4, 8), (16, 1), "padded, last axis contiguous"),
        ((4, 8), (1, 4), "dense, axis 0 contiguous"),
        ((4, 8), (1, 16), "padded, axis 0 contiguous"),
        ((4, 8), (0, 1), "expanded along axis 0"),
        ((4, 8), (16, 2), "no contiguous axis"),
        ((1, 8), (99, 1), "dense, last axis contiguous"),
    ],
)
def test_layouts_in_words(shape, strides, words):
    assert layout_of(TensorType(DType.BF16, shape, strides)) == words


def test_json_puts_a_fact_on_a_line():
    value = {"a": [1, 2], "b": {"x": "long" * 40, "y": [{"n": 1}, {"n": 2}]}, "c": {}}
    assert json.loads(json_text(value)) == value
    assert json_text(value).splitlines()[1:4] == ['  "a": [1, 2],', '  "b": {', f'    "x": "{"long" * 40}",']


def test_the_same_bytes_in_every_process(tmp_path):
    script = tmp_path / "again.py"
    script.write_text(
        "import hashlib, sys\nsys.path[:0] = sys.argv[1:]\nimport test_package_texts as t\n"
        "texts = t.package_texts(t.parts())\nprint(hashlib.sha256(repr(texts).encode()).hexdigest())\n"
    )
    found = set()
    for seed, language in (("1", "C"), ("2", "C.UTF-8")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": language}
        command = [sys.executable, str(script), str(ROOT), str(Path(__file__).parent)]
        found.add(
            subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        )
    assert len(found) == 1
