"""CDNA packages compiled with no GPU: what is read of right ones, and every way in which FlyDSL fails."""

import json
from pathlib import Path

import cdna_fixtures
import pytest

from kgen.check import CheckResult, KernelEvidence, check_package, check_packages
from kgen.check.cache import Cache
from kgen.check.probe import probe_toolchains

pytestmark = pytest.mark.emitted

HEAD = """
import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu


class Variant:
    name = "one"


VARIANTS = (Variant(),)
"""
TAIL = """

@flyc.jit
def launch(x: fx.Tensor, stream: fx.Stream):
    k(x).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


def compile_variant(name):
    return flyc.compile(launch, torch.empty(64, dtype=torch.float32, device="meta"), fx.Stream(None))
"""
MATH = """
@flyc.kernel
def k(x: fx.Tensor):
    i = fx.thread_idx.x
    x[i] = fx.FUNCTION(x[i])
"""
LARGE_LDS = """
@fx.struct
class Smem:
    a: fx.Array[fx.Float32, 40000, 16]


@flyc.kernel
def k(x: fx.Tensor):
    i = fx.thread_idx.x
    view = fx.SharedAllocator().allocate(Smem).peek().a.view(fx.make_layout(40000, 1))
    view[i * 600] = x[i]
    gpu.barrier()
    x[i] = view[(63 - i) * 600]
"""
COPY_TO_LDS = """
@fx.struct
class Smem:
    a: fx.Array[fx.Float32, 256, 16]


@flyc.kernel
def k(x: fx.Tensor):
    i = fx.thread_idx.x
    smem = fx.SharedAllocator().allocate(Smem).peek()
    view = fx.logical_divide(smem.a.view(fx.make_layout(256, 1)), fx.make_layout(4, 1))
    source = fx.logical_divide(fx.rocdl.make_buffer_tensor(x), fx.make_layout(4, 1))
    atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS128b(), fx.Float32)
    fx.copy(atom, fx.slice(source, (None, i)), fx.slice(view, (None, i)))
    gpu.barrier()
    x[i] = smem.a.view(fx.make_layout(256, 1))[i]
"""
NOT_COMPILED = (
    HEAD
    + """

def compile_variant(name):
    return None
"""
)


def check(folder: Path, device: str, text: str, **evidence: object) -> CheckResult:
    folder.mkdir(exist_ok=True)
    (folder / "kernel.py").write_text(text)
    row = {"variant": "one", **evidence}
    (folder / "plan.json").write_text(
        json.dumps({"name": "k", "target": {"device": device, "arch": _isa(device)}, "evidence": [row]})
    )
    return check_package(folder, cache=Cache(folder / "cache"))


def _isa(device: str) -> str:
    return {"mi300x": "gfx942", "mi355x": "gfx950"}[device]


def finding(result: CheckResult) -> str:
    (found,) = result.findings
    return str(found)


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], CheckResult]:
    root = tmp_path_factory.mktemp("fixtures")
    names = [(name, device) for name in cdna_fixtures.FIXTURES for device in ("mi300x", "mi355x")]
    folders = [cdna_fixtures.write(name, device, root / device / name) for name, device in names]
    return dict(zip(names, check_packages(folders, jobs=2, cache=Cache(root / "cache")), strict=True))


def kernel_of(result: CheckResult, variant: str) -> KernelEvidence:
    (kernel,) = next(v.kernels for v in result.variants if v.variant == variant)
    return kernel


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
@pytest.mark.parametrize("name", list(cdna_fixtures.FIXTURES))
def test_the_fixtures_are_as_planned(fixtures: dict[tuple[str, str], CheckResult], name: str, device: str) -> None:
    result = fixtures[name, device]
    assert result.ok, result.findings
    assert {variant.arch for variant in result.variants} == {_isa(device)}


@pytest.mark.parametrize(("device", "shape", "sites"), [("mi300x", "16x16x16", 16), ("mi355x", "16x16x32", 8)])
def test_matrix_instructions_are_counted(
    fixtures: dict[tuple[str, str], CheckResult], device: str, shape: str, sites: int
) -> None:
    kernel = kernel_of(fixtures["small_gemm", device], "m64n64k64")
    assert [str(mma) for mma in kernel.mma] == [f"v_mfma_f32_{shape}_bf16 x {sites}"]
    assert kernel.wave is not None and dict(kernel.wave.units)["mfma"] == sites
    # 4 tiles of A and of B, 32 pieces of 16 bytes a wave: each wave reads half of both tiles, one barrier on each side
    assert dict(kernel.wave.units)["barrier"] == 2 and kernel.static_smem_bytes == 2 * 64 * 64 * 2
    assert kernel.threads == 256 and kernel.access_bytes == 16


def test_evidence_survives_the_cache_and_the_plan_is_compared_anew(tmp_path: Path) -> None:
    folder, cache = cdna_fixtures.write("scaled_add", "mi355x", tmp_path / "p"), Cache(tmp_path / "cache")
    first, second = check_package(folder, cache=cache), check_package(folder, cache=cache)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert first.variants == second.variants and first.code_digest == second.code_digest
    plan = json.loads((folder / "plan.json").read_text())
    plan["evidence"][0] |= {"async_loads": True, "waves_per_simd": 9, "smem_bytes": 64}
    (folder / "plan.json").write_text(json.dumps(plan))
    third = check_package(folder, cache=cache)
    assert third.from_cache and list(map(str, third.findings)) == [
        "vec8: LDS: expected 64 bytes, found 0 bytes",
        "vec8: asynchronous loads to LDS: expected at least one, found 0",
        "vec8: waves per SIMD: expected at least 9, found 8",
    ]


def test_an_error_that_is_only_printed_is_a_failure(tmp_path: Path) -> None:
    result = check(tmp_path / "tanh", "mi300x", HEAD + MATH.replace("FUNCTION", "tanh") + TAIL)
    assert "no libcall available for ftanh" in finding(result)


def test_a_kernel_that_needs_the_device_library_is_told_so(tmp_path: Path) -> None:
    result = check(tmp_path / "sin", "mi355x", HEAD + MATH.replace("FUNCTION", "sin") + TAIL)
    assert "the kernel calls ROCm's device library (ocml), which kgen does not bring" in finding(result)


def test_more_lds_than_a_workgroup_has_is_a_failure(tmp_path: Path) -> None:
    small = check(tmp_path / "small", "mi300x", HEAD + LARGE_LDS + TAIL)
    assert "local memory (160000) exceeds limit (65536)" in finding(small)
    large = check(tmp_path / "large", "mi355x", HEAD + LARGE_LDS + TAIL, smem_bytes=160000, waves_per_simd=1)
    assert large.ok, large.findings


def test_an_abort_of_the_compiler_costs_only_its_package(tmp_path: Path) -> None:
    result = check(tmp_path / "abort", "mi300x", HEAD + COPY_TO_LDS + TAIL)
    assert "the compile subprocess ended (killed by SIGABRT)" in finding(result)
    assert "Do not know how to expand this operator's operand" in finding(result)
    right = check(tmp_path / "right", "mi355x", HEAD + COPY_TO_LDS + TAIL, async_loads=True, access_bytes=16)
    assert right.ok, right.findings


def test_a_variant_that_compiles_nothing_is_a_failure(tmp_path: Path) -> None:
    assert "it must call flyc.compile" in finding(check(tmp_path / "none", "mi300x", NOT_COMPILED))


def test_the_doctor_tries_both_instruction_sets_out() -> None:
    probes = probe_toolchains()
    assert [probe.what for probe in probes] == [
        "flydsl for gfx942",
        "flydsl for gfx950",
        "the simulator of flydsl's kernels",
    ]
    assert all(probe.failure is None for probe in probes), probes


def test_a_users_settings_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + MATH.replace("FUNCTION", "sqrt") + TAIL
    plain = check(tmp_path / "plain", "mi300x", text)
    for name, value in {
        "FLYDSL_GPU_ARCH": "gfx1201",
        "ARCH": "gfx950",
        "ROCM_PATH": "/nowhere",
        "COMPILE_ONLY": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    set_by_user = check(tmp_path / "set", "mi300x", text)
    assert set_by_user.ok and set_by_user.code_digest == plain.code_digest is not None
