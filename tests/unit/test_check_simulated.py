"""The parts of a simulated check without a DSL: what counts as on the device, what runs of a grid, the results."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from kgen.check.dynamic import RangeCounts, SimulatedKernel
from kgen.check.flydsl.assembly import Instruction
from kgen.check.flydsl.cases import LEAST_WORKGROUPS, SEVERAL_LAUNCHES, share_of, unwritten
from kgen.check.flydsl.device import DEVICE, SimulatedDevice
from kgen.check.flydsl.executor import Choice, Execution, chosen_workgroups
from kgen.check.flydsl.reference import AsOnGpu
from kgen.check.simulated import SimulatedCase, SimulatedResult
from kgen.check.simulated_table import simulated_table
from kgen.simulator.table import OPCODES
from kgen.target import load_device

STEADY = RangeCounts(
    executed=100, mfma=20, flops=4000, global_bytes=40, lds_bytes=160, bank_conflict_cycles=3, loads_in_flight=((8, 4),)
)
KERNEL = SimulatedKernel("case", "row", "gemm_0", 64, 16, replace(STEADY, executed=500), STEADY)
CASE = SimulatedCase("case", ("seed 0",), (), (), (KERNEL,), 100, 400, 1e-3, None)


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice(load_device("mi308x"))


def test_what_was_put_on_the_device_answers_as_a_gpu_tensor_does(device: SimulatedDevice) -> None:
    x, host = torch.zeros(4, 6), torch.zeros(3)
    device.put(x)
    with device.active():
        assert x.is_cuda and not x.is_cpu and x.device == DEVICE and x.get_device() == 0
        assert x.t().is_cuda and (x + 1).is_cuda and x[1:].device == DEVICE and torch.empty_like(x).is_cuda
        assert not host.is_cuda and host.device.type == "cpu"
        assert torch.empty(2, device=x.device).is_cuda and torch.zeros(2, device="cuda").is_cuda
        assert not torch.empty(2).is_cuda and torch.empty(2, device="meta").device.type == "meta"
        assert x.new_zeros(3, device="cpu").device.type == "cpu"
    assert not x.is_cuda and x.device.type == "cpu"


def test_torch_describes_the_package_s_device(device: SimulatedDevice) -> None:
    with device.active():
        properties = torch.cuda.get_device_properties(DEVICE)
        assert (properties.multi_processor_count, properties.gcnArchName) == (80, "gfx942")
        assert torch.cuda.is_available() and torch.cuda.current_device() == 0
        with torch.cuda.device(DEVICE):
            assert torch.cuda.current_stream().cuda_stream == 0
    assert not torch.cuda.is_available()


def test_kernels_may_touch_what_the_device_holds_to_the_byte(device: SimulatedDevice) -> None:
    memory = torch.arange(64, dtype=torch.uint8)
    padded = memory.view(8, 8)[1:7, :5]
    device.put(padded)
    (buffer,) = device.buffers()
    assert (buffer.address, buffer.data.size) == (padded.data_ptr(), 5 * 8 + 5)
    buffer.data[0] = 200
    assert padded[0, 0] == 200
    device.put(memory[50:60])
    assert [b.address - memory.data_ptr() for b in device.buffers()] == [8]  # they share memory: one buffer
    assert device.buffers()[0].end == memory.data_ptr() + 60
    device.clear()
    assert device.buffers() == ()


def test_of_a_large_grid_the_corners_run_and_what_lies_between() -> None:
    assert chosen_workgroups((4, 4, 1), None) is None
    assert chosen_workgroups((4, 4, 1), 16) is None
    chosen = chosen_workgroups((10, 20, 1), 12)
    assert chosen is not None and len(chosen) == len(set(chosen)) <= 12
    assert {(0, 0, 0), (9, 0, 0), (0, 19, 0), (9, 19, 0)} <= set(chosen)
    assert all(0 <= x < 10 and 0 <= y < 20 and z == 0 for x, y, z in chosen)


def launches(*workgroups: int) -> list[Execution]:
    return [Execution("row", "k", count, 0, None) for count in workgroups]


@pytest.mark.parametrize(("shape", "folds"), [((2, 4), False), ((2, 4, 1, 1), False), ((2, 4, 5), True)])
def test_a_group_norm_folds_its_weight_where_a_channel_has_several_elements(
    shape: tuple[int, ...], folds: bool
) -> None:
    x, weight, bias = torch.randn(shape, generator=torch.Generator().manual_seed(1)), torch.ones(4), torch.zeros(4)
    weight[3] = float("inf")
    plain = torch.nn.functional.group_norm(x, 2, weight, bias)
    with AsOnGpu():
        found = torch.nn.functional.group_norm(x, 2, weight, bias)
    assert plain.isnan().any() and found.isnan().any() == folds
    assert torch.allclose(plain[:, :3], found[:, :3]) and not found[:, 3].isfinite().any()


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("mask", ["none", "causal", "given"])
def test_attention_to_an_infinite_score_is_no_number(mask: str, heads: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, heads, 9, 16, generator=generator)
    k, v = (torch.randn(1, 2, 9, 16, generator=generator) for _ in range(2))
    given = torch.zeros(9, 9).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    how = {"none": {}, "causal": {"is_causal": True}, "given": {"attn_mask": given}}[mask]
    attention = torch.nn.functional.scaled_dot_product_attention
    before = attention(q, k, v, **how, enable_gqa=True)
    q[0, -1, :, 0], q[0, -1, -1, 0], k[0, -1, 0, 0] = -1.0, 1.0, torch.inf
    with AsOnGpu():
        found = attention(q, k, v, **how, enable_gqa=True)
    assert found[0, -1, -1].isnan().all()  # infinite less infinite
    assert found[0, -1, 1].isfinite().all()  # less infinite: as if there were no such key
    assert mask == "none" or torch.allclose(found[0, -1, 1], v[0, -1, 1], atol=1e-5)
    assert torch.allclose(found[0, 0], before[0, 0], atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_a_number_divides_as_the_product_with_its_inverse(dtype: torch.dtype) -> None:
    x = torch.arange(1, 2000).to(dtype)
    plain, kind = x / 127, torch.float32 if dtype is torch.int32 else dtype
    with AsOnGpu():
        found = x / 127
    wide = torch.promote_types(kind, torch.float32)
    inverse = torch.ones((), dtype=wide) / torch.tensor(127, dtype=wide)
    assert found.dtype is plain.dtype is kind and torch.equal(found, (x.to(wide) * inverse).to(kind))
    assert not torch.equal(found, plain) or dtype is torch.bfloat16
    with AsOnGpu():
        assert torch.equal(x / x, torch.ones_like(plain))


def test_a_loss_of_many_rows_is_summed_in_fp32() -> None:
    logits, classes = torch.zeros(8192, 1000, dtype=torch.bfloat16), torch.zeros(8192, dtype=torch.int64)
    exact = torch.nn.functional.cross_entropy(logits.float(), classes)
    with AsOnGpu():
        found = torch.nn.functional.cross_entropy(logits, classes)
    assert found.dtype is torch.bfloat16
    assert abs(found.float() / exact - 1) < 2**-8


def test_how_much_of_a_call_runs() -> None:
    assert share_of(1.0, launches(1000)) is None
    assert share_of(4.0, launches(1000)) == 250
    assert share_of(1000.0, launches(1000)) == LEAST_WORKGROUPS
    assert share_of(SEVERAL_LAUNCHES, launches(100, 100)) is None
    assert "2 launches that depend on one another" in str(share_of(SEVERAL_LAUNCHES + 1, launches(100, 100)))
    assert share_of(100.0, []) is None


def test_of_launches_that_depend_on_one_another_the_first_runs() -> None:
    choice = Choice(most_launches=1)
    assert [choice.leaves_out(launch) for launch in range(3)] == [False, True, True]
    assert not Choice().leaves_out(5) and Choice(is_rehearsal=True).leaves_out(0)


def test_an_element_was_not_written_where_each_call_left_its_poison() -> None:
    calls = [torch.tensor([[255, 255], [255, 1], [255, 255]], dtype=torch.uint8)]
    calls.append(torch.tensor([[127, 127], [127, 127], [3, 127]], dtype=torch.uint8))
    assert unwritten(calls, (0xFF, 0x7F)).tolist() == [True, False, False]


def test_units_of_the_assembly_are_the_simulator_s() -> None:
    wrong = {name: (Instruction(name, "").unit, o.unit.value) for name, o in OPCODES.items()}
    assert {name: pair for name, pair in wrong.items() if pair[0] != pair[1]} == {}


def test_counts_state_what_does_not_depend_on_the_grid() -> None:
    value = json.loads(json.dumps(KERNEL.to_json()))["steady"]
    assert (value["mfma_share"], value["others_per_mfma"]) == (0.2, 4.0)
    assert (value["global_bytes_per_flop"], value["lds_bytes_per_flop"]) == (0.01, 0.04)
    none = RangeCounts(10, 0, 0, 40, 0, 0)
    assert none.others_per_mfma is None and none.per_flop(1) is None and none.mfma_share == 0.0


def test_an_event_of_the_process_becomes_the_same_case() -> None:
    assert SimulatedCase.from_json(json.loads(json.dumps(asdict(CASE)))) == CASE
    assert [CASE.status, replace(CASE, failures=("no",)).status] == ["PASS", "FAIL"]
    large = replace(CASE, not_simulated="large")
    assert [large.status, replace(large, kernels=()).status] == ["not compared", "not simulated"]
    assert json.dumps(replace(CASE, rel_err=float("inf")).to_json(), allow_nan=False)


def shown(**changes: Any) -> str:
    result = SimulatedResult(Path("p"), "mi300x", (CASE,), (), (), 2.0)
    console = Console(width=220, file=io.StringIO(), record=True)
    console.print(simulated_table(replace(result, **changes)))
    return console.export_text()


def test_the_table_says_that_nothing_was_timed_and_what_was_compared() -> None:
    text = shown(estimates_us=(("row", 12.5),), notes=("part",))
    for part in ("simulated, not timed", "100 of 400", "16 of 64", "20.0%", "8 to 4", "3 cycles", "note: part"):
        assert part in text
    assert "the plan's estimate, no measurement: row takes 12.5 us" in text and "ok: right in the simulator" in text
    large = shown(cases=(replace(CASE, not_simulated="large"),))
    assert "not simulated, not timed" in large and "no result was compared" in large and "ok:" not in large
    many = shown(failures=tuple(f"failure {i}" for i in range(30)))
    assert "FAILED: 30 failures" in many and "- failure 11" in many and "- failure 12" not in many and "18 more" in many
