"""s_waitcnt: what is used or overwritten too early is found, what has been waited for is not."""

import numpy as np
import pytest
from isa_runs import ADDRESS, run
from test_simulator_memory import resource

from kgen.simulator import FindingKind

LANE = np.arange(64)
MEMORY = np.zeros(1024, np.uint8)


def missing(body: str, **more: object) -> list[str]:
    """Return the details of the missing waits that a piece of code has."""
    registers = dict.fromkeys(range(16), 0) | {0: 4 * LANE}
    scalars = {2: ADDRESS, 3: 0, 124: 0} | resource(1024)
    _, machine = run(body, v=registers, s=scalars, memory=MEMORY, lds=1024, **more)  # type: ignore[arg-type]
    found = machine.findings.ordered()
    assert {finding.kind for finding in found} <= {FindingKind.MISSING_WAIT}, found
    return [f"{finding.line - 3}: {finding.detail}" for finding in found]


LOADS = {
    "global_load_dword v4, v0, s[2:3]": "vmcnt",
    "buffer_load_dword v4, v0, s[8:11], 0 offen": "vmcnt",
    "ds_bpermute_b32 v4, v0, v1": "lgkmcnt",
    "ds_swizzle_b32 v4, v0 offset:swizzle(SWAP,1)": "lgkmcnt",
    "global_atomic_add v4, v0, v1, s[2:3] sc0": "vmcnt",
}


@pytest.mark.parametrize("load", LOADS)
def test_a_result_is_read_too_early(load: str) -> None:
    counter = LOADS[load]
    assert missing(f"{load}\nv_mov_b32_e32 v5, v4") == [f"2: reads v4 while a load to it is in flight ({counter})"]
    assert not missing(f"{load}\ns_waitcnt {counter}(0)\nv_mov_b32_e32 v5, v4")
    other = "lgkmcnt" if counter == "vmcnt" else "vmcnt"
    assert missing(f"{load}\ns_waitcnt {other}(0)\nv_mov_b32_e32 v5, v4")


@pytest.mark.parametrize("load", LOADS)
def test_the_place_of_a_result_is_overwritten_too_early(load: str) -> None:
    (detail,) = missing(f"{load}\nv_mov_b32_e32 v4, 0")
    assert detail.startswith("2: overwrites v4")


def test_a_scalar_load_needs_a_wait_for_zero() -> None:
    body = "s_load_dword s4, s[2:3], 0x0\nds_swizzle_b32 v4, v0 offset:swizzle(SWAP,1)\n{}\ns_mov_b32 s5, s4"
    assert not missing(body.format("s_waitcnt lgkmcnt(0)"))
    assert missing(body.format("s_waitcnt lgkmcnt(1)")) == [
        "4: reads s4 while a load to it is in flight (lgkmcnt (scalar load))"
    ]


def test_vector_operations_complete_in_order() -> None:
    loads = "\n".join(f"global_load_dword v{4 + i}, v0, s[2:3]" for i in range(3))
    assert not missing(f"{loads}\ns_waitcnt vmcnt(1)\nv_add_u32_e32 v8, v4, v5")
    assert len(missing(f"{loads}\ns_waitcnt vmcnt(1)\nv_add_u32_e32 v8, v4, v6")) == 1


def test_stores_count_as_vector_operations() -> None:
    body = "global_load_dword v4, v0, s[2:3]\nbuffer_load_dword v6, v0, s[8:11], 0 offen\n{}\nv_mov_b32_e32 v5, v4"
    assert not missing(body.format("s_waitcnt vmcnt(1)"))
    assert missing(body.format("s_waitcnt vmcnt(2)"))


def test_loads_of_one_queue_may_follow_each_other_over_one_register() -> None:
    assert not missing(
        "buffer_load_short_d16 v4, v0, s[8:11], 0 offen\nbuffer_load_short_d16_hi v4, v0, s[8:11], 0 offen"
    )
    assert missing("buffer_load_dword v4, v0, s[8:11], 0 offen\nds_swizzle_b32 v4, v0 offset:swizzle(SWAP,1)")


def test_an_address_is_used_too_early() -> None:
    assert missing("global_load_dword v4, v0, s[2:3]\nglobal_load_dword v5, v4, s[2:3]\ns_waitcnt vmcnt(0)")[
        0
    ].startswith("2: reads v4")


def test_a_missing_wait_is_found_once_for_each_place() -> None:
    body = "global_load_dwordx2 v[4:5], v0, s[2:3]\nv_mov_b32_e32 v6, v4\nv_mov_b32_e32 v7, v4\nv_mov_b32_e32 v8, v5"
    assert [detail[:13] for detail in missing(body)] == ["2: reads v4 w", "4: reads v5 w"]


COPY = "buffer_load_dword v0, s[8:11], 0 offen lds"


def test_lds_is_read_while_a_copy_to_it_is_in_flight() -> None:
    assert "LDS address 0x0 while an asynchronous copy" in missing(f"{COPY}\nds_read_b32 v4, v0")[0]
    assert not missing(f"{COPY}\ns_waitcnt vmcnt(0)\nds_read_b32 v4, v0")
    assert not missing(f"{COPY}\nds_write_b32 v0, v1 offset:512\nds_read_b32 v4, v0 offset:512")


def test_lds_is_overwritten_while_a_copy_to_it_is_in_flight() -> None:
    assert missing(f"{COPY}\nds_write_b32 v0, v1")[0].startswith("2: overwrites LDS address 0x0")


def test_copies_are_waited_for_in_order() -> None:
    two = f"{COPY}\ns_mov_b32 m0, 0x100\n{COPY}\n"
    assert not missing(f"{two}s_waitcnt vmcnt(1)\nds_read_b32 v4, v0")
    assert missing(f"{two}s_waitcnt vmcnt(1)\nds_read_b32 v4, v0 offset:256")


def test_what_is_in_flight_is_recorded_at_each_wait() -> None:
    body = (
        "\n".join(f"global_load_dword v{4 + i}, v0, s[2:3]" for i in range(3))
        + "\ns_waitcnt vmcnt(1)\ns_waitcnt lgkmcnt(0)"
    )
    _, machine = run(body, v=dict.fromkeys(range(8), 0), s={2: ADDRESS, 3: 0}, memory=MEMORY)
    assert machine.counters.in_flight[3].tolist() == [3, 1, 0, 0]
    assert machine.counters.in_flight[4].tolist() == [1, 1, 0, 0]
