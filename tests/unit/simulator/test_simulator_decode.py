"""ISA text -> Program: operands, modifiers, labels, descriptor; what is unknown is named with its line."""

import pytest
from isa_runs import kernel_text

from kgen.errors.simulator import UnknownLabelError, UnknownOpcodeError, UnknownOperandError, UnsupportedKernelError
from kgen.simulator.decode import decode
from kgen.simulator.engine import Engine
from kgen.simulator.findings import Findings
from kgen.simulator.global_memory import GlobalMemory
from kgen.simulator.launch import Poison
from kgen.simulator.machine import Counters, Machine
from kgen.simulator.program import EXEC, M0, VCC, Instruction, OperandKind, Program
from kgen.simulator.table import OPCODES, destination_count


def program(body: str, **more: object) -> Program:
    return decode(kernel_text(body, **more), "kernel", destination_count)  # type: ignore[arg-type]


def one(text: str) -> Instruction:
    return program(text).instructions[0]


def bind(body: str) -> None:
    """Make the steps of a program, as a launch would."""
    decoded = program(body)
    memory = GlobalMemory("kernel", [], Poison.QUIET_NAN)
    Engine(Machine(decoded, Poison.QUIET_NAN, memory, Findings(decoded, (1, 1, 1)), Counters.of(decoded), 0, 4))


def test_registers() -> None:
    instruction = one("v_mad_u64_u32 v[4:5], vcc, v1, s7, v[2:3]")
    assert [(o.kind, o.register, o.count) for o in instruction.destinations] == [
        (OperandKind.VGPR, 4, 2),
        (OperandKind.SGPR, VCC, 2),
    ]
    assert [(o.kind, o.register, o.count) for o in instruction.sources] == [
        (OperandKind.VGPR, 1, 1),
        (OperandKind.SGPR, 7, 1),
        (OperandKind.VGPR, 2, 2),
    ]
    assert one("v_accvgpr_read_b32 v0, a3").sources[0].register == 256 + 3
    assert one("s_mov_b32 m0, exec_hi").destinations[0].register == M0
    assert one("s_mov_b32 m0, exec_hi").sources[0].register == EXEC + 1


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("v_mov_b32_e32 v0, 0x3f80", 0x3F80),
        ("v_mov_b32_e32 v0, -1", 0xFFFFFFFFFFFFFFFF),
        ("v_mul_f32_e32 v0, 0.5, v1", 0x3F000000),
        ("v_mul_f32_e32 v0, -4.0, v1", 0xC0800000),
        ("v_mul_f32_e32 v0, 0.15915494, v1", 0x3E22F983),
        ("v_mul_f16_e32 v0, 2.0, v1", 0x4000),
        ("v_mul_f64 v[0:1], 1.0, v[2:3]", 0x3FF0000000000000),
    ],
)
def test_constants(text: str, bits: int) -> None:
    assert one(text).sources[0].value == bits


def test_signs() -> None:
    first, second, third = one("v_fma_f32 v0, -v1, |v2|, -|v3|").sources
    assert (first.negate, first.absolute) == (True, False)
    assert (second.negate, second.absolute) == (False, True)
    assert (third.negate, third.absolute) == (True, True)


def test_modifiers_and_encodings() -> None:
    instruction = one("v_add_f32_dpp v0, v1, v2 row_shr:3 row_mask:0xa bank_mask:0xf bound_ctrl:1")
    assert instruction.dpp and instruction.name == "v_add_f32"
    assert instruction.modifiers == {"row_shr": 3, "row_mask": 10, "bank_mask": 15, "bound_ctrl": 1}
    instruction = one("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[1,0,1] neg_lo:[0,1,0]")
    assert instruction.bits("op_sel_hi", ()) == (1, 0, 1)
    assert instruction.bits("neg_lo", ()) == (0, 1, 0)
    instruction = one("buffer_load_dwordx4 v0, s[8:11], s4 offen offset:0x10 sc0 nt lds")
    assert not instruction.destinations and instruction.number("offset") == 16 and instruction.flag("lds")


def test_comments_and_directives_are_no_instructions() -> None:
    decoded = program("\ts_nop 0 ; comment\n\t;;#ASMSTART\n\ts_nop 1 // other\n\t.loc 1 2 3\n.Lx:")
    assert [instruction.text for instruction in decoded.instructions] == ["s_nop 0", "s_nop 1", "s_endpgm"]
    assert [instruction.line for instruction in decoded.instructions] == [4, 6, 9]


def test_labels() -> None:
    decoded = program(".La:\n1:\n s_branch 1f\n s_branch .La\n s_branch 1b\n1:\n s_cbranch_scc0 .Lb\n.Lb:")
    assert [instruction.target for instruction in decoded.instructions] == [3, 0, 0, 4, -1]
    with pytest.raises(UnknownLabelError, match=r"line 4: no label \.Lno"):
        program("s_branch .Lno")


def test_a_code_object_of_several_kernels() -> None:
    text = kernel_text("s_nop 1", name="first", lds=64) + kernel_text("s_nop 2\ns_nop 3", name="second", lds=128)
    for name, count, lds in (("first", 2, 64), ("second", 3, 128)):
        decoded = decode(text, name, destination_count)
        assert (len(decoded.instructions), decoded.static_lds_bytes) == (count, lds)


def test_the_descriptor() -> None:
    decoded = program("s_nop 0", lds=1024, scratch=16, kernarg=40, arch="gfx950")
    assert decoded.arch == "gfx950"
    assert (decoded.static_lds_bytes, decoded.scratch_bytes, decoded.kernarg_bytes) == (1024, 16, 40)
    assert (decoded.user_sgprs, decoded.workgroup_ids) == (2, (True, True, False))


@pytest.mark.parametrize(
    "directive", ["system_sgpr_workgroup_info", "user_sgpr_kernarg_preload_length", "uses_dynamic_stack"]
)
def test_what_is_not_set_up_is_refused(directive: str) -> None:
    text = kernel_text("s_nop 0").replace("\t.end_amdhsa", f"\t\t.amdhsa_{directive} 1\n\t.end_amdhsa")
    with pytest.raises(UnsupportedKernelError, match=r"kernel: .* is not simulated"):
        decode(text, "kernel", destination_count)


@pytest.mark.parametrize(
    "mnemonic", ["v_frobnicate_f32", "s_sendmsg", "v_mfma_f32_4x4x4_16b_f16", "ds_gws_init", "s_trap"]
)
def test_an_unknown_opcode_is_named_with_its_line(mnemonic: str) -> None:
    with pytest.raises(UnknownOpcodeError, match=f"line 5: the simulator does not know {mnemonic}: {mnemonic} v0, v1"):
        program(f"s_nop 0\n{mnemonic} v0, v1")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("v_mov_b32_e32 v0, src_shared_base", "src_shared_base"),
        ("s_getreg_b32 s0, hwreg(HW_REG_XCC_ID)", "s_getreg_b32"),
        ("s_waitcnt vscnt(0)", r"vscnt\(0\)"),
        ("global_load_dword v0, v1, s[2:3] frob", r"s\[2:3\] frob"),
        ("ds_swizzle_b32 v0, v1 offset:swizzle(FFT,2)", "FFT"),
    ],
)
def test_an_unknown_operand_is_named_with_its_line(text: str, what: str) -> None:
    with pytest.raises((UnknownOperandError, UnknownOpcodeError), match=f"line 4: .*{what}"):
        program(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("v_add_u32_e64 v0, v1, v2 clamp", "the modifier clamp"),
        ("v_mov_b32_e32 v0, v1 offset:4", "the modifier offset"),
        ("v_add_u32_e32 v0, v1", "the number of operands"),
        ("v_add_u32_e64 v0, -v1, v2", "a sign modifier"),
        ("v_add_f32_e32 s0, v1, v2", "a scalar destination"),
        ("s_add_u32 s0, v1, s2", "an operand"),
        ("global_load_dword v0, v1, s[2:3] offen", "the modifier offen"),
        ("v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] cbsz:1", "the modifier cbsz"),
    ],
)
def test_what_an_instruction_cannot_have_is_refused_before_it_runs(text: str, what: str) -> None:
    with pytest.raises(UnknownOperandError, match=f"line 4: the simulator does not know {what} of "):
        bind(text)


def test_the_table_holds_the_instructions_of_both_architectures() -> None:
    assert len(OPCODES) > 600
