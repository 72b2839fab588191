"""CDNA's GEMM rules against published tile lists, and what the rules and the cost model make of each device."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.gemm.rules import bind_gemm, gemm_rules, narrow_products
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.ir.dtype import DType
from kgen.planning.candidates import solve_gemm
from kgen.rules.edges import edge_points
from kgen.rules.model import Value
from kgen.rules.solve import solve
from kgen.target import Device, load_device

MI300X, MI308X, MI355X, H200 = (load_device(name) for name in ("mi300x", "mi308x", "mi355x", "h200"))
BF16 = GemmFacts(4096, 4096, 4096)
INT8 = replace(BF16, in_dtype="int8", in_bytes=1, out_dtype="int32", out_bytes=4)
FP8 = replace(BF16, in_dtype="fp8_e4m3", in_bytes=1)
Tile = tuple[int, int, int]

# FlyDSL's preshuffle GEMM, the tiles it tunes for 8-bit types: tile_m -> (tile_n, tile_k). It rejects one of them.
PRESHUFFLE: dict[int, tuple[tuple[int, int], ...]] = {
    16: ((64, 256), (64, 512), (128, 256), (128, 512), (192, 256), (256, 256), (256, 512), (512, 256)),
    32: (
        *((64, 128), (64, 256), (64, 512), (128, 128), (128, 256)),
        *((192, 128), (192, 256), (256, 128), (256, 256)),
    ),
    48: ((64, 128), (64, 256), (128, 256), (192, 256), (256, 256)),
    64: (
        *((64, 128), (64, 256), (128, 128), (128, 256), (192, 128), (192, 256)),
        *((256, 64), (256, 128), (256, 256)),
    ),
    80: ((64, 256), (128, 256), (192, 256), (256, 256)),
    96: ((64, 128), (64, 256), (128, 128), (128, 256), (192, 128), (192, 256), (256, 128), (256, 256)),
    112: ((64, 256), (128, 256), (192, 256), (256, 256)),
    128: (
        *((64, 128), (64, 256), (128, 64), (128, 128), (128, 256)),
        *((192, 128), (192, 256), (256, 128), (256, 256)),
    ),
    160: ((192, 128),),
    192: ((64, 128), (128, 128)),
    224: ((64, 128), (128, 128), (192, 128)),
    256: ((64, 128), (128, 128), (192, 128), (256, 128)),
}
REJECTED = (48, 64, 128)  # its rows do not divide among 256 threads in 16-byte pieces
# FlyDSL's benchmark of gfx942.
BENCHMARK = ((16, 128, 256), (64, 64, 256), (64, 256, 128), (128, 256, 128))
# Its A16W16 GEMM for gfx950, as its tests run it: tile m, n, k, stages, warps m, n, k.
A16W16 = (
    *((16, 16, 64, 8, 1, 1, 1), (16, 16, 128, 6, 1, 1, 1), (16, 16, 128, 7, 1, 1, 2)),
    *((16, 16, 128, 8, 1, 1, 1), (16, 16, 256, 4, 1, 1, 2), (16, 32, 64, 8, 1, 2, 1)),
    *((16, 32, 256, 3, 1, 2, 2), (16, 32, 256, 4, 1, 2, 2), (16, 64, 64, 5, 1, 2, 1), (16, 64, 64, 7, 1, 2, 1)),
    *((16, 64, 64, 8, 1, 2, 1), (16, 64, 64, 9, 1, 2, 1), (16, 64, 128, 3, 1, 4, 1), (16, 64, 256, 2, 1, 2, 2)),
    *((32, 32, 64, 8, 1, 2, 1), (32, 32, 64, 8, 2, 1, 1), (32, 32, 64, 8, 2, 2, 1), (32, 32, 128, 6, 2, 2, 1)),
    *((32, 64, 64, 5, 2, 2, 1), (32, 64, 64, 8, 2, 2, 1), (32, 64, 128, 4, 1, 4, 1), (32, 64, 128, 5, 2, 2, 1)),
    *((32, 64, 128, 6, 1, 2, 2), (32, 64, 256, 3, 1, 2, 2), (64, 32, 128, 4, 4, 1, 1)),
    *((64, 32, 128, 4, 4, 2, 1), (64, 64, 64, 2, 2, 2, 1), (64, 64, 64, 4, 1, 4, 1), (64, 64, 64, 4, 2, 4, 1)),
    *((64, 64, 64, 5, 2, 2, 1), (64, 64, 64, 6, 4, 2, 1), (64, 64, 64, 7, 4, 2, 1), (64, 64, 64, 8, 2, 2, 1)),
    *((64, 64, 128, 2, 2, 2, 1), (64, 64, 128, 4, 4, 2, 1), (64, 64, 256, 2, 2, 2, 1)),
    *((64, 96, 64, 4, 2, 2, 1), (64, 128, 64, 5, 2, 4, 1), (64, 128, 64, 6, 2, 4, 1)),
    *((64, 128, 128, 2, 2, 4, 1), (128, 64, 128, 2, 2, 2, 1), (128, 128, 64, 2, 2, 2, 1)),
    *((128, 128, 64, 2, 4, 4, 1), (128, 128, 64, 3, 2, 2, 1), (128, 128, 64, 3, 4, 2, 1)),
    *((128, 128, 64, 4, 2, 4, 1), (128, 128, 64, 4, 4, 4, 1), (128, 128, 128, 2, 2, 4, 1)),
    *((128, 256, 64, 3, 4, 4, 1), (256, 128, 64, 3, 4, 2, 2), (256, 256, 64, 2, 2, 4, 1)),
)


def preshuffled() -> Iterator[Tile]:
    for m, others in PRESHUFFLE.items():
        yield from ((m, n, k) for n, k in others)


def is_legal(facts: GemmFacts, device: Device, tile: Tile, **axes: Value) -> bool:
    """Return whether the hardware can run a tile with these axes and some choice of the others."""
    m, n, k = tile
    fixed: dict[str, Value] = {"tile_m": m, "tile_n": n, "tile_k": k, "split_k": 1, **axes}
    return solve(bind_gemm(facts, device, lowered=False), fixed).count > 0


def shuffled(facts: GemmFacts, device: Device, tile: Tile) -> bool:
    """Return whether four warps along n can run a tile with B shuffled beforehand, as FlyDSL's kernel does."""
    return is_legal(facts, device, tile, load_path="shuffled", warps_m=1, warps_n=4, warps_k=1)


@pytest.mark.parametrize("device", [MI300X, MI355X], ids=lambda d: d.name)
@pytest.mark.parametrize("facts", [INT8, FP8], ids=lambda f: f.in_dtype)
def test_preshuffle_tiles_are_inside(facts: GemmFacts, device: Device) -> None:
    tiles = list(preshuffled())
    assert len(tiles) == 66
    k = replace(facts, k=4096)
    assert {t for t in tiles if not shuffled(k, device, t)} == {REJECTED}


@pytest.mark.parametrize("tile", BENCHMARK)
def test_benchmark_tiles_are_inside(tile: Tile) -> None:
    assert shuffled(INT8, MI300X, tile) and shuffled(FP8, MI300X, tile)


def test_a16w16_configurations_are_inside() -> None:
    for m, n, k, stages, warps_m, warps_n, warps_k in A16W16:
        axes: dict[str, Value] = {"stages": stages, "warps_m": warps_m, "warps_n": warps_n, "warps_k": warps_k}
        facts = replace(BF16, k=8 * max(k * stages, 512))
        assert is_legal(facts, MI355X, (m, n, k), load_path="async", **axes), (m, n, k, axes)


@pytest.mark.parametrize("tile_m", [48, 80, 112, 144])
def test_bf16_tiles_that_do_not_divide_among_the_threads_are_outside(tile_m: int) -> None:
    assert not shuffled(BF16, MI300X, (tile_m, 128, 64))
    assert shuffled(BF16, MI300X, (64, 128, 64))


def test_lds_is_used_to_its_last_byte() -> None:
    assert is_legal(BF16, MI300X, (32, 64, 512), load_path="shuffled", stages=2)
    assert not is_legal(BF16, MI300X, (64, 64, 512), load_path="shuffled", stages=2)
    assert is_legal(BF16, MI355X, (64, 64, 512), load_path="shuffled", stages=2)


def test_copies_to_lds_are_cdna4s_alone() -> None:
    paths = {d.name: gemm_rules(d.arch).axis("load_path") for d in (MI300X, MI355X)}
    assert paths["mi300x"] is not None and "async" not in paths["mi300x"].domain.values
    assert paths["mi355x"] is not None and "async" in paths["mi355x"].domain.values


def test_a_wait_counts_63_copies() -> None:
    inside = {"load_path": "async", "warps_m": 1, "warps_n": 1, "warps_k": 1, "tile_m": 64, "tile_n": 64, "tile_k": 64}
    bound = bind_gemm(BF16, MI355X, lowered=False)
    stages = {int(s) for s in solve(bound, inside).columns["stages"]}
    assert stages == {2, 3, 4, 5}  # 16 copies for each k step


@pytest.mark.parametrize("device", [MI300X, MI355X], ids=lambda d: d.name)
def test_the_edge_of_lds_is_one_step_wide(device: Device) -> None:
    bound = bind_gemm(BF16, device)
    points = edge_points(bound, "smem")
    assert points.inside and points.outside
    for point in points.outside:
        beyond = solve(bound, dict(point), without="smem")
        assert beyond.columns["smem_bytes"].min() > device.arch.limit("smem_bytes_per_cta").value


@pytest.mark.parametrize("device", [MI300X, MI355X], ids=lambda d: d.name)
@pytest.mark.parametrize("facts", [BF16, INT8, FP8, replace(BF16, in_dtype="fp32", in_bytes=4)])
def test_templates_print_products_of_every_type_and_layout(facts: GemmFacts, device: Device) -> None:
    for a_major in ("k", "mn"):
        for b_major in ("k", "mn"):
            for align in (16, facts.in_bytes):
                given = replace(facts, a_major=a_major, b_major=b_major, a_align=align, b_align=align)
                assert solve(bind_gemm(given, device)).count > 0


def test_narrow_types_are_multiplied_as_they_are_on_cdna() -> None:
    halves = {DType.BF16, DType.FP16}
    assert narrow_products(MI300X) == halves | {DType.FP8_E4M3, DType.INT8}
    assert narrow_products(MI355X) == narrow_products(MI300X) | {DType.FP8_E5M2}
    assert narrow_products(H200) == narrow_products(MI355X)


@pytest.mark.parametrize("device", [MI300X, MI355X, H200], ids=lambda d: d.name)
def test_a_type_that_no_kernel_multiplies_is_told_those_that_are(device: Device) -> None:
    with pytest.raises(NoLegalCandidateError) as caught:
        solve_gemm(replace(BF16, in_dtype="fp64", in_bytes=8, out_dtype="fp64", out_bytes=8), device)
    narrow = "int8 or fp8_e4m3 or " + ("" if device is MI300X else "fp8_e5m2 or ")
    wide = "fp32 or tf32" if device is H200 else "fp32"
    assert str(caught.value).endswith(f"= nearest legal: in_dtype = {narrow}fp16 or bf16 or {wide} instead of fp64")


def test_devices_of_one_arch_get_plans_of_their_own() -> None:
    large, small = (solve_gemm(BF16, device, top=1) for device in (MI300X, MI308X))
    assert large.legal_count == small.legal_count and large.rejections == small.rejections  # one set of rules
    first, second = large.ranked[0], small.ranked[0]
    assert first.candidate != second.candidate
    assert (first.raster.dies, second.raster.dies) == (8, 4)
    assert "each of 8 dies" in str(first) and "each of 4 dies" in str(second)
    assert first.waves < second.waves


def test_a_long_k_over_few_tiles_is_split() -> None:
    found = solve_gemm(replace(BF16, m=256, n=512, k=32768), MI300X, top=1).ranked[0]
    assert found.candidate.number("split_k") > 1 and found.term("sum_parts") > 0
    assert "k in" in str(found)


UNALIGNED = replace(BF16, m=333, n=264, k=203, a_align=2, b_align=2, d_align=2)
# A row of MFMAs has the columns that may lie beyond D in scalar registers, from where it is stored to the next row.
MASKED = {"store_path": "direct", "load_path": "staged", "mma": 32, "warps_m": 2, "warps_n": 2, "stages": 2}


@pytest.mark.parametrize("device", [MI300X, MI355X], ids=lambda d: d.name)
@pytest.mark.parametrize(("n", "fits"), [(264, False), (408, False), (432, True), (512, True), (1003, True)])
def test_masks_of_columns_fit_into_scalar_registers(device: Device, n: int, fits: bool) -> None:
    fixed: dict[str, Value] = {**MASKED, "tile_m": 128, "tile_n": 256, "tile_k": 32}
    assert (solve(bind_gemm(replace(UNALIGNED, n=n), device), fixed).count > 0) == fits
    one_row: dict[str, Value] = {**MASKED, "tile_m": 64, "tile_n": 256, "tile_k": 32}
    assert solve(bind_gemm(replace(UNALIGNED, n=n), device), one_row).count > 0


def test_parts_of_unaligned_products_leave_full_sums_to_gfx942() -> None:
    facts = replace(UNALIGNED, in_dtype="fp32", in_bytes=4, out_dtype="fp32", out_bytes=4, a_align=4, b_align=4)
    facts = replace(facts, d_align=16)
    fixed: dict[str, Value] = {"tile_m": 256, "tile_n": 256, "tile_k": 16, "warps_m": 4, "warps_n": 2, "mma": 16}
    fixed["store_path"] = "vector"
    parts = {
        device.name: {int(s) for s in solve(bind_gemm(facts, device), fixed).columns["split_k"]}
        for device in (MI300X, MI355X)
    }
    assert parts["mi355x"] == {1} < parts["mi300x"]


@pytest.mark.parametrize(("n", "fits"), [(1003, False), (1024, True)])
def test_full_sums_of_16_bits_are_not_stored_one_by_one_at_the_end_of_d(n: int, fits: bool) -> None:
    fixed: dict[str, Value] = {"tile_m": 256, "tile_n": 256, "tile_k": 32, "warps_m": 4, "warps_n": 2, "mma": 16}
    facts = replace(BF16, m=333, n=n, k=1000, in_dtype="fp16", out_dtype="fp16", d_align=2)
    assert (solve(bind_gemm(facts, MI300X), {**fixed, "split_k": 1}).count > 0) == fits
    assert solve(bind_gemm(facts, MI300X), {**fixed, "split_k": 2}).count > 0


@pytest.mark.parametrize("device", [MI300X, MI355X], ids=lambda d: d.name)
def test_operands_that_are_computed_on_their_way_leave_registers_for_it(device: Device) -> None:
    """What they compare stands in pairs of scalar registers until all elements of a k step are computed."""
    odd = replace(UNALIGNED, input_ops=1)
    for facts in (odd, replace(odd, k=1000), replace(BF16, input_ops=1)):
        columns = solve(bind_gemm(facts, device)).columns
        assert max((columns["tile_m"] + columns["tile_n"]) * columns["tile_k"] / columns["threads"]) == 32
    full: dict[str, Value] = {"tile_m": 256, "tile_n": 256, "tile_k": 32, "warps_m": 4, "warps_n": 2}
    bound = bind_gemm(replace(BF16, input_ops=1, fused=1), device)
    assert set(solve(bound, full).named["store_path"]) == {"direct"}
    smallest: dict[str, Value] = {"tile_m": 16, "tile_n": 16, "split_k": 2}
    assert (solve(bind_gemm(odd, device), smallest).count > 0) == (device is MI300X)
