"""The host code of programs with products on CDNA: sections, memory for parts of k, launches in order, refusals.

The host function runs on CPU tensors, with stand-ins for the compiled functions, for FlyDSL and for torch.cuda.
"""

import ast
import contextlib
import re
from types import SimpleNamespace

import mixed_specs
import pytest
import torch

from kgen.backends.flydsl.expressions import flydsl
from kgen.backends.flydsl.program import view_program
from kgen.backends.flydsl.program_host import FOLDER
from kgen.backends.flydsl.program_views import CdnaProgramHostView, LoopsView, ProductsView
from kgen.backends.program.views import ProgramFileView
from kgen.backends.registry import backend_of
from kgen.backends.source.names import host_names
from kgen.backends.source.statements import statements_of
from kgen.backends.source.tokens import global_names
from kgen.render.fields import unread_fields
from kgen.target import load_device

DEVICES = ("mi300x", "mi355x")
ALL = tuple(mixed_specs.FUNCTIONS)


def statements(name: str, device: str = "mi300x") -> dict[str, str]:
    return {s.name: s.text for s in statements_of(mixed_specs.files_of(name, device)["kernel.py"])}


@pytest.mark.parametrize(
    ("template", "view"),
    [("kernel", ProgramFileView), ("host", CdnaProgramHostView), ("products", ProductsView), ("loops", LoopsView)],
)
def test_every_field_is_read(template: str, view: type) -> None:
    assert unread_fields(f"{FOLDER}/{template}.py.j2", view) == ()


@pytest.mark.parametrize("device", DEVICES)
def test_this_back_end_takes_products_among_several_kernels(device: str) -> None:
    plans = [mixed_specs.plan_of(name, device) for name in ("linear_softmax", "odd_chain")]
    assert [plan.family for plan in plans] == ["gemm+reduction", "gemm"]
    assert all(backend_of(plan).view is view_program for plan in plans)


def test_only_what_the_kernels_need_is_there() -> None:
    products, both = statements("odd_chain"), statements("linear_softmax")
    assert "compile_product" in products and not {"compile_loop", "SIGNATURES", "HINTS", "Access"} & products.keys()
    assert {"compile_product", "compile_loop", "Access", "Variant", "Variant_0"} <= both.keys()
    library = flydsl(load_device("mi300x").arch.fp8).library_names()
    for name in ALL:
        found = statements(name)
        called = {n for text in found.values() for n in global_names(text)}
        assert library & found.keys() <= called, name


class Host:
    """The host code of a kernel.py on CPU tensors; `launched` are (variant, addresses or tensors) in order."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launched: list[tuple[str, tuple[object, ...]]] = []
        dsl = SimpleNamespace(from_c_void_p=lambda dtype, address: address)
        self.scope: dict[str, object] = {"torch": torch, "flyc": dsl, "fx": Types(), "compiled": self.compiled}
        found = statements(name)
        for wanted in (
            "NAME",
            "PLAN",
            "POINTERS",
            "chosen",
            "run_product",
            "run_loop",
            "fits",
            "refusal",
            "aligned",
            "kernel",
        ):
            exec(found.get(wanted, "").replace("tensor.is_cuda and ", ""), self.scope)
        monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))

    def compiled(self, name: str, device: object) -> object:
        def function(*arguments: object) -> None:
            *taken, stream = arguments
            assert stream == ("Stream", 7)
            self.launched.append((name, tuple(t.data_ptr() if isinstance(t, torch.Tensor) else t for t in taken)))

        return function

    def __call__(self, *tensors: torch.Tensor) -> object:
        return self.scope["kernel"](*tensors)


class Types:
    """Stands in for `flydsl.expr`: its types are their names."""

    def __getattr__(self, name: str) -> object:
        return (lambda stream: (name, stream)) if name == "Stream" else name


@pytest.mark.parametrize("name", ALL)
def test_the_host_launches_every_kernel_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host, plan = Host(name, monkeypatch), mixed_specs.plan_of(name, "mi300x")
    result = host(*mixed_specs.zeros(name))
    firsts = [plan.variants_of("default", k)[0] for k in plan.kernels_of("default")]
    assert [n for n, _ in host.launched] == [v.name for v in firsts if not v.form.is_empty]
    (program,) = mixed_specs.made_of(name, "mi300x")["lower"].values()
    types = {t.name: t.type for p in program.problems for t in p.tensors}
    results = result if isinstance(result, tuple) else (result,)
    for made, wanted in zip(results, program.results, strict=True):
        assert (made.shape, made.stride()) == (types[wanted].static_shape, types[wanted].strides)


def test_what_one_kernel_makes_the_next_one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    host, (q, k, v) = Host("attention", monkeypatch), mixed_specs.zeros("attention")
    out = host(q, k, v)
    (_, first), (_, second), (_, third) = host.launched
    assert first[:2] == (q.data_ptr(), k.data_ptr())
    assert first[2] == second[0] and third == (second[1], v.data_ptr(), out.data_ptr())


def test_a_product_that_splits_k_gets_memory_for_the_sums_of_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = mixed_specs.plan_of("split_softmax", "mi300x")
    parts = [v.choice.candidate.number("split_k") for v in plan.variants if v.family == "gemm"]
    assert max(parts) > 1
    text = statements("split_softmax")
    assert "sums_0 = torch.empty_strided(*made[2], dtype=torch.float32, device=device)" in text["kernel"]
    assert f"(({max(parts) * 16 * 64},), (1,))" in text["PLAN"]
    assert re.search(r"fx\.BFloat16, fx\.BFloat16, fx\.BFloat16, fx\.Float32\)", text["POINTERS"])
    host, tensors = Host("split_softmax", monkeypatch), mixed_specs.zeros("split_softmax")
    host(*tensors)
    (_, product), (_, loop) = host.launched
    assert product[:2] == tuple(t.data_ptr() for t in tensors) and product[2] == loop[0] and len(set(product)) == 4


def test_the_host_takes_the_variant_that_the_addresses_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("two_linears", monkeypatch)
    host(*mixed_specs.zeros("two_linears", shift=2))
    assert [name for name, _ in host.launched] == ["default_0_staged_any", "default_1_staged_any"]


def test_an_updated_tensor_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    host, tensors = Host("in_place", monkeypatch), mixed_specs.zeros("in_place")
    host(*tensors)
    (_, product), _ = host.launched
    assert product == tuple(tensors[i].data_ptr() for i in (1, 2, 0, 0))


@pytest.mark.parametrize("wrong", ["shape", "strides", "type"])
def test_other_tensors_are_refused_with_what_is_accepted(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("linear_softmax", monkeypatch)
    x, w, b = mixed_specs.zeros("linear_softmax")
    other = {"shape": x[:3], "strides": x.t().contiguous().t(), "type": x.to(torch.float16)}[wrong]
    with pytest.raises(ValueError, match=r"one GPU: torch.bfloat16 \(64, 128\) strides \(128, 1\), .* Found: torch"):
        host(other, w, b)
    assert not host.launched


def test_no_name_of_the_host_function_is_left_to_the_user() -> None:
    function = ast.parse(statements("running_mean")["kernel"]).body[0]
    used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    left = {n for n in used if host_names((n,))[n] == n}
    assert left == {"mean", "x", "w", "out", "buffer_0"}
