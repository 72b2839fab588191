"""A device file from facts and measurements: its figures and their formulas, what is taken over, what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest
from probe_machine import H20, H200, MI300X, events_of, measured

from kgen.errors.probe import DriverSaysTooLittleError, ProbedIsaError
from kgen.probe.compare import differences, shipped_of
from kgen.probe.describe import Described, arch_of, describe
from kgen.probe.driver import Facts
from kgen.probe.measure import Measurement, measurement_of
from kgen.probe.text import device_text
from kgen.target import UNITS, Confidence, Device, all_arches, all_devices, load_device

DATE = "2026-11-30"


def described(facts: Facts = H200, found: Measurement | None = None) -> Described:
    arch = arch_of(facts, all_arches())
    return describe(facts, measured(facts) if found is None else found, arch, all_devices(), DATE)


def loaded(made: Described, folder: Path, name: str = "probed.yaml") -> Device:
    (folder / name).write_text(device_text(made), encoding="utf-8")
    return load_device(folder / name)


def test_a_written_file_loads_to_what_was_described(tmp_path: Path) -> None:
    made = described()
    device = loaded(made, tmp_path)
    assert dict(device.quantities) == dict(made.quantities)
    limits = {name: quantity for name, quantity in device.arch.limits if quantity.source == "probe"}
    assert limits == dict(made.limits) and len(limits) == 7
    assert (device.probe, device.title, device.arch.name) == (made.probe, "NVIDIA H200", "sm90a")
    assert device.probe and (device.probe.date, device.probe.driver) == (DATE, "580.95.05, CUDA 13.0")


def test_every_figure_has_its_source_and_the_file_lacks_no_constant_of_the_cost_model(tmp_path: Path) -> None:
    device = loaded(described(), tmp_path)
    assert {q.source for _, q in device.quantities} == {"probe", "carried_over", "derived", "hopper_tuning_guide"}
    have = {name for name, _ in device.quantities}
    assert {f"fitted.{name}" for name in UNITS["fitted"]} <= have
    for name, quantity in device.quantities:
        if quantity.source == "carried_over":
            assert quantity.confidence is Confidence.LOW and quantity.note.startswith("of the h200"), name


def test_peaks_are_the_archs_rates_at_the_drivers_clock(tmp_path: Path) -> None:
    device = loaded(described(), tmp_path)
    assert device.value("dense_peak.bf16") == pytest.approx(4096 * 132 * 1.98e-3, rel=1e-3)
    assert device.value("dense_peak.int8") == pytest.approx(2 * device.value("dense_peak.bf16"), rel=1e-3)
    assert device.value("quantities.memory_bandwidth") == pytest.approx(4.917, rel=1e-3)
    assert device.rule_fields()["bf16_flops_per_cycle"] == 4096 and device.rule_fields()["int8_flops_per_cycle"] == 8192
    peak = device.quantity("dense_peak.bf16")
    assert peak and peak.note == "4096 FLOP/clk [lockwood_h100] x units x clock" and peak.confidence == "medium"


def test_what_a_plan_needs_and_no_driver_says_is_taken_over_or_derived(tmp_path: Path) -> None:
    device = loaded(described(), tmp_path)
    assert device.value("dense_peak.fp32_planes") == pytest.approx(device.value("dense_peak.fp16") / 3, rel=1e-3)
    assert device.value("quantities.clusters_of_8") == load_device("h200").value("quantities.clusters_of_8")
    other = loaded(described(replace(H200, compute_units=120)), tmp_path, "other.yaml")
    assert other.quantity("quantities.clusters_of_8") is None and other.quantity("quantities.gpcs") is not None


def test_what_was_measured_is_in_the_file_with_its_spread(tmp_path: Path) -> None:
    device = loaded(described(), tmp_path)
    copy, rate = device.quantity("measured.copy_bandwidth"), device.quantity("measured.bf16")
    assert copy and copy.value == pytest.approx(4.25, rel=1e-3) and copy.note == "the best of 2048 MiB"
    assert copy.spread and copy.spread.low < copy.value < copy.spread.high and copy.spread.rounds == 24
    assert rate and rate.value == pytest.approx(727.9, rel=1e-3) and rate.note == "8192x4096x14336"
    assert device.value("measured.launch") == 1.2
    # 20 MiB more in 3.5 us more
    cached = device.quantity("measured.l2_copy_bandwidth")
    assert cached and cached.value == pytest.approx(20 * 2**20 / 3.5e6, rel=1e-3) and cached.confidence == "medium"
    sustained = device.quantity("measured.sustained_mma")
    assert sustained and "the power limit held the clock in 97% of the readings" in sustained.note
    efficiency = device.quantity("fitted.mma_efficiency")
    assert efficiency and efficiency.source == "probe"
    assert efficiency.value == pytest.approx(0.98 * 727.9 / (4096 * 132 * 1.98e-3), rel=2e-3)


def test_a_cut_of_the_tensor_cores_is_seen_and_low_efficiency_is_none(tmp_path: Path) -> None:
    rates = {"bf16": 139.0, "fp16": 139.0, "tf32": 69.0, "fp8": 270.0, "int8": 200.0, "fp32": 36.0}
    cut = loaded(described(H20, measured(H20, copy=3.4, rates=rates, mhz=1900.0, capped=0.0)), tmp_path)
    assert cut.rule_fields()["bf16_flops_per_cycle"] == 1024  # an H20 multiplies at a quarter
    assert cut.rule_fields()["int8_flops_per_cycle"] == 2048 and cut.rule_fields()["fp32_flops_per_cycle"] == 256
    note = dict(described(H20, measured(H20, copy=3.4, rates=rates, mhz=1900.0)).quantities)["dense_peak.bf16"].note
    assert note.startswith("4096 / 4 FLOP/clk") and "1/4 of the arch's rate" in note
    # int8 of the H200 reaches half of its rate, and the other types show that nothing is cut
    assert loaded(described(), tmp_path, "h.yaml").rule_fields()["int8_flops_per_cycle"] == 8192


def test_without_a_clock_reading_no_cut_is_guessed() -> None:
    slow = {"bf16": 139.0, "fp32": 36.0}
    made = dict(described(H20, measured(H20, copy=3.4, rates=slow, mhz=None, capped=None)).quantities)
    peak = made["dense_peak.bf16"]
    assert peak.confidence is Confidence.LOW and "no clock was read meanwhile" in peak.note
    assert peak.value == pytest.approx(4096 * 78 * 1.98e-3, rel=1e-3)
    assert "measured.sustained_clock" not in made


def test_an_mi300x_has_four_transfers_a_clock_and_its_dies_from_the_driver(tmp_path: Path) -> None:
    rates = {"bf16": 640.0, "fp16": 620.0, "tf32": 130.0, "fp8": 1200.0, "int8": 1100.0, "fp32": 120.0}
    made = described(MI300X, measured(MI300X, copy=4.1, rates=rates, mhz=1300.0))
    device = loaded(made, tmp_path)
    bandwidth = device.quantity("quantities.memory_bandwidth")
    assert bandwidth and bandwidth.value == pytest.approx(5.325, rel=1e-3) and "4 transfers" in bandwidth.note
    assert device.value("quantities.dies") == 8 and device.value("quantities.l2") == 32
    assert device.value("quantities.last_level_cache") == 256 and made.nearest == "mi300x"
    assert device.rule_fields()["bf16_flops_per_cycle"] == 2048
    reasons = {item.name: item.reason for item in made.missing}
    assert "did not run on tensor cores" in reasons["measured.tf32"] and "dense_peak.tf32" in reasons
    assert "L2 each" in reasons["measured.l2_copy_bandwidth"]


def test_memory_of_which_the_driver_says_nothing_is_as_fast_as_was_measured() -> None:
    facts = replace(H200, memory_clock_mhz=None)
    found = dict(described(facts).quantities)["quantities.memory_bandwidth"]
    assert found.value == pytest.approx(4.25, rel=1e-3) and found.confidence is Confidence.LOW
    nothing = measurement_of([event for event in events_of() if "bandwidth" not in event.get("quantity", "")])
    with pytest.raises(DriverSaysTooLittleError, match="does not say clock and width of its memory"):
        described(facts, nothing)


@pytest.mark.parametrize(("field", "what"), [("clock_mhz", "its clock"), ("l2_bytes", "the size of all its L2")])
def test_no_file_without_what_every_device_has(field: str, what: str) -> None:
    with pytest.raises(DriverSaysTooLittleError, match=f"NVIDIA H200 .* does not say {what}\n  = write the device"):
        described(replace(H200, **{field: None}))


def test_a_rate_above_its_peak_is_said_and_makes_none() -> None:
    made = described(found=measured(rates={"bf16": 1200.0, "fp32": 50.0}))
    assert "dense_peak.bf16" not in dict(made.quantities)
    reasons = {item.name: item.reason for item in made.missing}
    assert reasons["dense_peak.bf16"] == "1200 TFLOP/s were measured, above 1070.53"
    assert reasons["dense_peak.fp64"].startswith("no product of it was measured")


def test_what_was_skipped_is_missing_with_its_reason() -> None:
    skipped = {"event": "skipped", "quantity": "fp8", "reason": "RuntimeError: not built with it"}
    events = [event for event in events_of() if event.get("quantity") != "fp8"]
    made = described(found=measurement_of([*events, skipped]))
    assert {m.name: m.reason for m in made.missing}["measured.fp8"] == "RuntimeError: not built with it"
    assert "dense_peak.fp8" not in dict(made.quantities)


def test_noise_costs_confidence() -> None:
    events = events_of()
    for event in events:
        if event.get("quantity") == "copy_bandwidth":
            event["us"] = [us * (1.3 if place % 2 else 1) for place, us in enumerate(event["us"])]
    assert dict(described(found=measurement_of(events)).quantities)["measured.copy_bandwidth"].confidence == "low"


def test_shares_of_the_memory_move_with_what_copies_reach_of_it() -> None:
    """Of a device whose copy was measured, the absolute bandwidth of the model's kernels stays in proportion."""
    twin = dict(described().quantities)
    h200 = load_device("h200")
    known = replace(h200, quantities=(*h200.quantities, ("measured.copy_bandwidth", twin["measured.copy_bandwidth"])))
    made = describe(H200, measured(), known.arch, [known], DATE)
    found = dict(made.quantities)
    share = found["fitted.loop_efficiency"]
    assert share.value * 4.917 == pytest.approx(0.93 * 4.8, rel=2e-3)
    assert share.note == "of the h200 (0.93) x the share of the peak that copies reach"
    assert found["fitted.l2_bandwidth"].value == pytest.approx(10.5, rel=1e-3)
    assert found["fitted.unit_lanes"] == h200.quantity("fitted.unit_lanes")  # a document's, of the arch
    half = dict(describe(replace(H200, compute_units=66), measured(), known.arch, [known], DATE).quantities)
    assert half["fitted.l2_bandwidth"].value == pytest.approx(5.25, rel=1e-3)


def test_with_no_kin_nothing_is_taken_over() -> None:
    made = describe(H200, measured(), load_device("h200").arch, [load_device("mi300x")], DATE)
    assert made.nearest is None and {m.name for m in made.missing} >= {"fitted"}
    assert not any(name.startswith("fitted.") for name, _ in made.quantities)


def test_the_arch_follows_from_the_isa_alone() -> None:
    assert arch_of(replace(H200, name="A potato"), all_arches()).name == "sm90a"
    assert arch_of(replace(MI300X, isa="gfx950"), all_arches()).name == "cdna4"
    with pytest.raises(ProbedIsaError, match=r"NVIDIA B200 is sm_100, and targets/ has no arch .*: gfx942, gfx950, sm"):
        arch_of(replace(H200, name="NVIDIA B200", isa="sm_100"), all_arches())


def test_the_name_decides_no_figure() -> None:
    ours, other = described(), described(replace(H200, name="NVIDIA H20"), measured())
    assert ours.quantities == other.quantities and ours.limits == other.limits


@pytest.mark.parametrize(
    ("gpu", "isa", "device"),
    [
        ("NVIDIA H200", "sm_90", "h200"),
        ("NVIDIA H200 NVL", "sm_90", "h200_nvl"),
        ("NVIDIA H100 80GB HBM3", "sm_90", "h100"),
        ("NVIDIA H100 PCIe", "sm_90", "h100_pcie"),
        ("NVIDIA H20", "sm_90", "h20"),
        ("AMD Instinct MI300X", "gfx942", "mi300x"),
        ("NVIDIA H800", "sm_90", None),
        ("NVIDIA H200", "sm_100", None),
    ],
)
def test_a_name_finds_the_shipped_file(gpu: str, isa: str, device: str | None) -> None:
    found = shipped_of(gpu, isa, all_devices())
    assert (None if found is None else found.name) == device


def test_differences_from_the_shipped_file(tmp_path: Path) -> None:
    probed = loaded(described(), tmp_path)
    found = {d.name: d for d in differences(load_device("h200"), probed)}
    clock = found["quantities.clock"]
    assert (clock.shipped, clock.probed, clock.unit) == (1.83, 1.98, "GHz")
    assert clock.percent == pytest.approx(8.2, abs=0.01) and clock.to_json()["confidence"] == "medium"
    assert "quantities.l2" not in found and "quantities.compute_units" not in found and "limits.warp_size" not in found
    assert found["dense_peak.fp64"].probed is None and found["dense_peak.fp64"].percent is None
    assert found["measured.tf32"].shipped == load_device("h200").value("measured.tf32")
    nowhere = differences(load_device("h20"), probed)  # what nobody measured there
    assert not any(d.name.startswith("measured.") for d in nowhere)
    assert differences(probed, probed) == ()
    mig = loaded(described(replace(H200, limits=(("smem_bytes_per_cta", 167936),))), tmp_path, "small.yaml")
    other = {d.name: d for d in differences(load_device("h200"), mig)}["limits.smem_bytes_per_cta"]
    assert (other.shipped, other.probed) == (232448, 167936)
