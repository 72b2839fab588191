"""A code object's own word on its kernels: registers, spills, LDS, arguments; from the ELF's metadata note."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import msgpack
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

_NOTE_OWNER = "AMDGPU"  # of the one note: "Code Object V3 and Above Metadata" in LLVM's User Guide for AMDGPU


@dataclass(frozen=True, slots=True)
class Argument:
    """One explicit kernel argument: its place in the kernel argument segment, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """What the compiler says of one kernel.

    `vgprs` are all vector registers of a lane, accumulation registers included. Spills count registers. `threads` is
    the workgroup size that the kernel requires, or else the largest that it allows.
    """

    name: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds_bytes: int
    scratch_bytes: int
    threads: int
    kernarg_bytes: int
    arguments: tuple[Argument, ...]


def kernels_of(code_object: bytes) -> tuple[KernelMetadata, ...]:
    """Return the kernels of an AMDGPU ELF, in its order; raises ValueError where it has no metadata."""
    elf = ELFFile(io.BytesIO(code_object))
    for section in elf.iter_sections():
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_name"] == _NOTE_OWNER:
                    return tuple(map(_kernel, _unpacked(note["n_descdata"])["amdhsa.kernels"]))
    raise ValueError("the code object has no AMDGPU metadata")


def _unpacked(description: bytes | str) -> Mapping[str, Any]:
    # pyelftools decodes descriptions of unknown notes as latin-1
    data = description if isinstance(description, bytes) else description.encode("latin-1")
    unpacked: Mapping[str, Any] = msgpack.unpackb(data)
    return unpacked


def _kernel(row: Mapping[str, Any]) -> KernelMetadata:
    explicit = (a for a in row.get(".args", ()) if not a[".value_kind"].startswith("hidden_"))
    return KernelMetadata(
        name=row[".name"],
        vgprs=row[".vgpr_count"],
        agprs=row.get(".agpr_count", 0),
        sgprs=row[".sgpr_count"],
        vgpr_spills=row[".vgpr_spill_count"],
        sgpr_spills=row[".sgpr_spill_count"],
        lds_bytes=row[".group_segment_fixed_size"],
        scratch_bytes=row[".private_segment_fixed_size"],
        threads=prod(row.get(".reqd_workgroup_size") or (row[".max_flat_workgroup_size"],)),
        kernarg_bytes=row[".kernarg_segment_size"],
        arguments=tuple(Argument(a[".offset"], a[".size"]) for a in explicit),
    )
