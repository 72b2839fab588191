"""Vector comparisons: a lane mask into a scalar pair (v_cmp), or into EXEC as well (v_cmpx)."""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, Mask
from kgen.simulator.forms import vector
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step
from kgen.simulator.program import EXEC, Instruction
from kgen.simulator.report import InstructionClass
from kgen.simulator.wave import Wave

Comparison = Callable[[Array, Array], Array]


def unordered(a: Array, b: Array) -> Mask:
    return np.asarray(np.isnan(a) | np.isnan(b))


INTEGER: dict[str, Comparison] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
REAL: dict[str, Comparison] = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~unordered(a, b),
    "u": unordered,
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b),
    "ngt": lambda a, b: ~(a > b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
}


def has_class(values: Array, classes: Array) -> Mask:
    """v_cmp_class: whether a value is of one of the classes whose bits are set.

    Bits: 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf.
    """
    form, negative, magnitude = np.finfo(values.dtype), np.signbit(values), np.abs(values)
    quiet = (values.view(f"u{values.itemsize}") >> (form.nmant - 1) & 1) == 1
    kind = np.select(
        [np.isnan(values) & quiet, np.isnan(values), np.isinf(values), magnitude >= form.tiny, magnitude > 0],
        [1, 0, np.where(negative, 2, 9), np.where(negative, 3, 8), np.where(negative, 4, 7)],
        np.where(negative, 5, 6),
    )
    return np.asarray((classes >> kind.astype(np.uint32) & 1) == 1)


def narrowing(compare: Opcode) -> Opcode:
    """Return v_cmpx of a v_cmp: EXEC is the result as well; with no destination operand, only EXEC."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        compute = compare.bind(instruction, machine)
        register = instruction.destinations[0].register

        def step(wave: Wave) -> None:
            compute(wave)
            wave.write_pair(EXEC, wave.s64[:, register // 2].copy())

        return step

    return Opcode(bind, InstructionClass.VALU)


def table() -> dict[str, Opcode]:
    """Return all comparisons."""
    found = {f"v_cmp_class_{kind}": vector(f"{kind} u32 -> mask", has_class) for kind in ("f16", "f32", "f64")}
    for kinds, comparisons in (("u16 i16 u32 i32 u64 i64", INTEGER), ("f16 f32 f64", REAL)):
        for kind in kinds.split():
            for name, compare in comparisons.items():
                found[f"v_cmp_{name}_{kind}"] = vector(f"{kind} {kind} -> mask", compare)
    return found | {name.replace("v_cmp", "v_cmpx", 1): narrowing(opcode) for name, opcode in found.items()}


OPCODES: dict[str, Opcode] = table()
