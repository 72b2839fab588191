"""Two right kernels, and what the checks say when one thing is taken out of them.

The kernels are matrix products through LDS: one that stores to LDS itself, and one that copies asynchronously into two
stages. Each mutation changes one line of the text.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from isa_runs import kernel_text, launch

from kgen.simulator import FindingKind, Poison, Report, WaveOrder

KERNELS = Path(__file__).parent / "kernels"
STORING, ASYNC = "tile_product", "tile_product_async"
ARCH = {STORING: "gfx942", ASYNC: "gfx950"}
LDS = {STORING: 512, ASYNC: 4096}


@dataclass(frozen=True)
class Outcome:
    """A simulated product: the report, the result, and whether it is the right one."""

    report: Report
    result: np.ndarray
    right: bool


def product(
    kernel: str,
    change: tuple[str, str] | None = None,
    *,
    m: int = 70,
    k: int = 192,
    order: WaveOrder = WaveOrder.FORWARD,
    poison: Poison = Poison.QUIET_NAN,
) -> Outcome:
    """Simulate a kernel after replacing one piece of its text."""
    body = (KERNELS / f"{kernel}.s").read_text()
    if change:
        assert body.count(change[0]) == 1, change
        body = body.replace(*change)
    random = np.random.default_rng(1)
    a, b = random.normal(size=(m, k)).astype(np.float16), random.normal(size=(16, k)).astype(np.float16)
    c = np.full((m, 16), 77, np.float32)
    text = kernel_text(body, arch=ARCH[kernel], lds=LDS[kernel], kernarg=32)
    report = launch(text, [a, b, c], scalars=(m, k), grid=-(-m // 32), block=128, wave_order=order, poison=poison)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    with np.errstate(all="ignore"):
        right = bool(np.all(np.abs(c - expected) <= 1e-5 * (1 + np.abs(a.astype(float)) @ np.abs(b.astype(float)).T)))
    return Outcome(report, c, right)


@pytest.mark.parametrize("kernel", [STORING, ASYNC])
@pytest.mark.parametrize(("m", "k"), [(64, 64), (1, 64), (70, 192), (33, 448), (40, 0)])
def test_the_kernels_are_right_whatever_is_free(kernel: str, m: int, k: int) -> None:
    outcomes = [product(kernel, m=m, k=k, order=order, poison=poison) for order in WaveOrder for poison in Poison]
    assert all(outcome.right for outcome in outcomes)
    assert not any(outcome.report.findings for outcome in outcomes)
    assert all(np.array_equal(outcome.result, outcomes[0].result) for outcome in outcomes)


@pytest.mark.parametrize("kernel", [STORING, ASYNC])
def test_the_steady_loop_has_no_bank_conflicts(kernel: str) -> None:
    loop = product(kernel).report.steady_loop
    assert loop is not None
    assert loop.bank_conflict_cycles == 0
    assert loop.flops == 2 * 96 * 16 * 192


BARRIERS = [
    (STORING, ("s_barrier                              ; of both waves", "")),
    (STORING, ("s_barrier                              ; both waves have read", "")),
    (ASYNC, ("s_barrier                              ; of both waves", "")),
    (ASYNC, ("s_barrier                              ; both waves have read", "")),
]


@pytest.mark.parametrize(("kernel", "change"), BARRIERS)
@pytest.mark.parametrize("order", WaveOrder)
def test_a_dropped_barrier_is_a_race(kernel: str, change: tuple[str, str], order: WaveOrder) -> None:
    assert product(kernel, change, order=order).report.races


WAITS = [
    (STORING, "s_waitcnt vmcnt(1) ", "ds_write_b32 v5, v12", FindingKind.MISSING_WAIT),
    (STORING, "s_waitcnt lgkmcnt(0)                   ; B is in LDS", "ds_read_b64", FindingKind.LDS_RACE),
    (STORING, "s_waitcnt vmcnt(0) lgkmcnt(0)", "v_mfma", FindingKind.MISSING_WAIT),
    (STORING, "s_waitcnt lgkmcnt(0)\n\ts_mul", "s_mul_i32", FindingKind.MISSING_WAIT),
    (ASYNC, "s_waitcnt vmcnt(1)", "ds_read_b128", FindingKind.MISSING_WAIT),
    (ASYNC, "s_waitcnt lgkmcnt(0)                   ; B is back", "v_mfma", FindingKind.MISSING_WAIT),
]


@pytest.mark.parametrize(("kernel", "wait", "where", "kind"), WAITS)
def test_a_missing_wait_is_found_where_it_is_missed(kernel: str, wait: str, where: str, kind: FindingKind) -> None:
    kept = wait.partition("\n")[2]
    found = product(kernel, (wait, kept.lstrip("\t"))).report.of_kind(kind)
    assert any(finding.instruction.startswith(where) for finding in found), found


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_wait_for_too_few_operations_is_found(count: int) -> None:
    report = product(ASYNC, ("s_waitcnt vmcnt(1)", f"s_waitcnt vmcnt({count})")).report
    assert report.missing_waits
    assert bool(report.races) is (count > 3)  # up to 3 leave A and the next stage in flight, 4 this stage as well


@pytest.mark.parametrize("kernel", [STORING, ASYNC])
@pytest.mark.parametrize(
    ("bound", "verb"),
    [("s_lshl_b32 s22, s10, 6 ", "stores 4 bytes"), ("s_lshl_b32 s14, s25, 1 ", "loads")],
)
def test_a_missing_bound_is_an_access_out_of_bounds(kernel: str, bound: str, verb: str) -> None:
    register = bound.split()[1].rstrip(",")
    report = product(kernel, (bound, f"s_mov_b32 {register}, -1 ")).report
    assert any(finding.detail.startswith(verb) for finding in report.out_of_bounds)


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (STORING, ("s_cmp_eq_u32 s24, 0", "s_add_u32 s24, s24, 1\n\ts_cmp_eq_u32 s24, 0")),
        (STORING, ("s_cmp_eq_u32 s24, 0", "s_sub_u32 s24, s24, 1\n\ts_cmp_eq_u32 s24, 0")),
        (ASYNC, ("s_cmp_eq_u32 s24, 0", "s_add_u32 s24, s24, 1\n\ts_cmp_eq_u32 s24, 0")),
        (ASYNC, ("s_cmp_eq_u32 s24, 0", "s_sub_u32 s24, s24, 1\n\ts_cmp_eq_u32 s24, 0")),
    ],
)
def test_k_off_by_one_step_is_wrong(kernel: str, change: tuple[str, str]) -> None:
    assert not product(kernel, change).right


@pytest.mark.parametrize(
    ("kernel", "swizzle", "plain"),
    [
        (STORING, "v_xor_b32_e32 v23, v23, v24            ; write swizzle", ""),
        (STORING, "v_xor_b32_e32 v23, v2, v24             ; read swizzle", "v_mov_b32_e32 v23, v2"),
        (ASYNC, "v_xor_b32_e32 v22, v22, v24            ; copy swizzle", ""),
        (ASYNC, "v_xor_b32_e32 v23, v2, v24             ; read swizzle", "v_mov_b32_e32 v23, v2"),
    ],
)
def test_a_swizzle_on_one_side_only_is_wrong(kernel: str, swizzle: str, plain: str) -> None:
    assert not product(kernel, (swizzle, plain)).right


def test_a_swizzle_out_of_its_tile_reads_what_nobody_wrote() -> None:
    report = product(STORING, ("v_bfe_u32 v24, v1, 2, 2", "v_bfe_u32 v24, v1, 0, 7"), k=16).report
    assert report.out_of_bounds or report.poison_reads


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (STORING, ("v_bfe_u32 v24, v1, 2, 2", "v_mov_b32_e32 v24, 0")),
        (ASYNC, ("v_sub_u32_e32 v24, 0, v24\n\tv_and_b32_e32 v24, 3, v24\n\tv_xor_b32_e32 v23", "v_xor_b32_e32 v23")),
    ],
)
def test_a_worse_swizzle_costs_cycles(kernel: str, change: tuple[str, str]) -> None:
    loop = product(kernel, change).report.steady_loop
    assert loop is not None
    assert loop.bank_conflict_cycles > 0
