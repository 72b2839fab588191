"""Control flow: workgroups that go different ways, loops, barriers, what a wave starts with."""

import numpy as np
import pytest
from isa_runs import kernel_text, launch

from kgen.errors.simulator import BadLaunchError, EndlessKernelError, UnknownKernelError
from kgen.simulator import Buffer, InstructionClass, Launch, WaveOrder, engine, simulate

# Every workgroup counts down from its number, and stores how often it did, at its place; s2 is the workgroup.
COUNT_DOWN = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_mov_b32_e32 v1, 0
	s_mov_b32 s6, s2
	s_lshl_b32 s7, s2, 2
	v_mov_b32_e32 v2, s7
	s_cmp_eq_u32 s6, 0
	s_cbranch_scc1 .Ldone
.Lloop:
	v_add_u32_e32 v1, 1, v1
	s_sub_u32 s6, s6, 1
	s_cmp_lg_u32 s6, 0
	s_cbranch_scc1 .Lloop
.Ldone:
	s_mov_b64 exec, 1
	s_waitcnt lgkmcnt(0)
	global_store_dword v2, v1, s[4:5]
"""


@pytest.mark.parametrize("grid", [1, 7, 600])  # 600 workgroups are several batches
def test_workgroups_run_loops_of_their_own_length(grid: int) -> None:
    out = np.full(grid, 99, np.uint32)
    report = launch(kernel_text(COUNT_DOWN, kernarg=8), [out], grid=grid)
    assert out.tolist() == list(range(grid))
    assert not report.findings
    total = sum(range(grid))
    assert report.counts.by_mnemonic["v_add_u32_e32"] == total
    assert report.counts.by_mnemonic["global_store_dword"] == grid
    assert report.counts.by_class[InstructionClass.BRANCH] == grid + total + grid


def test_divided_workgroups_meet_again() -> None:
    """Odd and even workgroups take different branches and then one store: both go through it."""
    body = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	s_lshl_b32 s7, s2, 2
	v_mov_b32_e32 v2, s7
	s_bitcmp1_b32 s2, 0
	s_cbranch_scc1 .Lodd
	v_mov_b32_e32 v1, 10
	s_branch .Lend_if
.Lodd:
	v_mov_b32_e32 v1, 20
.Lend_if:
	s_mov_b64 exec, 1
	s_waitcnt lgkmcnt(0)
	global_store_dword v2, v1, s[4:5]
"""
    out = np.zeros(6, np.uint32)
    launch(kernel_text(body, kernarg=8), [out], grid=6)
    assert out.tolist() == [10, 20] * 3


def test_waves_wait_for_each_other_whichever_runs_first() -> None:
    """Wave 0 waits at two barriers on one path, wave 1 on another one: barriers are counted, not compared."""
    body = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_and_b32_e32 v0, 0x3ff, v0
	v_lshlrev_b32_e32 v1, 2, v0
	v_readfirstlane_b32 s6, v0
	s_cmp_lg_u32 s6, 0
	s_cbranch_scc1 .Lother
	ds_write_b32 v1, v0
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_barrier
	ds_read_b32 v3, v1 offset:256
	s_branch .Lstore
.Lother:
	s_barrier
	ds_read_b32 v3, v1
	v_subrev_u32_e32 v4, 64, v0
	v_lshlrev_b32_e32 v4, 2, v4
	ds_read_b32 v3, v4
	ds_write_b32 v1, v0
	s_waitcnt lgkmcnt(0)
	s_barrier
.Lstore:
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v3, s[4:5]
""".replace("\tds_read_b32 v3, v1\n\tv_subrev", "\tv_subrev")
    for order in WaveOrder:
        out = np.zeros(128, np.uint32)
        report = launch(kernel_text(body, lds=512, kernarg=8), [out], block=128, wave_order=order)
        assert not report.findings
        assert out.tolist() == list(range(64, 128)) + list(range(64))


def test_a_wave_starts_with_its_ids_and_the_last_one_is_cut_off() -> None:
    body = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_and_b32_e32 v1, 0x3ff, v0
	v_bfe_u32 v2, v0, 10, 10
	v_lshlrev_b32_e32 v2, 2, v2
	v_mad_u32_u24 v2, v2, 10, 0
	v_lshl_add_u32 v2, v1, 2, v2
	s_lshl_b32 s6, s2, 9
	s_lshl_b32 s7, s3, 10
	s_add_u32 s6, s6, s7
	v_add_u32_e32 v2, s6, v2
	s_waitcnt lgkmcnt(0)
	global_store_dword v2, v0, s[4:5]
"""
    out = np.zeros(512, np.uint32)
    buffer = Buffer(4096, out.view(np.uint8), "out")
    where = Launch("kernel", (2, 2, 1), (10, 9, 1), (4096).to_bytes(8, "little"))
    report = simulate(kernel_text(body, kernarg=8), where, [buffer])
    assert not report.findings
    expected = [x | y << 10 for y in range(9) for x in range(10)]
    for group in range(4):
        assert out[128 * group : 128 * group + 90].tolist() == expected
        assert not out[128 * group + 90 : 128 * group + 128].any()


def test_arguments_follow_the_pointers_that_a_kernel_does_not_read() -> None:
    """Dispatch packet and queue have two scalars each before the arguments, the dispatch number two behind them."""
    body = (
        "s_load_dwordx2 s[8:9], s[4:5], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\nv_mov_b32_e32 v2, {}\ns_waitcnt lgkmcnt(0)\n"
    )
    body += "global_store_dword v1, v2, s[8:9]"
    directives = "".join(f"\t\t.amdhsa_user_sgpr_{name} 1\n" for name in ("dispatch_ptr", "queue_ptr", "dispatch_id"))
    text = kernel_text(body, kernarg=8).replace(
        "\t\t.amdhsa_user_sgpr_count 2\n", f"\t\t.amdhsa_user_sgpr_count 8\n{directives}"
    )
    out = np.full((2, 64), 9, np.uint32)
    assert not launch(text.replace("{}", "s4"), [out]).findings
    (finding,) = launch(text.replace("{}", "s0"), [out]).poison_reads
    assert "data from v2" in finding.detail


@pytest.mark.parametrize(
    ("branch", "taken"),
    [
        ("s_cbranch_vccz", False),
        ("s_cbranch_vccnz", True),
        ("s_cbranch_execz", False),
        ("s_cbranch_execnz", True),
        ("s_cbranch_scc0", True),
    ],
)
def test_conditions_of_branches(branch: str, taken: bool) -> None:
    body = f"""
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v2, 1
	v_cmp_eq_u32_e32 vcc, 0, v1
	s_cmp_eq_u32 s2, 7
	{branch} 1f
	v_mov_b32_e32 v2, 0
1:
	s_mov_b64 exec, 1
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v2, s[4:5]
"""
    out = np.full(1, 9, np.uint32)
    launch(kernel_text(body, kernarg=8), [out])
    assert out[0] == int(taken)


def test_two_workgroups_must_not_store_to_one_place() -> None:
    body = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v0, s[4:5]
"""
    out = np.zeros(64, np.uint32)
    assert not launch(kernel_text(body, kernarg=8), [out], grid=1).findings
    (finding,) = launch(kernel_text(body, kernarg=8), [out], grid=3).global_overlaps
    assert "where another workgroup has stored" in finding.detail


def test_an_access_that_leaves_its_buffer_for_another_one_is_found() -> None:
    body = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_mov_b32 s6, -1
	s_mov_b32 s7, 0x27000
	s_waitcnt lgkmcnt(0)
	buffer_store_dword v0, v1, s[4:7], 0 offen offset:128
"""
    first, second = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    (finding,) = launch(kernel_text(body, kernarg=16), [first, second], gap=0).out_of_bounds
    assert finding.occurrences == 32
    assert not second.any()


def test_a_kernel_that_waits_for_another_workgroup_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LIMIT", 1000)
    with pytest.raises(EndlessKernelError, match=r"1000 instructions .* at line 5: s_branch .Lspin"):
        launch(kernel_text(".Lspin:\n\ts_branch .Lspin"), [])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (Launch("kernel", (1, 1, 1), (1025, 1, 1), b""), "a workgroup of 1025 work-items"),
        (Launch("kernel", (1, 1, 1), (64, 1, 1), b""), "0 bytes of arguments; the kernel has 8"),
    ],
)
def test_launches_that_do_not_fit_are_refused(where: Launch, message: str) -> None:
    with pytest.raises(BadLaunchError, match=message):
        simulate(kernel_text("s_nop 0", kernarg=8), where, [])


def test_buffers_that_overlap_are_refused() -> None:
    data = np.zeros(64, np.uint8)
    with pytest.raises(BadLaunchError, match="a and b overlap"):
        simulate(
            kernel_text("s_nop 0"),
            Launch("kernel", (1, 1, 1), (64, 1, 1), b""),
            [Buffer(64, data, "a"), Buffer(100, data, "b")],
        )


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(UnknownKernelError, match="no kernel other; it has kernel"):
        simulate(kernel_text("s_nop 0"), Launch("other", (1, 1, 1), (64, 1, 1), b""), [])
