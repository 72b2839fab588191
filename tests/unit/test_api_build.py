"""`kgen.build` without a GPU: its cache and key, what it binds at a call, and what it refuses.

The kernel itself is replaced by the reference's arithmetic: a stand-in kernel.py that records its arguments.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import kgen
from kgen import built
from kgen.built import BuiltKernel, build_key, device_of_gpu, load_kernel
from kgen.check.gpu import Gpu
from kgen.errors.cli import (
    KeywordTensorError,
    NoDeviceHereError,
    NotATensorError,
    OtherDslLoadedError,
    UnknownGpuError,
)
from kgen.errors.dynamic import DynamicAxesError
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.trace import trace_live
from kgen.target import load_device

BF16 = torch.bfloat16
H200 = Gpu("NVIDIA H200", "sm_90", 132, 150_754_820_096, 232448)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def pair(m: int = 32, dtype: torch.dtype = BF16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, 64, dtype=dtype), torch.randn(64, 16, dtype=dtype)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(built, "find_gpus", lambda: ())
    return tmp_path / "cache"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, ...]]:
    """Replace loaded kernels by one that records its arguments and returns how many there were."""
    seen: list[tuple[torch.Tensor, ...]] = []

    def kernel(*tensors: torch.Tensor) -> int:
        seen.append(tensors)
        return len(tensors)

    monkeypatch.setattr(built, "load_kernel", lambda folder, device: kernel)
    return seen


def key_of(fn: Callable[..., object], tensors: tuple[torch.Tensor, ...], device: str = "h200") -> str:
    spec = spec_from_callable(fn, tensors)
    return build_key(spec, trace_live(spec, spec.cases[0]), load_device(device))


def test_writes_a_package_to_the_cache_once(cache: Path, calls: list, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder,) = kgen.build(product, pair(), target="h200").folders
    assert folder.parent == cache / "build" and (folder / "kernel.py").is_file() and (folder / "plan.json").is_file()
    monkeypatch.setattr(built, "run", lambda *_: pytest.fail("emitted again"))
    assert kgen.build(product, pair(), target="h200").folders == (folder,)


def test_a_damaged_package_is_written_again(calls: list) -> None:
    (folder,) = kgen.build(product, pair(), target="h200").folders
    text = (folder / "kernel.py").read_text()
    (folder / "kernel.py").write_text("torn")
    kgen.build(product, pair(), target="h200")
    assert (folder / "kernel.py").read_text() == text


def test_the_key_holds_what_is_baked_in(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pair()
    scale = 0.5
    first = key_of(product, (a, b))
    assert key_of(product, (a.clone(), b.clone())) == first
    others = {
        "shape": key_of(product, pair(40)),
        "dtype": key_of(product, pair(dtype=torch.float16)),
        "strides": key_of(product, (a, b.t().contiguous().t())),
        "device": key_of(product, (a, b), "h20"),
        "number": key_of(lambda a, b: a @ b * scale, (a, b)),
    }
    scale = 0.25
    others["other number"] = key_of(lambda a, b: a @ b * scale, (a, b))
    monkeypatch.setattr(built, "sources_digest", lambda: "other sources")
    others["kgen"] = key_of(product, (a, b))
    monkeypatch.setattr(built, "compiler_versions", lambda: {"nvidia-cutlass-dsl": "9"})
    others["versions"] = key_of(product, (a, b))
    assert len({first, *others.values()}) == len(others) + 1


def test_the_key_does_not_hold_the_values_of_constants() -> None:
    a, b = pair()
    keys = []
    for w in (b, b + 1):
        keys.append(key_of(lambda a, w=w: a @ w, (a,)))
    assert keys[0] == keys[1]


def test_a_module_is_bound_as_it_is_at_the_call(calls: list) -> None:
    linear = torch.nn.Linear(64, 16, dtype=BF16)
    kernel = kgen.build(linear, (torch.randn(32, 64, dtype=BF16),), target="h200")
    x = torch.randn(32, 64, dtype=BF16)
    assert kernel(x) == 3
    assert calls[-1][0] is x and torch.equal(calls[-1][1], linear.weight) and not calls[-1][1].requires_grad
    linear.weight = torch.nn.Parameter(torch.ones(16, 64, dtype=BF16))  # a new parameter, no update in place
    with torch.no_grad():
        linear.bias.zero_()
    kernel(x)
    assert torch.equal(calls[-1][1], torch.ones(16, 64, dtype=BF16)) and not calls[-1][2].any()
    assert len(kernel.folders) == 1


def test_closed_over_tensors_are_arguments_and_updates_are_seen(calls: list) -> None:
    linear, scale = torch.nn.Linear(64, 16, dtype=BF16), torch.full((16,), 2.0, dtype=BF16)
    kernel = kgen.build(lambda x: linear(x) * scale, (torch.randn(32, 64, dtype=BF16),), target="h200")
    with torch.no_grad():
        linear.weight.fill_(3)
        scale.fill_(5)
    kernel(torch.randn(32, 64, dtype=BF16))
    assert [float(t.flatten()[0]) for t in calls[-1][1:] if t.dim() == 2] == [3.0]
    assert any(torch.equal(t, scale) for t in calls[-1][1:])


def test_keywords_go_to_their_places(calls: list) -> None:
    a, b = pair()
    kernel = kgen.build(product, (a, b), target="h200")
    kernel(b=b, a=a)
    assert calls[-1][0] is a and calls[-1][1] is b
    with pytest.raises(TypeError, match="missing a required argument"):
        kernel(b=b)
    with pytest.raises(KeywordTensorError, match="b cannot be passed by position"):
        BuiltKernel(lambda a, *, b: a @ b, "h200")(a, b=b)
    with pytest.raises(NotATensorError, match="argument 1 is a float"):
        kernel(a, 2.0)


def test_other_shapes_get_a_kernel_of_their_own(calls: list) -> None:
    kernel = kgen.build(product, pair(), target="h200")
    for m in (32, 48, 32, 48):
        kernel(*pair(m))
    assert len(set(kernel.folders)) == 2
    kernel(*pair(dtype=torch.float16))
    assert len(set(kernel.folders)) == 3


def test_a_module_that_is_cast_gets_another_kernel(calls: list) -> None:
    linear = torch.nn.Linear(64, 16, dtype=BF16)
    kernel = kgen.build(linear, (torch.randn(32, 64, dtype=BF16),), target="h200")
    linear.half()
    kernel(torch.randn(32, 64, dtype=torch.float16))
    assert len(set(kernel.folders)) == 2 and calls[-1][1].dtype == torch.float16


def test_the_device_is_that_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoDeviceHereError) as caught:
        kgen.build(product, pair())
    assert caught.value.exit_code == 4 and "this machine has no GPU" in str(caught.value)
    monkeypatch.setattr(built, "find_gpus", lambda: (H200,))
    assert device_of_gpu().name == "h200"
    monkeypatch.setattr(built, "find_gpus", lambda: (replace(H200, name="NVIDIA H20"),))
    assert device_of_gpu().name == "h200"  # the name of the product decides nothing
    slice_of_one = replace(H200, name="NVIDIA H200", compute_units=16, memory_bytes=18 << 30)
    monkeypatch.setattr(built, "find_gpus", lambda: (slice_of_one,))
    with pytest.raises(UnknownGpuError, match="16 units, 18 GiB") as unknown:
        device_of_gpu()
    assert unknown.value.exit_code == 3


def stand_in(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(text)
    return folder


def test_loads_under_a_name_of_its_own_once(tmp_path: Path) -> None:
    text = "calls = []\ndef kernel(x):\n    calls.append(x)\n    return len(calls)\n"
    one, two = stand_in(tmp_path / "one_k", text), stand_in(tmp_path / "two_k", text)
    device = load_device("h200")
    try:
        assert load_kernel(one, device)(0) == 1 and load_kernel(one, device)(0) == 2
        assert load_kernel(two, device)(0) == 1
        assert "kernel" not in sys.modules
    finally:
        for name in ("kgen_built_one_k", "kgen_built_two_k"):
            del sys.modules[name]


def test_a_kernel_that_fails_to_import_leaves_no_module(tmp_path: Path) -> None:
    folder = stand_in(tmp_path / "broken_k", "raise ImportError('written for another DSL')")
    with pytest.raises(ImportError, match="written for another DSL"):
        load_kernel(folder, load_device("h200"))
    assert "kgen_built_broken_k" not in sys.modules


def test_two_dsls_never_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Mapping[str, object] = {"flydsl": object()}
    monkeypatch.setitem(sys.modules, "flydsl", modules["flydsl"])
    folder = stand_in(tmp_path / "never_k", "raise AssertionError('imported')")
    with pytest.raises(OtherDslLoadedError, match="needs cutlass, and flydsl is loaded"):
        load_kernel(folder, load_device("h200"))


ROWS = {"a": {0: (1, 256)}}


def test_values_of_an_extent_of_run_time_share_a_kernel(calls: list) -> None:
    fast = kgen.build(product, pair(), target="h200", dynamic=ROWS)
    one, narrow = pair(1), (torch.randn(4, 80, dtype=BF16)[:, :64], pair()[1])
    fast(*pair(200)), fast(*one), fast(one[0].as_strided((1, 64), (7, 1)), one[1])
    assert len(fast.folders) == 1 and len(calls) == 3  # strides along one element mean nothing
    fast(*narrow)
    assert len(fast.folders) == 2  # rows of another stride
    text = (fast.folders[0] / "kernel.py").read_text()
    assert "M from 1 to 256" in text and "def planned(" in text


@pytest.mark.parametrize(
    ("dynamic", "reason"),
    [
        ({"a": {0: (1, 256)}, "b": {0: (1, 64)}}, "2 ranges"),
        ({"a": {0: (64, 64)}}, "no range of extents"),
        ({"c": {0: (1, 256)}}, "c is no argument: there are a, b"),
        ({"a": {1: (1, 256)}}, "not its slowest one"),
        ({"a": {2: (1, 256)}}, "a has 2 axes"),
    ],
)
def test_axes_that_cannot_be_of_run_time(dynamic: dict[str, dict[int, tuple[int, int]]], reason: str) -> None:
    with pytest.raises(DynamicAxesError, match=reason):
        kgen.emit(product, pair(), target="h200", dynamic=dynamic)
