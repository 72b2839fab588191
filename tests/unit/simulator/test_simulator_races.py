"""LDS races between the waves of a workgroup: what lies between two barriers, and what a barrier does not order."""

import numpy as np
import pytest
from isa_runs import kernel_text, launch

from kgen.simulator import Finding, Poison, WaveOrder

# v0 the work-item, v1 its LDS address, v2 the address of the other wave's work-item
HEAD = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_and_b32_e32 v0, 0x3ff, v0
	v_lshlrev_b32_e32 v1, 2, v0
	v_xor_b32_e32 v2, 0x100, v1
	s_waitcnt lgkmcnt(0)
"""
TAIL = """
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v3, s[4:5]
"""
BARRIER = "s_waitcnt lgkmcnt(0)\n s_barrier\n"


def races(body: str, *, lds: int = 1024, block: int = 128, order: WaveOrder = WaveOrder.FORWARD) -> tuple[Finding, ...]:
    """Run the waves; return the races. Where there are none, there are no other findings."""
    out = np.zeros(block, np.uint32)
    report = launch(kernel_text(HEAD + body + TAIL, lds=lds, kernarg=8), [out], block=block, wave_order=order)
    assert report.races or not report.findings
    return report.races


@pytest.mark.parametrize("order", WaveOrder)
def test_a_read_of_another_waves_write(order: WaveOrder) -> None:
    body = "ds_write_b32 v1, v0\n{}ds_read_b32 v3, v2"
    assert any(
        f"wave {i} reads what wave {1 - i} writes" in f.detail
        for f in races(body.format(""), order=order)
        for i in (0, 1)
    )
    assert not races(body.format(BARRIER), order=order)


@pytest.mark.parametrize("order", WaveOrder)
def test_a_write_over_another_waves_read(order: WaveOrder) -> None:
    body = "ds_write_b32 v1, v0\n" + BARRIER + "ds_read_b32 v3, v2\n{}ds_write_b32 v1, v2"
    assert any("ds_write_b32 v1, v2" in finding.instruction for finding in races(body.format(""), order=order))
    assert not races(body.format(BARRIER), order=order)


def test_two_writes_of_one_byte() -> None:
    body = "v_mov_b32_e32 v3, 0\nds_write_b8 v3, v0 offset:5\n"
    (finding,) = races(body)
    assert "overwrites what wave 0 writes at LDS address 0x5" in finding.detail


def test_neighbouring_bytes_do_not_race() -> None:
    body = "v_mov_b32_e32 v3, 0\nds_write_b8 v0, v0\nds_read_u8 v3, v0"
    assert not races(body)


def test_reads_do_not_race() -> None:
    body = f"ds_write_b32 v1, v0\n{BARRIER}v_mov_b32_e32 v3, 0\nds_read_b32 v3, v3"
    assert not races(body)


def test_a_write_after_the_reads_of_several_waves() -> None:
    body = f"ds_write_b32 v1, v0\n{BARRIER}v_mov_b32_e32 v4, 0\nds_read_b32 v3, v4\n"
    body += "s_waitcnt lgkmcnt(0)\nds_write_b32 v4, v0"
    found = [finding for finding in races(body, block=256) if "ds_write_b32 v4" in finding.instruction]
    assert "overwrites what wave 0" in found[0].detail
    (found, *_) = races(body, block=256, order=WaveOrder.REVERSED)
    assert "wave 2 reads what wave 3 writes at LDS address 0x0" in found.detail


def test_a_barrier_does_not_order_a_write_that_is_in_flight() -> None:
    """The writer reaches the barrier before its write reaches LDS: waiting after the barrier is too late."""
    body = "ds_write_b32 v1, v0\n{}s_barrier\n{}ds_read_b32 v3, v2"
    wait = "s_waitcnt lgkmcnt(0)\n"
    (finding,) = races(body.format("", wait))
    assert "its wave did not wait for it before the barrier" in finding.detail
    assert not races(body.format(wait, ""))


def test_a_write_in_flight_is_ordered_by_the_barrier_after_its_wait() -> None:
    body = "ds_write_b32 v1, v0\ns_barrier\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v3, v2"
    assert not races(body)


STAGGER = """
	v_readfirstlane_b32 s6, v0
	s_cmp_eq_u32 s6, 0
	s_cbranch_scc1 .Lfirst
	s_barrier
.Lfirst:
"""


@pytest.mark.parametrize("order", WaveOrder)
def test_waves_a_barrier_apart_need_two_barriers_after_a_wait(order: WaveOrder) -> None:
    """Wave 1 takes one barrier more at the start: wave 0 leaves the one behind its wait before wave 1 has waited."""
    body = STAGGER + "ds_write_b32 v1, v0\ns_barrier\n" + BARRIER + "{}ds_read_b32 v3, v2"
    found = races(body.format(""), order=order)
    assert any("wave 0 reads what wave 1 writes" in finding.detail for finding in found)
    assert not any("wave 1 reads" in finding.detail for finding in found)
    assert not races(body.format("s_barrier\n"), order=order)


def test_the_waves_of_different_workgroups_do_not_race() -> None:
    out = np.zeros(64, np.uint32)
    body = HEAD + "ds_write_b32 v1, v0\nds_read_b32 v3, v1" + TAIL
    report = launch(kernel_text(body, lds=256, kernarg=8), [out], grid=1)
    assert not report.findings


ATOMIC = "v_mov_b32_e32 v3, 0\nds_add_u32 v3, v0\n"


def test_atomics_race_with_plain_accesses_only() -> None:
    zero = "v_mov_b32_e32 v3, 0\nv_cmp_eq_u32_e32 vcc, 0, v0\n"
    zero += "s_and_saveexec_b64 s[6:7], vcc\nds_write_b32 v3, v3\ns_mov_b64 exec, s[6:7]\n"
    assert not races(zero + BARRIER + ATOMIC + BARRIER + "ds_read_b32 v3, v3")
    assert races(zero + ATOMIC + BARRIER + "ds_read_b32 v3, v3")
    assert races(zero + BARRIER + ATOMIC + "ds_read_b32 v3, v3")


ASYNC = """
	v_lshlrev_b32_e32 v1, 2, v0
	s_mov_b32 s6, -1
	s_mov_b32 s7, 0x27000
	v_readfirstlane_b32 s8, v1
	s_mov_b32 m0, s8
	buffer_load_dword v1, s[4:7], 0 offen lds
"""


@pytest.mark.parametrize(
    ("between", "kind"),
    [
        ("s_waitcnt vmcnt(0)\ns_barrier\n", ""),
        ("s_barrier\ns_waitcnt vmcnt(0)\n", "its wave did not wait for it before the barrier"),
        ("s_waitcnt vmcnt(0)\n", "with no barrier between"),
    ],
)
def test_asynchronous_copies_need_both_wait_and_barrier(between: str, kind: str) -> None:
    data, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    head = "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_and_b32_e32 v0, 0x3ff, v0\n"
    head += "s_waitcnt lgkmcnt(0)\ns_mov_b64 s[10:11], s[6:7]\n"
    tail = "v_xor_b32_e32 v2, 0x100, v1\nds_read_b32 v3, v2\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v3, s[10:11]"
    report = launch(kernel_text(head + ASYNC + between + tail, lds=512, kernarg=16), [data, out], block=128)
    assert bool(report.races) is bool(kind)
    assert report.races or not report.findings
    assert not kind or kind in report.races[0].detail
    assert kind or out.tolist() == (np.arange(128) ^ 64).tolist()


@pytest.mark.parametrize("poison", Poison)
def test_lds_that_was_never_written_is_found_where_it_is_stored(poison: Poison) -> None:
    out = np.zeros(64, np.uint32)
    body = HEAD + "v_mov_b32_e32 v4, 9\nds_write_b32 v1, v4\nds_read_b32 v3, v1 offset:128" + TAIL
    report = launch(kernel_text(body, lds=512, kernarg=8), [out], poison=poison)
    (finding,) = report.poison_reads
    assert "data from v3" in finding.detail and finding.occurrences == 32
    assert out.tolist() == [9] * 32 + [poison.value] * 32


def test_undefined_values_that_are_not_used_are_no_fault() -> None:
    """A lane may compute on what it never wrote, as long as a selection throws it away."""
    out = np.zeros(64, np.uint32)
    body = HEAD + "v_add_u32_e32 v4, v5, v0\nv_cmp_lt_u32_e32 vcc, 0x80, v0\nv_cndmask_b32_e32 v3, v0, v4, vcc" + TAIL
    assert not launch(kernel_text(body, kernarg=8), [out]).findings
    body = HEAD + "v_add_u32_e32 v4, v5, v0\nv_cmp_gt_u32_e32 vcc, 2, v0\nv_cndmask_b32_e32 v3, v0, v4, vcc" + TAIL
    (finding,) = launch(kernel_text(body, kernarg=8), [out]).poison_reads
    assert finding.occurrences == 2


def test_an_undefined_scalar_is_no_address() -> None:
    out = np.zeros(64, np.uint32)
    report = launch(kernel_text(HEAD + "v_mov_b32_e32 v3, 0\ns_mov_b32 s5, s20" + TAIL, kernarg=8), [out])
    assert "an address from s[4:5]" in report.poison_reads[0].detail


@pytest.mark.parametrize(
    ("text", "suspects"),
    [
        ("v_lshl_add_u64 v[4:5], v[6:7], 2, v[8:9]", (7, 9)),  # the low word needs no high words
        ("v_pk_mul_f32 v[4:5], v[6:7], v[8:9] op_sel_hi:[0,0]", (7, 9)),
        ("v_pk_mov_b32 v[4:5], v[6:7], v[8:9] op_sel:[0,0]", (7, 9)),
    ],
)
def test_words_that_a_result_does_not_read_may_be_undefined(text: str, suspects: tuple[int, int]) -> None:
    defined = "\n".join(f"v_mov_b32_e32 v{register}, 1" for register in (6, 7, 8, 9) if register not in suspects)
    body = f"{HEAD}{defined}\n{text}\nv_mov_b32_e32 v3, v4{TAIL}"
    out = np.zeros(64, np.uint32)
    assert not launch(kernel_text(body, kernarg=8), [out]).findings
    undefined = body.replace(f"v_mov_b32_e32 v{6 if 6 not in suspects else 8}, 1", "s_nop 0")
    assert launch(kernel_text(undefined, kernarg=8), [out]).poison_reads


def test_many_writes_without_a_barrier_are_forgotten_when_they_are_done() -> None:
    body = "s_mov_b32 s6, 0\n.Lloop:\nds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_add_u32 s6, s6, 1\n"
    body += "s_cmp_lt_u32 s6, 600\ns_cbranch_scc1 .Lloop\ns_barrier\nds_read_b32 v3, v2"
    assert not races(body)
    assert races(body.replace("s_waitcnt lgkmcnt(0)\n", "s_waitcnt lgkmcnt(1)\n"))
