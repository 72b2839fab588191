"""What a second kernel adds up of the sums that CTAs write: the emitted text run on stand-ins loses nothing."""

import ast
from types import SimpleNamespace
from typing import Any

import emitted_specs
import numpy as np
import pytest

WARP_GROUP, SHARE = 128, 16


class Registers:
    """A register tensor."""

    def __init__(self, count: int) -> None:
        self.values = np.full(count, np.nan)

    def fill(self, value: float) -> None:
        self.values[:] = value

    def __getitem__(self, at: int) -> float:
        return self.values[at]

    def __setitem__(self, at: int, value: float) -> None:
        self.values[at] = value


class Pieces:
    """A tensor of pieces of four neighbours, indexed by (None, ...)."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getitem__(self, at: tuple[Any, ...]) -> SimpleNamespace:
        piece = self.values[(slice(None), *at[1:])]
        return SimpleNamespace(load=piece.copy, piece=piece)


def functions_of(name: str, thread: list[int]) -> dict[str, Any]:
    """Return the emitted functions, on stand-ins; `thread` and the CTA are what the list holds."""

    def copy(_: object, source: SimpleNamespace, target: SimpleNamespace) -> None:
        target.piece[:] = source.piece

    arch = SimpleNamespace(
        thread_idx=lambda: (thread[0], 0, 0),
        block_idx=lambda: (thread[1], 0, 0),
        cp_async_commit_group=lambda: None,
        cp_async_wait_group=lambda _: None,
    )
    cute = SimpleNamespace(
        jit=lambda function: function,
        arch=arch,
        nvgpu=SimpleNamespace(LoadCacheMode=SimpleNamespace(GLOBAL=None)),
        make_copy_atom=lambda *_, **__: None,
        make_rmem_tensor=lambda count, _: Registers(count),
        copy=copy,
    )
    cutlass = SimpleNamespace(Constexpr=None, range_constexpr=range)
    cpasync = SimpleNamespace(CopyG2SOp=lambda **_: None)
    names = {"cute": cute, "cutlass": cutlass, "cpasync": cpasync, "prod": np.prod, "ACC": None}
    names |= {"WARP_GROUP": WARP_GROUP, "SHARE": SHARE, "MMA_M": 64, "PARTS_IN_FLIGHT": 48}
    wanted = {"sum_of_parts", "in_flight", "shares", "k_share", "ctas_of_part", "clusters"}
    text = emitted_specs.files_of(name)["kernel.py"]
    body: list[ast.stmt] = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    exec(compile(ast.Module(body, []), "kernel.py", "exec"), names)
    return names


# tile_m, tile_n, wg_m, parts of k
TILES = [(64, 16, 1, 2), (128, 128, 2, 16), (128, 48, 1, 3), (256, 128, 2, 33), (128, 256, 2, 66), (192, 80, 3, 49)]


@pytest.mark.parametrize("tile", TILES)
def test_every_share_is_the_sum_of_what_all_parts_hold_of_it(tile: tuple[int, int, int, int]) -> None:
    tile_m, tile_n, wg_m, split_k = tile
    v = SimpleNamespace(tile_m=tile_m, tile_n=tile_n, wg_m=wg_m, split_k=split_k)
    threads, boxes, held, ctas = WARP_GROUP * wg_m, tile_m // (64 * wg_m), tile_n // 2, 3
    # what thread t of CTA c holds for part p: a row of wgmma tiles after the other
    acc = np.random.default_rng(0).standard_normal((split_k, ctas, threads, boxes * held))
    parts = acc.reshape(split_k, ctas, threads, -1, 4).transpose(4, 2, 3, 1, 0)
    thread = [0, 0]
    made = functions_of("deep_k", thread)
    along_m, along_n = made["shares"](v)
    assert (along_m, along_n) == (tile_m // 64, tile_n // SHARE)
    arrived = np.full((4, WARP_GROUP, SHARE // 8, made["in_flight"](v)), np.nan)
    assert arrived.nbytes // 2 <= 4096 * 48  # of 4-byte sums
    seen: set[tuple[int, int, int]] = set()
    for cta in (0, ctas - 1):
        for row in range(along_m):
            for column in range(along_n):
                for thread[0] in (0, 77, WARP_GROUP - 1):
                    sums = made["sum_of_parts"](v, Pieces(parts), Pieces(arrived), cta, row, column).values
                    group, box = row % wg_m, row // wg_m  # rows of 64: warp groups side by side, then the next ones
                    first = box * held + column * (SHARE // 2)
                    mine = acc[:, cta, group * WARP_GROUP + thread[0], first : first + SHARE // 2]
                    expected = mine[0]
                    for part in mine[1:]:
                        expected = expected + part  # in this order, to the last bit
                    np.testing.assert_array_equal(sums, expected)
                    seen.add((group, box, column))
    assert len(seen) == wg_m * boxes * along_n


@pytest.mark.parametrize(("name", "clusters_k"), [("deep_k", 1), ("deep_cases", 1), ("deep_cases", 4)])
@pytest.mark.parametrize(("k", "split_k"), [(4096, 8), (1000, 11), (65536, 33), (64, 1)])
def test_the_parts_of_k_cover_it_once(name: str, clusters_k: int, k: int, split_k: int) -> None:
    """In a file with a kernel of either kind, too: its rows split k over the grid, over a cluster, or not at all."""
    place = [0, 0]
    made = functions_of(name, place)
    split_k = 1 if clusters_k > 1 else split_k
    extents = {"m": 250, "n": 500, "k": k, "batch": (3,), "tile_m": 128, "tile_n": 128, "tile_k": 64}
    v = SimpleNamespace(
        **extents, cluster_m=1, cluster_n=1 if clusters_k > 1 else 2, cluster_k=clusters_k, split_k=split_k
    )
    made["cute"].arch.block_idx_in_cluster = lambda: place[1] % clusters_k
    grid = made["ctas_of_part"](v) * split_k * clusters_k
    assert grid == 24 * split_k * clusters_k
    covered: dict[int, list[int]] = {}
    for place[1] in range(grid):
        first, steps = made["k_share"](v)
        tile = place[1] // clusters_k % made["ctas_of_part"](v)
        covered.setdefault(tile, []).extend(range(first, first + steps))
    assert len(covered) == 24
    assert all(sorted(steps) == list(range(-(-k // 64))) for steps in covered.values())


def test_each_case_has_the_launch_function_of_its_kernel() -> None:
    text = emitted_specs.files_of("fp32_cases")["kernel.py"]
    for entry in ('"deep_tma": launch_planes_parts,', '"large_tma": launch_planes,'):
        assert entry in text
    made = text[text.index("PLAN = {") :]
    assert "((1,), (1,))" in made  # the parts of sums that the large case has none of
