"""Evidence per kernel function of a CUDA binary: one with ELFs of two architectures, and a cubin."""

from pathlib import Path

import pytest

from kgen.check import toolchain
from kgen.check.binary import kernels_in, read_binary
from kgen.check.evidence import MmaSites
from kgen.check.sass import machine_code_of
from kgen.errors.check import DisassemblerFailedError, NoDeviceCodeError, UnknownIsaError

CODE = machine_code_of("sm_90a")

# Two source files for sm_90a, the first with assert, one of them for sm_80 as well.
SASS = """
Fatbin elf code:
================
arch = sm_80
code version = [1,8]

\tcode for sm_80

\t\tFunction : _ZN4ours4gemmEv
        /*0000*/                   HMMA.16816.F32.BF16 R4, R4, R8, R12 ;  /* 0x0000000804047241 */
                                                                          /* 0x000fe2000004180c */
\t\t..........

Fatbin ptx code:
================
arch = sm_90a

Fatbin elf code:
================
arch = sm_90a
code version = [1,8]

\tcode for sm_90a
\t.target\tsm_90a

\t\tFunction : _ZN4ours4gemmEv
\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90"
        /*0000*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR12], RZ, !UPT ;  /* 0x01e0000c001879f0 */
                                                                                          /* 0x000fe2000c7018ff */
        /*0010*/              @!P0 BRA 0x0 ;                                              /* 0xfffffffc00f88947 */
\t\t..........

\t\tFunction : tail
        /*0000*/                   LDL R2, [R1] ;          /* 0x0000000001027983 */
        /*0010*/                   CALL.ABS.NOINC R2 ;     /* 0x0000000002007343 */
\t\t..........

Fatbin elf code:
================
arch = sm_90a

\tcode for sm_90a
\t\tFunction : other
        /*0000*/                   CALL.ABS.NOINC R2 ;     /* 0x0000000002007343 */
"""
USAGE = """
Fatbin elf code:
================
arch = sm_80

Resource usage:
 Function _ZN4ours4gemmEv:
  REG:24 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:364 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_90a

Resource usage:
 Common:
  GLOBAL:114 CONSTANT[4]:56
 Function tail:
  REG:40 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:540 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN4ours4gemmEv:
  REG:168 STACK:0 SHARED:1280 LOCAL:0 CONSTANT[0]:540 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_90a

Resource usage:
 Function other:
  REG:16 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:540 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SYMBOLS = """
Fatbin elf code:
================
arch = sm_80

symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                _ZN4ours4gemmEv

Fatbin elf code:
================
arch = sm_90a

symbols:
FUNC          GLOBAL  DEFAULT    ENTRY                                _ZN4ours4gemmEv
FUNC          GLOBAL  DEFAULT    -                                 U  __assertfail
NOTYPE        LOCAL   INTERNAL   -                                 U  

Fatbin elf code:
================
arch = sm_90a

symbols:
FUNC          GLOBAL  DEFAULT    -                                 U  vprintf
"""  # noqa: W291


def test_each_function_of_the_architecture_is_counted_apart() -> None:
    gemm, tail, other = kernels_in((SASS, USAGE, SYMBOLS), "sm_90a", CODE)
    assert (gemm.kernel, gemm.mma) == ("_ZN4ours4gemmEv", (MmaSites("HGMMA", "64x128x16.F32.BF16", 1),))
    assert (gemm.instructions, gemm.registers, gemm.static_smem_bytes, gemm.threads) == (2, 168, 1280, None)
    assert (tail.mma, tail.spills, tail.registers, tail.stack_bytes) == ((), 1, 40, 8)
    # only the source file of `tail` has asserts: the call in `other` is one to printf
    assert (tail.assert_calls, other.assert_calls) == (1, 0)
    (older,) = kernels_in((SASS, USAGE, SYMBOLS), "sm_80", CODE)
    assert (older.mma, older.registers) == ((MmaSites("HMMA", "16816.F32.BF16", 1),), 24)


def test_a_cubin_has_no_header_per_elf() -> None:
    code = "\n\tcode for sm_90a\n\t\tFunction : tail\n        /*0000*/    EXIT ;  /* 0x000000000000794d */\n"
    usage = "\nResource usage:\n Function tail:\n  REG:40 STACK:8 SHARED:0 LOCAL:0\n"
    (kernel,) = kernels_in((code, usage, "symbols:\n"), "sm_90a", CODE)
    assert (kernel.kernel, kernel.instructions, kernel.registers) == ("tail", 1, 40)


@pytest.fixture
def cuobjdump(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the file of a stand-in on PATH, and no demangler; what it says lies beside it."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in (("-sass", SASS), ("-res-usage", USAGE), ("-symbols", SYMBOLS)):
        (bin_folder / name).write_text(text)
    listed = "ELF file    1: ext.1.sm_80.cubin\nELF file    2: ext.2.sm_90a.cubin\nELF file    3: ext.3.sm_90a.cubin\n"
    (bin_folder / "-lelf").write_text(listed)
    program(bin_folder / "cuobjdump", f'cat "{bin_folder}/$1"')
    monkeypatch.setenv("PATH", f"{bin_folder}")
    monkeypatch.setattr(toolchain, "distribution", absent)
    return bin_folder / "cuobjdump"


def absent(name: str) -> None:
    raise toolchain.PackageNotFoundError(name)


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
    path.chmod(0o755)


def test_the_asked_isa_is_read_and_the_others_are_named(cuobjdump: Path) -> None:
    found = read_binary(Path("ext.so"), "sm_90a")
    assert (found.arch, found.arches, found.other_arches) == ("sm_90a", ("sm_80", "sm_90a"), ("sm_80",))
    assert [kernel.kernel for kernel in found.kernels] == ["_ZN4ours4gemmEv", "tail", "other"]
    assert found.code_digest is not None and found.to_json()["code_digest"] == found.code_digest
    renamed = SASS.replace("_ZN4ours4gemmEv", "_ZN5yours4gemmEv")
    cuobjdump.with_name("-sass").write_text(renamed)
    cuobjdump.with_name("-res-usage").write_text(USAGE.replace("_ZN4ours4gemmEv", "_ZN5yours4gemmEv"))
    assert read_binary(Path("ext.so"), "sm_90a").code_digest == found.code_digest


def test_a_plain_target_stands_in_and_another_generation_does_not(cuobjdump: Path) -> None:
    for name in ("-lelf", "-sass", "-res-usage", "-symbols"):
        file = cuobjdump.with_name(name)
        file.write_text(file.read_text().replace("sm_90a", "sm_90"))
    found = read_binary(Path("ext.so"), "sm_90a")
    assert (found.isa, found.arch, len(found.kernels)) == ("sm_90a", "sm_90", 3)
    cuobjdump.with_name("-lelf").write_text("ELF file    1: ext.1.sm_80.cubin\n")
    found = read_binary(Path("ext.so"), "sm_90a")
    assert (found.arch, found.other_arches, found.kernels, found.code_digest) == (None, ("sm_80",), (), None)


def test_names_are_demangled_where_a_demangler_is(cuobjdump: Path) -> None:
    program(cuobjdump.with_name("c++filt"), "sed 's/_ZN4ours4gemmEv/ours::gemm()/'")
    found = read_binary(Path("ext.so"), "sm_90a")
    assert [kernel.kernel for kernel in found.kernels] == ["ours::gemm()", "tail", "other"]


def test_a_file_without_gpu_code_and_a_missing_one_are_refused(cuobjdump: Path) -> None:
    program(cuobjdump, "echo \"cuobjdump info    : File 'ls' does not contain device code\" >&2; exit 255")
    with pytest.raises(NoDeviceCodeError, match=r"^ls holds no GPU code\n  = name the library"):
        read_binary(Path("ls"), "sm_90a")
    program(cuobjdump, "echo \"cuobjdump fatal   : Could not open input file 'no.so'\" >&2; exit 1")
    with pytest.raises(DisassemblerFailedError, match=r"Could not open input file 'no\.so'"):
        read_binary(Path("no.so"), "sm_90a")
    with pytest.raises(UnknownIsaError):
        read_binary(Path("ext.so"), "sm_75")
