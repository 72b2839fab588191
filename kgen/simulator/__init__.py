"""A functional simulator of compiled gfx942 and gfx950 kernels: executes the final ISA text on numpy arrays.

It proves what a kernel computes and that its synchronisation is complete; it says nothing about time. docs/simulator.md
states how it works, how to add an opcode, and what it does not model. It knows nothing of the compiler.
"""

from kgen.simulator.launch import Buffer, Launch, Poison, WaveOrder
from kgen.simulator.report import (
    Counts,
    Finding,
    FindingKind,
    InstructionClass,
    InstructionCount,
    Report,
    WaitCount,
)
from kgen.simulator.simulate import simulate

__all__ = [
    "Buffer",
    "Counts",
    "Finding",
    "FindingKind",
    "InstructionClass",
    "InstructionCount",
    "Launch",
    "Poison",
    "Report",
    "WaitCount",
    "WaveOrder",
    "simulate",
]
