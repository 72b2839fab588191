"""What is counted: instructions, bytes, operations, what is in flight at waits; the steady loop."""

import numpy as np
from isa_runs import kernel_text, launch

from kgen.simulator import InstructionClass

# An outer loop of 2 around an inner loop of 3 with two MFMAs, and an MFMA outside of both.
LOOPS = """
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 4, v0
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, 0
	s_mov_b32 s6, 2
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[2:3], 0
.Louter:
	s_mov_b32 s7, 3
.Linner:
	global_load_dwordx4 v[12:15], v1, s[4:5]
	global_load_dword v16, v1, s[4:5]
	ds_read_b64 v[18:19], v1
	s_waitcnt vmcnt(1) lgkmcnt(0)
	v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[2:3], v[8:11]
	v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[2:3], v[8:11]
	s_waitcnt vmcnt(0)
	s_sub_u32 s7, s7, 1
	s_cmp_lg_u32 s7, 0
	s_cbranch_scc1 .Linner
	s_sub_u32 s6, s6, 1
	s_cmp_lg_u32 s6, 0
	s_cbranch_scc1 .Louter
	s_mov_b64 exec, 1
	global_store_dwordx4 v1, v[8:11], s[4:5]
"""


def test_counts_of_a_program_and_of_its_steady_loop() -> None:
    data = np.zeros(1024, np.uint8)
    report = launch(kernel_text(LOOPS, lds=1024, kernarg=8), [data])
    counts, loop = report.counts, report.steady_loop
    assert counts.by_mnemonic["v_mfma_f32_16x16x16_f16"] == 1 + 2 * 3 * 2
    assert counts.flops == 13 * 2 * 16**3
    assert counts.executed == sum(counts.by_class.values()) == 7 + 2 * (1 + 3 * 10 + 3) + 3
    assert counts.global_bytes == 6 * 64 * 20 + 16
    assert loop is not None
    assert loop.by_class == {
        InstructionClass.GLOBAL: 12,
        InstructionClass.LDS: 6,
        InstructionClass.WAIT: 12,
        InstructionClass.MFMA: 12,
        InstructionClass.SALU: 12,
        InstructionClass.BRANCH: 6,
    }
    assert loop.global_bytes == 6 * 64 * 20
    assert loop.lds_bytes == 6 * 64 * 8
    first, second = loop.waits
    assert (first.executed, first.vector_before, first.vector_after, first.lgkm_before, first.lgkm_after) == (
        6,
        2,
        1,
        1,
        0,
    )
    assert (second.vector_before, second.vector_after) == (1, 0)


def test_counts_are_of_all_waves() -> None:
    data = np.zeros(1024, np.uint8)
    one = launch(kernel_text(LOOPS, lds=1024, kernarg=8), [data])
    four = launch(kernel_text(LOOPS, lds=4096, kernarg=8), [np.zeros(4096, np.uint8)], block=256)
    assert four.counts.executed == 4 * one.counts.executed
    assert four.counts.flops == 4 * one.counts.flops


def test_the_loop_that_runs_once_is_still_the_loop() -> None:
    body = LOOPS.replace("s_mov_b32 s6, 2", "s_mov_b32 s6, 1").replace("s_mov_b32 s7, 3", "s_mov_b32 s7, 1")
    loop = launch(kernel_text(body, lds=1024, kernarg=8), [np.zeros(1024, np.uint8)]).steady_loop
    assert loop is not None
    assert loop.by_class[InstructionClass.MFMA] == 2


def test_a_kernel_without_matrix_instructions_has_no_steady_loop() -> None:
    assert launch(kernel_text("s_nop 0"), []).steady_loop is None


def test_findings_print_as_one_line() -> None:
    report = launch(kernel_text("v_mov_b32_e32 v1, 0\nds_read_b32 v2, v1", lds=0), [], grid=2)
    (finding,) = report.out_of_bounds
    assert str(finding) == (
        "line 5: out of bounds: 4 bytes at LDS address 0x0; the workgroup has 0 bytes; "
        "workgroup 0,0,0 wave 0 (128 times): ds_read_b32 v2, v1"
    )
