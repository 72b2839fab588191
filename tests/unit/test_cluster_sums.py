"""What the CTAs of a cluster send one another and add up: the emitted text run on stand-ins loses nothing."""

import ast
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import emitted_specs
import numpy as np
import pytest

WARP_GROUP = 128


class Waits(Exception):
    """A CTA came to the barrier: it has sent all that it sends."""


class Registers:
    """A register tensor."""

    def __init__(self, count: int) -> None:
        self.values = np.full(count, np.nan)

    def __getitem__(self, at: int) -> float:
        return self.values[at]

    def __setitem__(self, at: int, value: float) -> None:
        self.values[at] = value

    def load(self) -> np.ndarray:
        return self.values.copy()

    def store(self, values: np.ndarray) -> None:
        self.values[:] = values


@dataclass
class Cluster:
    """The smem of the CTAs of a cluster, and which thread of which CTA runs: its slots are (thread, piece, sender)."""

    slots: list[dict[tuple[int, int, int], tuple[float, ...]]]
    rank: int = 0
    thread: int = 0
    is_complete: bool = False
    sent: int = 0

    def quad(self, at: tuple[Any, ...]) -> SimpleNamespace:
        key = at[1:]
        return SimpleNamespace(iterator=key, load=lambda: self.slots[self.rank][key])

    def send(self, key: tuple[int, int, int], quad: tuple[float, ...], barrier: str, owner: int) -> None:
        assert barrier == "arrived" and owner != self.rank and len(quad) == 4
        if not self.is_complete:
            assert key not in self.slots[owner], f"{key} of CTA {owner} is written twice"
            self.slots[owner][key] = quad
            self.sent += 1

    def wait(self, barrier: str, phase: int) -> None:
        assert (barrier, phase) == ("arrived", 0)
        if not self.is_complete:
            raise Waits


@dataclass
class Parts:
    """What `parts` is to the text: indexed by (None, thread, piece, sender)."""

    cluster: Cluster = field(repr=False)

    def __getitem__(self, at: tuple[Any, ...]) -> SimpleNamespace:
        return self.cluster.quad(at)


def functions_of(cluster: Cluster) -> dict[str, Any]:
    """Return the emitted functions, on stand-ins."""
    arch = SimpleNamespace(
        thread_idx=lambda: (cluster.thread + WARP_GROUP, 0, 0),
        block_idx_in_cluster=lambda: cluster.rank,
        store_async_dsmem=cluster.send,
        mbarrier_wait=cluster.wait,
    )
    cute = SimpleNamespace(
        jit=lambda function: function,
        arch=arch,
        make_rmem_tensor=lambda count, kind: Registers(count),
        recast_tensor=lambda tensor, kind: tensor,
    )
    cutlass = SimpleNamespace(Constexpr=None, Int32=None, range_constexpr=range)
    names = {"cute": cute, "cutlass": cutlass, "ACC": None, "WARP_GROUP": WARP_GROUP, "MMA_M": 64}
    text = emitted_specs.files_of("cluster_k")["kernel.py"]
    wanted = {"add_parts", "k_share"}
    body: list[ast.stmt] = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    exec(compile(ast.Module(body, []), "kernel.py", "exec"), names)
    return names


# tile_m, tile_n, wg_m, cluster_k, shares along m and n
TILES = [
    (64, 16, 1, 2, 1, 1),
    (64, 128, 1, 8, 1, 8),
    (128, 64, 2, 4, 1, 4),
    (128, 32, 1, 8, 2, 2),
    (64, 48, 1, 2, 1, 1),
    (128, 16, 1, 2, 2, 1),
    (128, 128, 1, 16, 2, 8),
]


@pytest.mark.parametrize("tile", TILES)
def test_every_share_is_the_sum_of_all_ctas_parts(tile: tuple[int, int, int, int, int, int]) -> None:
    tile_m, tile_n, wg_m, cluster_k, shares_m, shares_n = tile
    names = ("tile_m", "tile_n", "wg_m", "cluster_k", "shares_m", "shares_n")
    v, shares = SimpleNamespace(**dict(zip(names, tile, strict=True))), shares_m * shares_n
    threads, boxes, held = WARP_GROUP * wg_m, tile_m // (64 * wg_m), tile_n // 2
    acc = np.random.default_rng(0).standard_normal((cluster_k, threads, boxes, held))
    cluster = Cluster([{} for _ in range(cluster_k)])
    add_parts = functions_of(cluster)["add_parts"]

    def run(rank: int, thread: int) -> Registers:
        cluster.rank, cluster.thread = rank, thread
        return add_parts(v, acc[rank, thread].reshape(-1), Parts(cluster), "arrived", rank)

    for rank in range(cluster_k):
        for thread in range(threads):
            if rank < shares:
                with pytest.raises(Waits):
                    run(rank, thread)
            else:
                run(rank, thread)
    expected_bytes = 4 * (cluster_k - 1) * tile_m * tile_n // shares
    assert all(16 * len(slots) == (expected_bytes if rank < shares else 0) for rank, slots in enumerate(cluster.slots))
    cluster.is_complete = True
    rows, columns = boxes // shares_m, held // shares_n
    for owner in range(shares):
        row, column = owner // shares_n * rows, owner % shares_n * columns
        for thread in (0, 1, threads - 1):
            share = acc[:, thread, row : row + rows, column : column + columns].sum(axis=0)
            np.testing.assert_allclose(run(owner, thread).values, share.reshape(-1))


@pytest.mark.parametrize(("k", "tile_k", "cluster_k"), [(4096, 64, 2), (1000, 64, 16), (4100, 64, 8), (64, 64, 1)])
def test_the_parts_of_k_cover_it_once(k: int, tile_k: int, cluster_k: int) -> None:
    cluster = Cluster([])
    k_share = functions_of(cluster)["k_share"]
    v = SimpleNamespace(k=k, tile_k=tile_k, cluster_k=cluster_k)
    covered: list[int] = []
    for cluster.rank in range(cluster_k):
        first, steps = k_share(v)
        assert steps >= 1
        covered += range(first, first + steps)
    assert covered == list(range(-(-k // tile_k)))
