"""Loads and stores: widths, addresses, bounds; global memory, buffers, LDS, scratch."""

import numpy as np
import pytest
from isa_runs import ADDRESS, run, scalar, vector

from kgen.simulator import FindingKind
from kgen.simulator.machine import Machine

LANE = np.arange(64)
KILOBYTE = np.random.default_rng(7).integers(0, 256, 1024, dtype=np.uint8)
WAIT = "\ns_waitcnt vmcnt(0) lgkmcnt(0)"


def resource(records: int, base: int = ADDRESS, stride: int = 0, first: int = 8) -> dict[int, int]:
    """Return the scalar registers of a buffer resource."""
    return {first: base & 0xFFFFFFFF, first + 1: base >> 32 | stride << 16, first + 2: records, first + 3: 0x27000}


def kinds(machine: Machine) -> list[FindingKind]:
    return [finding.kind for finding in machine.findings.ordered()]


def word(offset: int, memory: np.ndarray = KILOBYTE) -> int:
    return int(memory[offset : offset + 4].view(np.uint32)[0])


# ---- loads into registers, of every width


@pytest.mark.parametrize(("name", "count"), [("dword", 1), ("dwordx2", 2), ("dwordx3", 3), ("dwordx4", 4)])
@pytest.mark.parametrize("kind", ["global", "buffer"])
def test_words(name: str, count: int, kind: str) -> None:
    registers = "v4" if count == 1 else f"v[4:{3 + count}]"
    where = "v0, s[2:3] offset:16" if kind == "global" else "v0, s[8:11], 0 offen offset:16"
    v = {0: 8 * LANE} | {4 + i: 0 for i in range(count)}
    wave, machine = run(
        f"{kind}_load_{name} {registers}, {where}{WAIT}", v=v, s={2: ADDRESS, 3: 0} | resource(1024), memory=KILOBYTE
    )
    for place in range(count):
        assert vector(wave, 4 + place).tolist() == [word(16 + 8 * lane + 4 * place) for lane in range(64)]
    assert not kinds(machine)
    assert machine.counters.bytes[0].tolist() == [2 * 64 * 4 * count, 0, 0, 0]


NARROW = {
    "ubyte": lambda b, old: b[0],
    "sbyte": lambda b, old: (b[0] ^ 0x80) - 0x80 & 0xFFFFFFFF,
    "ushort": lambda b, old: b[0] | b[1] << 8,
    "sshort": lambda b, old: ((b[0] | b[1] << 8) ^ 0x8000) - 0x8000 & 0xFFFFFFFF,
    "short_d16": lambda b, old: old & 0xFFFF0000 | b[0] | b[1] << 8,
    "short_d16_hi": lambda b, old: old & 0xFFFF | (b[0] | b[1] << 8) << 16,
    "ubyte_d16": lambda b, old: old & 0xFFFF0000 | b[0],
    "ubyte_d16_hi": lambda b, old: old & 0xFFFF | b[0] << 16,
    "sbyte_d16": lambda b, old: old & 0xFFFF0000 | (b[0] ^ 0x80) - 0x80 & 0xFFFF,
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("kind", ["global", "buffer", "scratch"])
def test_narrow_loads(name: str, kind: str) -> None:
    where = {"global": "v0, s[2:3]", "buffer": "v0, s[8:11], 0 offen", "scratch": "v0, off"}[kind]
    fill = (
        ""
        if kind != "scratch"
        else "\n".join(f"scratch_store_byte v0, v{20 + i}, off offset:{i}" for i in range(2)) + "\n"
    )
    v = {
        0: 3 * LANE if kind != "scratch" else 2,
        4: 0xAABBCCDD,
        20: KILOBYTE[:64].astype(np.uint32),
        21: KILOBYTE[64:128].astype(np.uint32),
    }
    wave, machine = run(
        f"{fill}{kind}_load_{name} v4, {where}{WAIT}",
        v=v,
        s={2: ADDRESS, 3: 0} | resource(1024),
        memory=KILOBYTE,
        scratch=64,
    )
    pairs = [
        (KILOBYTE[3 * x], KILOBYTE[3 * x + 1]) if kind != "scratch" else (KILOBYTE[x], KILOBYTE[64 + x])
        for x in range(64)
    ]
    assert vector(wave, 4).tolist() == [NARROW[name](tuple(map(int, pair)), 0xAABBCCDD) for pair in pairs]
    assert not kinds(machine)


@pytest.mark.parametrize(
    ("name", "size", "shift"),
    [("byte", 1, 0), ("short", 2, 0), ("byte_d16_hi", 1, 16), ("short_d16_hi", 2, 16), ("dword", 4, 0)],
)
@pytest.mark.parametrize("kind", ["global", "buffer"])
def test_narrow_stores(name: str, size: int, shift: int, kind: str) -> None:
    memory = np.zeros(512, np.uint8)
    where = "v0, v4, s[2:3]" if kind == "global" else "v4, v0, s[8:11], 0 offen"
    values = (LANE * 0x01020304 + 0x10203040).astype(np.uint32)
    _, machine = run(
        f"{kind}_store_{name} {where}", v={0: 8 * LANE, 4: values}, s={2: ADDRESS, 3: 0} | resource(512), memory=memory
    )
    for lane in range(64):
        expected = (int(values[lane]) >> shift & (1 << 8 * size) - 1).to_bytes(size, "little")
        assert memory[8 * lane : 8 * lane + 8].tobytes() == expected.ljust(8, b"\0")
    assert kinds(machine) == [FindingKind.GLOBAL_OVERLAP]  # both workgroups of `run` store to the same place


def test_64_bit_addresses_and_negative_offsets() -> None:
    wave, machine = run(
        "global_load_dword v4, v[0:1], off offset:-4" + WAIT, v={0: ADDRESS + 4 + 4 * LANE, 1: 0, 4: 0}, memory=KILOBYTE
    )
    assert vector(wave, 4).tolist() == [word(4 * lane) for lane in range(64)]
    assert not kinds(machine)


def test_inactive_lanes_load_and_store_nothing() -> None:
    memory = KILOBYTE.copy()
    body = "global_load_dword v4, v0, s[2:3]\nglobal_store_dword v0, v5, s[2:3] offset:512" + WAIT
    wave, machine = run(
        body, v={0: 4 * LANE + 100000 * (LANE > 1), 4: 9, 5: 7}, s={2: ADDRESS, 3: 0}, memory=memory, exec_mask=0b11
    )
    assert vector(wave, 4)[:3].tolist() == [word(0), word(4), 9]
    assert (memory[:512] == KILOBYTE[:512]).all() and (memory[520:] == KILOBYTE[520:]).all()
    assert FindingKind.OUT_OF_BOUNDS not in kinds(machine)


@pytest.mark.parametrize(
    ("text", "count"), [("s_load_dword s4, s[2:3], 0x10", 1), ("s_load_dwordx4 s[4:7], s[2:3], 0x8", 4)]
)
def test_scalar_loads(text: str, count: int) -> None:
    wave, _ = run(text + WAIT, s={2: ADDRESS, 3: 0}, memory=KILOBYTE)
    assert [scalar(wave, 4 + i) for i in range(count)] == [
        word(int(text[-4:].strip(", "), 0) + 4 * i) for i in range(count)
    ]


def test_scalar_buffer_loads_give_zero_beyond_num_records() -> None:
    body = "s_buffer_load_dwordx4 s[4:7], s[8:11], 0x8\ns_buffer_load_dword s12, s[8:11], s13 offset:0x4"
    wave, machine = run(body + WAIT, s=resource(20) | {13: 8}, memory=KILOBYTE)
    assert [scalar(wave, 4 + i) for i in range(4)] == [word(8), word(12), word(16), 0]
    assert scalar(wave, 12) == word(12)
    assert not kinds(machine)


# ---- bounds


@pytest.mark.parametrize(
    "text", ["global_load_dword v4, v0, s[2:3]", "global_store_dword v0, v4, s[2:3]", "s_load_dword s4, s[2:3], 0x400"]
)
def test_accesses_outside_of_every_buffer_are_found(text: str) -> None:
    _, machine = run(text + WAIT, v={0: 1021 + 0 * LANE, 4: 0}, s={2: ADDRESS, 3: 0}, memory=KILOBYTE.copy())
    assert FindingKind.OUT_OF_BOUNDS in kinds(machine)


def test_a_buffer_load_beyond_num_records_gives_zero_word_by_word() -> None:
    wave, machine = run(
        "buffer_load_dwordx2 v[4:5], v0, s[8:11], 0 offen" + WAIT,
        v={0: 8 * LANE, 4: 1, 5: 1},
        s=resource(8 * 10 + 6),
        memory=KILOBYTE,
    )
    assert vector(wave, 4)[9:12].tolist() == [word(72), word(80), 0]
    assert vector(wave, 5)[9:11].tolist() == [word(76), 0]  # 6 bytes left of record 10: its second word is cut off
    assert not kinds(machine)


def test_a_buffer_store_beyond_num_records_is_dropped() -> None:
    memory = np.zeros(1024, np.uint8)
    run("buffer_store_short v4, v0, s[8:11], 0 offen", v={0: 2 * LANE, 4: 0xFFFF}, s=resource(21), memory=memory)
    assert memory.nonzero()[0].tolist() == list(range(20))


def test_num_records_beyond_the_tensor_are_found() -> None:
    _, machine = run(
        "buffer_load_dword v4, v0, s[8:11], 0 offen" + WAIT,
        v={0: 32 * LANE, 4: 0},
        s=resource(0xFFFFFFFF),
        memory=KILOBYTE,
    )
    (finding,) = machine.findings.ordered()
    assert finding.kind is FindingKind.OUT_OF_BOUNDS
    assert finding.occurrences == 2 * 32
    assert f"{ADDRESS + 1024:#x}" in finding.detail


def test_the_range_check_leaves_out_the_scalar_offset() -> None:
    wave, _ = run(
        "buffer_load_dword v4, v0, s[8:11], s6 offen" + WAIT,
        v={0: 4 * LANE, 4: 0},
        s=resource(8) | {6: 64},
        memory=KILOBYTE,
    )
    assert vector(wave, 4)[:3].tolist() == [word(64), word(68), 0]


def test_structured_buffers_are_checked_by_index() -> None:
    wave, _ = run(
        "buffer_load_dword v4, v0, s[8:11], 0 idxen offset:4" + WAIT,
        v={0: LANE, 4: 0},
        s=resource(3, stride=16),
        memory=KILOBYTE,
    )
    assert vector(wave, 4)[:4].tolist() == [word(4), word(20), word(36), 0]


# ---- LDS


@pytest.mark.parametrize(("name", "count"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_lds_words(name: str, count: int) -> None:
    data = {8 + i: 100 * i + LANE for i in range(count)}
    span = lambda first: f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"  # noqa: E731
    body = f"ds_write_{name} v0, {span(8)} offset:32\nds_read_{name} {span(20)}, v0 offset:32{WAIT}"
    wave, machine = run(body, v=data | {0: 16 * LANE} | {20 + i: 0 for i in range(count)}, lds=2048)
    for i in range(count):
        assert vector(wave, 20 + i).tolist() == (100 * i + LANE).tolist()
    assert not kinds(machine)


@pytest.mark.parametrize(
    ("store", "load", "expected"),
    [
        ("b8", "u8", 0xF2),
        ("b8", "i8", 0xFFFFFFF2),
        ("b16", "u16", 0xC1F2),
        ("b16", "i16", 0xFFFFC1F2),
        ("b16_d16_hi", "u16", 0x9180),
        ("b8_d16_hi", "u8", 0x80),
        ("b16", "u16_d16", 0xAAAAC1F2),
        ("b16", "u16_d16_hi", 0xC1F2BBBB),
        ("b8", "u8_d16", 0xAAAA00F2),
    ],
)
def test_narrow_lds_accesses(store: str, load: str, expected: int) -> None:
    body = f"ds_write_{store} v0, v1\nds_read_{load} v2, v0{WAIT}"
    wave, machine = run(body, v={0: 2 * LANE, 1: 0x9180C1F2, 2: 0xAAAABBBB}, lds=256)
    assert vector(wave, 2).tolist() == [expected] * 64
    assert not kinds(machine)


@pytest.mark.parametrize(
    ("suffix", "width", "unit"), [("2_b32", 1, 4), ("2_b64", 2, 8), ("2st64_b32", 1, 256), ("2st64_b64", 2, 512)]
)
def test_two_lds_accesses_at_once(suffix: str, width: int, unit: int) -> None:
    span = lambda first, n: f"v{first}" if n == 1 else f"v[{first}:{first + n - 1}]"  # noqa: E731
    body = (
        f"ds_write{suffix} v0, {span(8, width)}, {span(10, width)} offset0:1 offset1:3\n"
        f"ds_read{suffix} {span(20, 2 * width)}, v0 offset0:3 offset1:1{WAIT}\n"
    )
    wave, machine = run(
        body,
        v={0: 16 * LANE * unit // 4 % 4096, 8: LANE, 9: 100 + LANE, 10: 200 + LANE, 11: 300 + LANE}
        | {20 + i: 0 for i in range(4)},
        lds=65536,
        exec_mask=0xF,
    )
    expected = [200, 300, 0, 100] if width == 2 else [200, 0]
    assert [vector(wave, 20 + i)[3] - 3 for i in range(2 * width)] == expected
    assert machine.counters.bytes[0, 3] == 2 * 4 * 8 * width


@pytest.mark.parametrize(("bits", "per_lane"), [(16, 4), (8, 8)])
def test_transposing_reads(bits: int, per_lane: int) -> None:
    """16 lanes read rows of 16 elements: lane t gets column t of the rows of its group."""
    columns = 16
    elements = np.arange(64 * per_lane).reshape(4, per_lane, columns)  # [group, row, column], in the order of the bytes
    octets = elements.astype(f"<u{bits // 8}").view(np.uint8).reshape(64, 8)
    words = octets.copy().view(np.uint32)
    body = f"ds_write_b64 v0, v[2:3]\nds_read_b64_tr_b{bits} v[4:5], v0{WAIT}"
    wave, _ = run(body, v={0: 8 * LANE, 2: words[:, 0], 3: words[:, 1], 4: 0, 5: 0}, lds=512, arch="gfx950")
    got = np.stack([vector(wave, 4), vector(wave, 5)], axis=1).copy().view(f"<u{bits // 8}")
    for lane in range(64):
        assert got[lane].tolist() == [int(x) % (1 << bits) for x in elements[lane // 16, :, lane % 16]]


def test_lds_accesses_outside_are_found() -> None:
    _, machine = run("ds_write_b32 v0, v1\nds_read_b64 v[2:3], v0" + WAIT, v={0: 4 * LANE, 1: 0, 2: 0, 3: 0}, lds=256)
    (finding,) = machine.findings.ordered()
    assert (finding.kind, finding.occurrences) == (FindingKind.OUT_OF_BOUNDS, 2)
    assert "8 bytes at LDS address 0xfc" in finding.detail


@pytest.mark.parametrize("kind", ["buffer", "global"])
def test_copies_to_lds(kind: str) -> None:
    copy = {
        "buffer": "buffer_load_dword v0, s[8:11], 0 offen lds",
        "global": "global_load_lds_dword v0, s[2:3]",
    }[kind]
    body = f"{copy}\ns_waitcnt vmcnt(0)\nds_read_b32 v2, v1 offset:64{WAIT}"
    wave, machine = run(
        body,
        v={0: 4 * (63 - LANE), 1: 4 * LANE, 2: 0},
        s={2: ADDRESS, 3: 0, 124: 64} | resource(1024),
        memory=KILOBYTE,
        lds=512,
    )
    assert vector(wave, 2).tolist() == [word(4 * (63 - lane)) for lane in range(64)]
    assert not kinds(machine)
    assert machine.counters.bytes[0].tolist() == [512, 0, 0, 512]


@pytest.mark.parametrize(
    "copy", ["buffer_load_dword v0, s[8:11], 0 offen {}lds", "global_load_lds_dword v0, s[2:3] {}"]
)
def test_the_offset_of_a_copy_counts_in_both_memories(copy: str) -> None:
    body = f"{copy.format('offset:256 ')}\ns_waitcnt vmcnt(0)\nds_read_b32 v2, v0 offset:320{WAIT}"
    scalars = {2: ADDRESS, 3: 0, 124: 64} | resource(1024)
    wave, machine = run(body, v={0: 4 * LANE, 2: 0}, s=scalars, memory=KILOBYTE, lds=1024)
    assert vector(wave, 2).tolist() == [word(256 + 4 * lane) for lane in range(64)]
    assert not kinds(machine)


def test_copies_of_16_bytes() -> None:
    body = f"buffer_load_dwordx4 v0, s[8:11], 0 offen lds\ns_waitcnt vmcnt(0)\nds_read_b128 v[4:7], v0{WAIT}"
    v = {0: 16 * LANE} | {4 + i: 0 for i in range(4)}
    wave, _ = run(body, v=v, s={124: 0} | resource(1024), memory=KILOBYTE, lds=1024, arch="gfx950")
    for place in range(4):
        assert vector(wave, 4 + place).tolist() == [word(16 * lane + 4 * place) for lane in range(64)]


# ---- scratch


def test_scratch_is_a_lanes_own() -> None:
    body = f"scratch_store_dwordx2 off, v[0:1], s4 offset:8\nscratch_load_dwordx2 v[2:3], off, s4 offset:8{WAIT}"
    wave, machine = run(body, v={0: LANE, 1: 100 + LANE, 2: 0, 3: 0}, s={4: 16}, scratch=32)
    assert (vector(wave, 2).tolist(), vector(wave, 3).tolist()) == (LANE.tolist(), (100 + LANE).tolist())
    assert not kinds(machine)
    _, machine = run("scratch_load_dword v2, off, s4 offset:16", v={2: 0}, s={4: 16}, scratch=32)
    assert kinds(machine) == [FindingKind.OUT_OF_BOUNDS]
