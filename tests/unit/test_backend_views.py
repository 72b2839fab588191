"""The views of the GEMM templates: no field that no template reads, and no back-end without its parts."""

from dataclasses import dataclass, replace

import emitted_specs
import pytest

from kgen.backends.cutedsl.gemm_device import FOLDER, section_templates
from kgen.backends.cutedsl.gemm_views import DeviceView, DynamicPlanView, HostView, PlanView
from kgen.backends.registry import BACKENDS, backend_of
from kgen.backends.source.gemm_views import KernelView
from kgen.backends.source.imports import import_block
from kgen.backends.source.lines import LINE, bracketed, listed
from kgen.errors.backend import ElementTypeError, NoBackendError
from kgen.ir.dtype import DType
from kgen.pipeline import run
from kgen.render.environment import template_names
from kgen.render.fields import unread_fields
from kgen.resources import templates_dir
from kgen.target import list_devices, load_device

VIEWS = {"kernel": KernelView, "host": HostView, "plan": PlanView, "plan_dynamic": DynamicPlanView}
WHOLE = {f"{FOLDER}/{name}.py.j2" for name in VIEWS}
SECTIONS = tuple(
    name for name in template_names() if name.startswith(FOLDER) and name.endswith(".py.j2") and name not in WHOLE
)

# What launch functions of fp32 operands, and of parts of k, have in common.
INCLUDED = {
    f"{FOLDER}/{name}.py.j2" for name in ("cut_planes", "compute_again", "launch_sums", "tma_pipe", "tma_views")
}


@pytest.mark.parametrize(("template", "view"), VIEWS.items())
def test_every_field_is_read(template: str, view: type) -> None:
    assert unread_fields(f"{FOLDER}/{template}.py.j2", view) == ()


def test_every_field_of_the_device_view_is_read_by_some_section() -> None:
    unread = [set(unread_fields(section, DeviceView)) for section in SECTIONS]
    assert len(SECTIONS) > 10 and set.intersection(*unread) == set()


def test_the_matrix_of_specs_prints_every_section() -> None:
    printed: set[str] = set()
    for name in emitted_specs.NAMES:
        text, plan = emitted_specs.files_of(name)["kernel.py"], emitted_specs.plan_of(name)
        printed |= set(section_templates(plan, _flags(text)))
    assert printed == set(SECTIONS) - INCLUDED


def _flags(text: str) -> DeviceView:
    """Return a view that has only what the choice of sections reads."""
    empty = dict.fromkeys(DeviceView.__dataclass_fields__, ())
    view = DeviceView(**empty)
    stores, epilogue = "tma_d" in text, "def epilogue_ops" in text
    return replace(
        view,
        fused="fused" if "def matrix_view" in text else "",
        has_epilogue=epilogue,
        stores_by_tma=stores,
        extent="extent, " if "def at_run_time" in text else "",
    )


@dataclass(frozen=True)
class FakeForm:
    """A form of a family that no back-end prints."""

    family: str


def test_backends_have_their_templates() -> None:
    for backend in BACKENDS:
        for family in backend.families:
            assert (templates_dir() / backend.name / backend.templates / family / "lowered.rules").is_file()


def test_a_device_without_templates_is_refused() -> None:
    plan = emitted_specs.plan_of("plain")
    assert backend_of(plan).name == "cutedsl"
    unknown = tuple(replace(v, form=FakeForm("conv")) for v in plan.variants)
    with pytest.raises(NoBackendError, match="no template prints the conv family for sm_90a"):
        backend_of(replace(plan, variants=unknown))
    other = next(d for d in map(load_device, list_devices()) if d.arch.backend != "cutedsl")
    assert backend_of(replace(plan, device=other)).name == "flydsl"
    with pytest.raises(NoBackendError, match="no template prints the conv family for gfx") as caught:
        backend_of(replace(plan, device=other, variants=unknown))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("dtype", ["fp64", "fp8_e4m3"])
def test_an_input_type_that_no_kernel_reads_is_refused(dtype: str) -> None:
    spec = emitted_specs.spec_of("everything")
    inputs = tuple(replace(i, dtype=DType(dtype)) if i.name == "full" else i for i in spec.inputs)
    with pytest.raises(Exception, match=dtype) as caught:
        run(replace(spec, inputs=inputs), load_device("h200"), stop_after="view")
    assert caught.value.exit_code == 3 and isinstance(caught.value, ElementTypeError | NotImplementedError)


def test_imports_are_merged_and_sorted() -> None:
    statements = [
        "from torch import nn",
        "import torch",
        "import math, os",
        "from math import prod, gcd",
        "from math import PI",
    ]
    statements += ["from torch import Tensor as T", "import torch.nn.functional as F", "from math import prod"]
    assert import_block(statements) == (
        "import math",
        "import os",
        "from math import PI, gcd, prod",
        "",
        "import torch",
        "import torch.nn.functional as F",
        "from torch import Tensor as T",
        "from torch import nn",
    )


def test_brackets_break_as_the_formatter_breaks_them() -> None:
    assert bracketed("f(", ("a", "b"), ")") == ("f(a, b)",)
    long = ("a" * 60, "b" * 57)
    assert bracketed("f(", long, ")") == ("f(", f"    {long[0]},", f"    {long[1]},", ")")
    middle = bracketed("function(", ("a" * 50, "b" * 50), ")", indent=12)
    assert middle == ("function(", f"    {'a' * 50}, {'b' * 50}", ")")
    assert max(map(len, middle)) + 12 <= LINE
    assert listed("{", (), "},") == ("{},",) and listed("{", ("x",), "}") == ("{", "    x,", "}")
