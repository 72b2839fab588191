"""The proof without a GPU on small packages of its own: real compiles, real disassembly, real crashes."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from kgen.check import CheckResult, check_package, check_packages
from kgen.check.cache import Cache
from kgen.check.release import release_of_package

pytestmark = pytest.mark.emitted
ROOT = Path(__file__).resolve().parents[2]

HEAD = """
from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, warp, warpgroup
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from cutlass.utils import SmemAllocator


@dataclass(frozen=True)
class Variant:
    name: str
    n: int


def compiled(launch, n):
    tensor = make_fake_compact_tensor(cutlass.Float32, (n,), stride_order=(0,), assumed_align=16)
    return cute.compile(launch, tensor, make_fake_stream(use_tvm_ffi_env_stream=True), options="--enable-tvm-ffi")
"""

ADD = (
    HEAD
    + """
VARIANTS = (Variant("small", 1024), Variant("large", 2048))


@cute.kernel
def add_kernel(x: cute.Tensor):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    x[i] = x[i] + x[i] * x[i]


@cute.jit
def launch(x: cute.Tensor, stream):
    add_kernel(x).launch(grid=(cute.size(x) // 128, 1, 1), block=(128, 1, 1), stream=stream)


def compile_variant(name):
    return compiled(launch, next(v.n for v in VARIANTS if v.name == name))
"""
)

# One warp group multiplies whatever shared memory holds: 64 x 64 x 64 in four wgmma.
WGMMA = (
    HEAD
    + """
VARIANTS = (Variant("wgmma", 64 * 64),)


@cute.kernel
def wgmma_kernel(d: cute.Tensor):
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, cutlass.BFloat16)
    layout = cute.tile_to_shape(atom, (64, 64), order=(0, 1))
    smem = SmemAllocator()
    a = smem.allocate_tensor(cutlass.BFloat16, layout.outer, 1024, swizzle=layout.inner)
    b = smem.allocate_tensor(cutlass.BFloat16, layout.outer, 1024, swizzle=layout.inner)
    k = OperandMajorMode.K
    op = warpgroup.MmaF16BF16Op(cutlass.BFloat16, cutlass.Float32, (64, 64, 16), warpgroup.OperandSource.SMEM, k, k)
    mma = cute.make_tiled_mma(cute.make_mma_atom(op))
    thread = cute.arch.thread_idx()[0]
    part = mma.get_slice(thread)
    fragment_a, fragment_b = mma.make_fragment_A(part.partition_A(a)), mma.make_fragment_B(part.partition_B(b))
    acc = cute.make_rmem_tensor(mma.partition_shape_C((64, 64)), cutlass.Float32)
    acc.fill(0.0)
    mma.set(warpgroup.Field.ACCUMULATE, True)
    warpgroup.fence()
    for block in cutlass.range_constexpr(4):
        cute.gemm(mma, acc, fragment_a[None, None, block], fragment_b[None, None, block], acc)
    warpgroup.commit_group()
    warpgroup.wait_group(0)
    for i in cutlass.range_constexpr(32):
        d[thread * 32 + i] = acc[i]


@cute.jit
def launch(d: cute.Tensor, stream):
    wgmma_kernel(d).launch(grid=(1, 1, 1), block=(128, 1, 1), stream=stream)


def compile_variant(name):
    return compiled(launch, VARIANTS[0].n)
"""
)

# The same product by mma.sync, which Hopper runs too, at a fraction of the speed: what a check must not take for wgmma.
MMA_SYNC = (
    HEAD
    + """
VARIANTS = (Variant("wgmma", 16 * 8),)


@cute.kernel
def sync_kernel(d: cute.Tensor):
    mma = cute.make_tiled_mma(warp.MmaF16BF16Op(cutlass.BFloat16, cutlass.Float32, (16, 8, 16)))
    a = cute.make_rmem_tensor(mma.partition_shape_A((16, 16)), cutlass.BFloat16)
    b = cute.make_rmem_tensor(mma.partition_shape_B((8, 16)), cutlass.BFloat16)
    acc = cute.make_rmem_tensor(mma.partition_shape_C((16, 8)), cutlass.Float32)
    thread = cute.arch.thread_idx()[0]
    a.fill(d[thread].to(cutlass.BFloat16))
    b.fill(d[thread + 1].to(cutlass.BFloat16))
    acc.fill(0.0)
    cute.gemm(mma, acc, a, b, acc)
    for i in cutlass.range_constexpr(4):
        d[thread * 4 + i] = acc[i]


@cute.jit
def launch(d: cute.Tensor, stream):
    sync_kernel(d).launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream)


def compile_variant(name):
    return compiled(launch, VARIANTS[0].n)
"""
)

# 1,024 threads leave 64 registers each, and every value of the first loop is needed in the second.
SPILL = (
    HEAD
    + """
VARIANTS = (Variant("wide", 1 << 20),)


@cute.kernel
def wide_kernel(x: cute.Tensor):
    thread = cute.arch.thread_idx()[0]
    values = cute.make_rmem_tensor(128, cutlass.Float32)
    for i in cutlass.range_constexpr(128):
        values[i] = x[i * 1024 + thread]
    cute.arch.barrier()
    for i in cutlass.range_constexpr(128):
        x[i * 1024 + 1023 - thread] = values[i] * values[127 - i]


@cute.jit
def launch(x: cute.Tensor, stream):
    wide_kernel(x).launch(grid=(1, 1, 1), block=(1024, 1, 1), stream=stream)


def compile_variant(name):
    return compiled(launch, VARIANTS[0].n)
"""
)

# No DSL: what a compiler can do to its process.
MISBEHAVE = """
    import os
    import sys
    import time
    from types import SimpleNamespace

    {at_import}
    VARIANTS = (SimpleNamespace(name="first"), SimpleNamespace(name="second"))


    def compile_variant(name):
        print("noise on standard output")
        {at_compile}
"""


def package(folder: Path, kernel: str, *evidence: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "kernel.py").write_text(dedent(kernel))
    plan = {"name": folder.name, "target": {"device": "h200", "arch": "sm_90a"}, "evidence": evidence}
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


def misbehaving(folder: Path, at_import: str = "", at_compile: str = "pass") -> Path:
    rows = ({"variant": "first"}, {"variant": "second"})
    return package(folder, MISBEHAVE.format(at_import=at_import, at_compile=at_compile), *rows)


def messages(result: CheckResult) -> list[str]:
    return [str(finding) for finding in result.findings]


def test_evidence_of_several_packages_in_one_process(tmp_path: Path) -> None:
    add = [{"variant": name, "mma": "none", "threads": 128, "smem_bytes": 0} for name in ("small", "large")]
    shape = {"mma_shape": "64x64x16.F32.BF16", "threads": 128, "smem_bytes": 16384}
    wgmma = {"variant": "wgmma", "mma": "HGMMA", **shape}
    folders = [
        package(tmp_path / "add", ADD, *add),
        package(tmp_path / "wgmma", WGMMA, wgmma),
        package(tmp_path / "fallback", MMA_SYNC, {"variant": "wgmma", "mma": "HGMMA", "tma_loads": True}),
        package(tmp_path / "spill", SPILL, {"variant": "wide", "mma": "none"}),
    ]
    seen: list[tuple[str, int, int]] = []
    results = check_packages(
        folders, jobs=1, cache=Cache(tmp_path / "cache"), progress=lambda r, done, of: seen.append((r.name, done, of))
    )
    add_result, wgmma_result, fallback, spill = results
    assert add_result.ok and wgmma_result.ok
    assert seen == [(folder.name, index, 4) for index, folder in enumerate(folders, 1)]
    assert [variant.variant for variant in add_result.variants] == ["small", "large"]
    (kernel,) = wgmma_result.variants[0].kernels
    assert [str(sites) for sites in kernel.mma] == ["HGMMA.64x64x16.F32.BF16 x 4"]
    assert (kernel.threads, kernel.dynamic_smem_bytes, kernel.spills) == (128, 16384, 0)
    assert messages(fallback) == [
        "wgmma: MMA: expected HGMMA only, found HMMA.16816.F32.BF16 x 1",
        "wgmma: TMA loads: expected at least one, found 0",
    ]
    (finding,) = spill.findings
    assert (finding.what, finding.expected) == ("spills", "at most 0")
    assert spill.variants[0].kernels[0].spill_loads > 0
    assert "HGMMA" in wgmma_result.listing() and wgmma_result.listing().startswith("// variant wgmma\n")


def test_a_second_check_reads_the_cache_until_something_changes(tmp_path: Path) -> None:
    folder, cache = (
        package(tmp_path / "add", ADD, {"variant": "small"}, {"variant": "large"}),
        Cache(tmp_path / "cache"),
    )
    first, second = check_package(folder, cache=cache), check_package(folder, cache=cache)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert first.variants == second.variants
    for entry in (tmp_path / "cache").rglob("*.json"):
        entry.write_bytes(entry.read_bytes()[:-1])
    assert not check_package(folder, cache=cache).from_cache
    assert check_package(folder, cache=cache).from_cache
    (folder / "kernel.py").write_text(ADD + "\n# edited\n")
    assert not check_package(folder, cache=cache).from_cache


def test_the_digest_follows_the_machine_code_and_not_the_text(tmp_path: Path) -> None:
    source = (ROOT / "generated/h200/gemm_bf16/kernel.py").read_text()
    assert "producer_registers" in source and "stages=4" in source
    renamed = source.replace("gemm_tma", "multiply").replace("producer_registers", "few").replace("pipe,", "ring,")
    renamed = (
        renamed.replace("pipe.", "ring.").replace("pipe =", "ring =").replace("@cute.kernel", "# a word\n@cute.kernel")
    )
    texts = {"as_emitted": source, "renamed": renamed, "fewer_stages": source.replace("stages=4", "stages=3")}
    folders = [package(tmp_path / name, text) for name, text in texts.items()]
    emitted, same, other = check_packages(folders, cache=Cache(tmp_path / "cache"))
    assert emitted.code_digest is not None and emitted.code_digest == same.code_digest
    assert emitted.variants[0].kernels[0].kernel != same.variants[0].kernels[0].kernel
    assert other.code_digest is not None and other.code_digest != emitted.code_digest
    assert emitted.variants[0].kernels[0].cluster == (2, 1, 1)


# Two kernels in one cubin: the order of its functions follows from their names.
TWO = (
    HEAD
    + """
VARIANTS = (Variant("two", 1024),)


@cute.kernel
def aaa_kernel(x: cute.Tensor):
    x[cute.arch.thread_idx()[0]] = 1.0


@cute.kernel
def zzz_kernel(x: cute.Tensor):
    testing.assert_(cute.arch.thread_idx()[0] < 48, "too far")
    x[cute.arch.thread_idx()[0]] = x[cute.arch.thread_idx()[0]] + 1.0


@cute.jit
def launch(x: cute.Tensor, stream):
    aaa_kernel(x).launch(grid=(1, 1, 1), block=(128, 1, 1), stream=stream)
    zzz_kernel(x).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


def compile_variant(name):
    return compiled(launch, VARIANTS[0].n)
"""
).replace("import cutlass.cute as cute\n", "import cutlass.cute as cute\nimport cutlass.cute.testing as testing\n")


def test_asserts_are_seen_and_names_do_not_order_the_digest(tmp_path: Path) -> None:
    swapped = TWO.replace("aaa_", "mmm_").replace("zzz_", "aaa_").replace("mmm_", "zzz_")
    asserting = TWO.replace("--enable-tvm-ffi", "--enable-tvm-ffi --enable-assertions --opt-level 2")
    texts = {"plain": TWO, "swapped": swapped, "asserting": asserting}
    folders = [package(tmp_path / name, text) for name, text in texts.items()]
    plain, other, checked = check_packages(folders, cache=Cache(tmp_path / "cache"))
    assert plain.code_digest is not None and plain.code_digest == other.code_digest != checked.code_digest
    release = release_of_package(plain.folder, plain.variants, "sm_90a", {})
    assert release.ok and (release.target, release.optimization, release.asserts_off) == ("sm_90a", "3", True)
    release = release_of_package(checked.folder, checked.variants, "sm_90a", {})
    assert (release.optimization, release.asserts_off, len(release.problems)) == ("2", False, 3)
    assert "asserts are in the machine code of two: kernel_cutlass_zzz_kernel" in "".join(release.problems)


def test_a_package_that_breaks_its_process_costs_only_itself(tmp_path: Path) -> None:
    folders = [
        misbehaving(tmp_path / "raises", at_compile="raise ValueError('no such layout')"),
        misbehaving(tmp_path / "aborts", at_compile="os.abort()"),
        misbehaving(tmp_path / "exits", at_import="os._exit(3)"),
        misbehaving(tmp_path / "unimportable", at_import="import no_such_module"),
        misbehaving(tmp_path / "hangs", at_compile="time.sleep(600)"),
        package(tmp_path / "add", ADD, {"variant": "small"}, {"variant": "large"}),
    ]
    cache = Cache(tmp_path / "cache")
    started = time.monotonic()
    raises, aborts, exits, unimportable, hangs, add = check_packages(folders, jobs=2, cache=cache, limit_seconds=8.0)
    assert time.monotonic() - started < 60
    assert add.ok
    assert [finding.variant for finding in raises.findings] == ["first", "second"]
    assert all("found ValueError: no such layout\n" in message for message in messages(raises))
    assert "killed by SIGABRT" in messages(aborts)[0]
    assert messages(aborts)[0].endswith("noise on standard output")
    assert messages(aborts)[1].startswith("second: variant: expected a row of VARIANTS that compiles")
    assert "exit status 3" in messages(exits)[0]
    assert "No module named 'no_such_module'" in messages(unimportable)[0]
    assert "no answer within 8 s" in messages(hangs)[0]
    # nothing that failed is kept: the next run tries again
    assert not check_package(folders[0], cache=cache).from_cache


def test_stopping_early_does_not_wait_for_a_hung_compiler(tmp_path: Path) -> None:
    folders = [
        misbehaving(tmp_path / "hangs", at_compile="time.sleep(600)"),
        misbehaving(tmp_path / "raises", at_compile="raise ValueError"),
    ]

    def stop(result: CheckResult, done: int, total: int) -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        check_packages(folders, jobs=2, progress=stop, cache=Cache(tmp_path / "cache"))
    assert time.monotonic() - started < 30


def test_a_killed_check_leaves_no_compiler_behind(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    at_compile = f"open({str(pid_file)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    folder = misbehaving(tmp_path / "hangs", at_compile=at_compile)
    code = f"from pathlib import Path; from kgen.check import check_package; check_package(Path({str(folder)!r}))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KGEN_CACHE_DIR": str(tmp_path / "cache")}
    check = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
        assert check.poll() is None
        time.sleep(0.02)
    check.send_signal(signal.SIGKILL)
    check.wait()
    assert wait_until_gone(int(pid_file.read_text()))


def wait_until_gone(pid: int) -> bool:
    for _ in range(250):
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
                time.sleep(0.02)
                continue
        return True
    return False
