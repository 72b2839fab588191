"""Atomics on global memory and LDS: what stays in memory, what comes back, lanes that meet at one address."""

from collections.abc import Callable

import numpy as np
import pytest
from isa_runs import ADDRESS, run, vector
from test_simulator_memory import kinds, resource

from kgen.simulator import FindingKind

LANE = np.arange(64)
WAIT = "\ns_waitcnt vmcnt(0) lgkmcnt(0)"
M32 = 0xFFFFFFFF
INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, x: old + x & M32,
    "sub": lambda old, x: old - x & M32,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "umax": max,
    "umin": min,
    "swap": lambda old, x: x,
    "inc": lambda old, x: 0 if old >= x else old + 1,
}


def run_atomic(text: str, memory: np.ndarray, v: dict[int, object]) -> tuple[np.ndarray, list[FindingKind]]:
    """Run an atomic in two workgroups; return what came back in v6 of the first workgroup, and the findings."""
    wave, machine = run(text + WAIT, v={6: 0} | v, s={2: ADDRESS, 3: 0} | resource(memory.nbytes), memory=memory)
    returned = wave.v[6][0].copy() if " v6," in text else np.zeros(0, np.uint32)
    return returned, kinds(machine)


@pytest.mark.parametrize("name", INTEGER)
def test_global_atomics_return_the_old_value(name: str) -> None:
    memory = np.full(64, 40, np.uint32)
    old, findings = run_atomic(f"global_atomic_{name} v6, v0, v4, s[2:3] sc0", memory, {0: 4 * LANE, 4: LANE})
    once = [INTEGER[name](40, lane) for lane in range(64)]
    assert old.tolist() == [40] * 64
    assert memory.tolist() == [INTEGER[name](value, lane) for lane, value in enumerate(once)]
    assert not findings


def test_lanes_at_one_address_follow_each_other() -> None:
    memory = np.zeros(1, np.uint32)
    old, _ = run_atomic("global_atomic_add v6, v0, v4, s[2:3] sc0", memory, {0: 0 * LANE, 4: 1})
    assert memory[0] == 128
    assert old.tolist() == list(range(64))


@pytest.mark.parametrize(
    "text", ["buffer_atomic_add_f32 v4, v0, s[8:11], 0 offen", "global_atomic_add_f32 v0, v4, s[2:3]"]
)
def test_real_sums(text: str) -> None:
    memory = np.zeros(8, np.float32)
    _, findings = run_atomic(text, memory, {0: 4 * (LANE % 8), 4: (LANE // 8).astype(np.float32)})
    assert memory.tolist() == [2.0 * sum(range(8))] * 8
    assert not findings


@pytest.mark.parametrize(("name", "dtype"), [("pk_add_f16", "f16"), ("pk_add_bf16", "bf16")])
def test_pairs_of_halves(name: str, dtype: str) -> None:
    def pattern(low: float, high: float) -> int:
        if dtype == "f16":
            return int(np.array([low, high], np.float16).view(np.uint32)[0])
        return int(np.float32(low).view(np.uint32) >> 16 | np.float32(high).view(np.uint32))

    memory = np.full(64, pattern(1, 2), np.uint32)
    run_atomic(f"global_atomic_{name} v0, v4, s[2:3]", memory, {0: 4 * LANE, 4: pattern(0.5, 4)})
    assert memory.tolist() == [pattern(2, 10)] * 64


def test_compare_and_swap() -> None:
    memory = np.arange(64, dtype=np.uint32) % 2
    old, _ = run_atomic("global_atomic_cmpswap v6, v0, v[4:5], s[2:3] sc0", memory, {0: 4 * LANE, 4: 9, 5: 1})
    assert memory.tolist() == [0, 9] * 32
    assert old.tolist() == [0, 1] * 32


def test_64_bits_and_f64() -> None:
    memory = np.full(64, 1 << 33, np.uint64)
    run_atomic("global_atomic_add_x2 v0, v[4:5], s[2:3]", memory, {0: 8 * LANE, 4: 1, 5: 1})
    assert memory.tolist() == [(1 << 33) + 2 * (1 << 32 | 1)] * 64
    memory = np.full(64, 0.25, np.float64)
    half = int(np.float64(0.5).view(np.uint64))
    run_atomic("global_atomic_add_f64 v0, v[4:5], s[2:3]", memory, {0: 8 * LANE, 4: half & M32, 5: half >> 32})
    assert memory.tolist() == [1.25] * 64


def test_a_buffer_atomic_returns_in_its_data_register_and_respects_num_records() -> None:
    memory = np.zeros(64, np.uint32)
    wave, machine = run(
        "buffer_atomic_add v4, v0, s[8:11], 0 offen sc0" + WAIT, v={0: 4 * LANE, 4: 5}, s=resource(40), memory=memory
    )
    assert memory.tolist() == [10] * 10 + [0] * 54
    assert wave.v[4][1].tolist() == [5] * 10 + [0] * 54
    assert not kinds(machine)


def test_atomics_outside_are_found() -> None:
    _, findings = run_atomic("global_atomic_add v0, v4, s[2:3]", np.zeros(4, np.uint32), {0: 4 * LANE, 4: 1})
    assert findings == [FindingKind.OUT_OF_BOUNDS]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("add_u32", 3, 3 * 64),
        ("max_u32", LANE, 63),
        ("or_b32", LANE, 63),
        ("add_f32", np.float32(0.5), int(np.float32(32).view(np.uint32))),
        ("max_f32", LANE.astype(np.float32), int(np.float32(63).view(np.uint32))),
        ("min_i32", -LANE, -63 & M32),
    ],
)
def test_lds_atomics(name: str, value: object, expected: int) -> None:
    body = f"ds_write_b32 v0, v1\nds_{name} v0, v2\nds_read_b32 v3, v0{WAIT}"
    wave, machine = run(body, v={0: 0, 1: 0, 2: value, 3: 0}, lds=64)
    assert vector(wave, 3).tolist() == [expected] * 64
    assert not kinds(machine)


def test_lds_atomics_return_the_old_value() -> None:
    wave, _ = run(
        f"ds_write_b32 v0, v1\nds_add_rtn_u32 v3, v0, v2{WAIT}", v={0: 4 * (LANE // 2), 1: 7, 2: 1, 3: 0}, lds=128
    )
    assert vector(wave, 3).tolist() == [7, 8] * 32
