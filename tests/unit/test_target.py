"""Device and arch files: contents that must hold, and the text of every refusal."""

import json
from pathlib import Path

import pytest

from kgen.errors.base import KgenError
from kgen.errors.target import DeviceFileMissingError, TargetFieldError, UnknownDeviceError
from kgen.target import Confidence, all_devices, list_devices, load_device, load_sources

GPUS = {"h100", "h100_pcie", "h100_nvl", "h200", "h200_nvl", "h20", "mi300x", "mi308x", "mi325x", "mi350x", "mi355x"}


def test_every_gpu_is_described() -> None:
    assert set(list_devices()) == GPUS
    assert {d.name: d.arch.isa for d in all_devices() if d.arch.backend == "flydsl"} == {
        "mi300x": "gfx942",
        "mi308x": "gfx942",
        "mi325x": "gfx942",
        "mi350x": "gfx950",
        "mi355x": "gfx950",
    }


@pytest.mark.parametrize("name", sorted(GPUS))
def test_numbers_agree_with_one_another(name: str) -> None:
    device = load_device(name)
    bf16, fp8 = device.dense_peak("bf16"), device.dense_peak("fp8_e4m3")
    assert bf16 and fp8 and bf16.unit == "TFLOP/s" and bf16.value > 0
    assert fp8.value == pytest.approx(2 * bf16.value, rel=0.01)  # dense, never the sparse figure
    per_cycle = device.rule_fields()["bf16_flops_per_cycle"]
    nominal = {"cdna3": 2048, "cdna4": 4096, "sm90a": 1024 if name == "h20" else 4096}[device.arch.name]
    assert per_cycle == pytest.approx(nominal, rel=0.01)


def test_every_source_is_registered_and_used() -> None:
    known = load_sources()
    used = {q.source for d in all_devices() for _, q in (*d.quantities, *d.arch.limits)}
    used |= {shape.source for d in all_devices() for shape in d.arch.instructions}
    assert used <= set(known)
    assert all(source.document and source.date and source.evidence for source in known.values())


def test_ridge_points_tell_the_h20_from_the_h200() -> None:
    def ridge(name: str) -> float:
        device = load_device(name)
        return device.value("dense_peak.bf16") / device.value("quantities.memory_bandwidth")

    assert round(ridge("h20")) == 37 and round(ridge("h200")) == 206


def test_low_confidence_decides_nothing_until_it_is_measured() -> None:
    h20 = load_device("h20")
    assert h20.quantity("quantities.compute_units") is not None
    assert h20.decisive("quantities.compute_units") is None
    probed = h20.with_measured(compute_units=72)
    found = probed.decisive("quantities.compute_units")
    assert probed.compute_units == 72 and found and (found.source, found.confidence) == ("measured", Confidence.HIGH)
    assert h20.compute_units == 78
    with pytest.raises(TargetFieldError, match="not a quantity"):
        h20.with_measured(sms=3)


def test_machine_code_proves_the_path() -> None:
    code = load_device("h200").arch.machine_code
    assert [code.mma_of(t) for t in ("bf16", "tf32", "int8", "fp8_e5m2", "fp64")] == [
        "HGMMA",
        "HGMMA",
        "IGMMA",
        "QGMMA",
        None,
    ]
    assert code.bulk_load == ("UTMALDG",) and (code.spill_load, code.spill_store) == (("LDL",), ("STL",))


def test_devices_are_json() -> None:
    found = json.loads(json.dumps(load_device("h20").to_json()))
    assert (found["arch"], found["isa"], found["backend"]) == ("sm90a", "sm_90a", "cutedsl")
    assert found["quantities"]["dense_peak.bf16"]["confidence"] == "low"


def test_missing_device_file_is_named() -> None:
    text = r"there is no device file no/such\.yaml\n  = name .*, or one of .*, h100, "
    with pytest.raises(DeviceFileMissingError, match=text):
        load_device("no/such.yaml")


def test_unknown_device_names_the_nearest() -> None:
    with pytest.raises(UnknownDeviceError, match="unknown device 'mi300'\n  = nearest known: mi300x; known: "):
        load_device("mi300")


GOOD = """\
title: Toy
quantities:
  compute_units: {value: 4, unit: count, source: recalled, confidence: low}
  dies: {value: 1, unit: count, source: recalled, confidence: low}
  clock: {value: 1.5, unit: GHz, source: recalled, confidence: low}
  memory: {value: 8, unit: GB, source: recalled, confidence: low}
  memory_bandwidth: {value: 0.5, unit: TB/s, source: recalled, confidence: low}
  l2: {value: 4, unit: MB, source: recalled, confidence: low}
dense_peak:
  bf16: {value: 10, unit: TFLOP/s, source: recalled, confidence: low}
"""
ONE = "{value: 1, unit: count, source: recalled, confidence: low}"
BAD = {
    ("unit: GHz", "unit: MHz"): "toy.yaml:5:29: MHz: wrong unit\n  = state it in GHz",
    ("value: 1.5", "value: fast"): "toy.yaml:5:18: fast: not a number\n  = write digits, e.g. 132 or 4.8",
    ("clock:", "clok:"): "toy.yaml:5:3: clok: unknown field\n  = nearest known: clock",
    ("source: recalled", "source: recaled"): "'recaled' is not in targets/sources.yaml\n  = nearest known: recalled",
    ("confidence: low", "confidence: lo"): "lo: unknown level\n  = one of high, medium, low",
    ("title: Toy\n", ""): "toy.yaml:1:1: title: missing\n  = required here: title, quantities, dense_peak",
    ("  l2: {value: 4, unit: MB, source: recalled, confidence: low}\n", ""): "toy.yaml:3:3: l2: missing",
    ("title: Toy", "title: [Toy]"): "toy.yaml:1:8: this value: not a text",
    ("{value: 10,", "{value: 10, value: 11,"): "value: given twice\n  = remove one",
    ("title: Toy", "title: 'Toy"): "not valid YAML: ",
    ("title: Toy", "title: Toy\x00"): "toy.yaml: not valid YAML: special characters are not allowed",
    ("title: Toy", "title: Toy\narch: sm90"): "toy.yaml:2:7: unknown arch 'sm90'\n  = known: cdna3, cdna4, sm90a",
    ("title: Toy", "title: Toy"): "toy.yaml: arch: missing\n  = say which arch the device has, e.g. `arch: sm90a`",
    ("title: Toy", f"title: Toy\narch: sm90a\nlimits: {{smem: {ONE}}}"): "unknown field\n  = nearest known: smem_",
    (
        "title: Toy",
        f"title: Toy\narch: sm90a\nlimits: {{warp_size: {ONE}}}",
    ): "count: wrong unit\n  = state it in threads",
    ("title: Toy", "title: Toy\narch: sm90a\nprobe: {date: 2026-11-30}"): "toy.yaml:3:8: gpu: missing",
    ("value: 4,", "value: 4, rounds: 3,"): "spread: not with its rounds\n  = e.g. spread: [4.24, 4.26], rounds: 24",
    ("value: 4,", "value: 4, rounds: 3, spread: [5, 4],"): "spread: not [low, high]",
}


@pytest.mark.parametrize("change", BAD)
def test_refusals_have_the_place(change: tuple[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "toy" / "devices"
    folder.mkdir(parents=True)
    path = folder / "toy.yaml"
    path.write_text(GOOD.replace(*change, 1), encoding="utf-8")
    with pytest.raises(KgenError) as caught:
        load_device(path)
    assert BAD[change] in str(caught.value)


def test_a_device_file_elsewhere_loads(tmp_path: Path) -> None:
    folder = tmp_path / "toy" / "devices"
    folder.mkdir(parents=True)
    (folder / "toy.yaml").write_text(GOOD, encoding="utf-8")
    from kgen.resources import targets_dir

    (tmp_path / "toy" / "arch.yaml").write_text((targets_dir() / "sm90a" / "arch.yaml").read_text(encoding="utf-8"))
    assert load_device(folder / "toy.yaml").compute_units == 4


PROBED = """\
arch: sm90a
probe: {date: 2026-11-30, gpu: "A GPU: new", driver: "580.1", torch: 2.13.0}
limits:
  smem_bytes_per_cta: {value: 167936, unit: B, source: probe, confidence: high}
measured:
  copy_bandwidth: {value: 0.4, unit: TB/s, source: probe, confidence: high, spread: [0.39, 0.41], rounds: 24}
"""


def test_a_device_file_may_lie_anywhere_and_state_limits_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(GOOD + PROBED, encoding="utf-8")
    toy, h200 = load_device(tmp_path / "toy.yaml"), load_device("h200")
    assert toy.arch.name == "sm90a" and toy.probe and (toy.probe.date, toy.probe.gpu) == ("2026-11-30", "A GPU: new")
    differ = {n for (n, mine), (_, theirs) in zip(toy.arch.limits, h200.arch.limits, strict=True) if mine != theirs}
    assert differ == {"smem_bytes_per_cta"} and toy.rule_fields()["smem_bytes_per_cta"] == 167936
    assert h200.arch.limit("smem_bytes_per_cta").value == 232448 and h200.probe is None
    copied = toy.quantity("measured.copy_bandwidth")
    assert (
        copied and copied.spread and (copied.spread.low, copied.spread.high, copied.spread.rounds) == (0.39, 0.41, 24)
    )
    shown = json.loads(json.dumps(toy.to_json()))
    assert shown["probe"]["driver"] == "580.1"
    assert shown["quantities"]["measured.copy_bandwidth"]["spread"] == {"low": 0.39, "high": 0.41, "rounds": 24}


@pytest.mark.parametrize("name", sorted(GPUS))
def test_the_rates_of_an_arch_times_units_and_clock_are_its_devices_peaks(name: str) -> None:
    device = load_device(name)
    rates = dict(device.arch.rates)
    for dtype in ("bf16", "fp16", "fp8", "int8"):
        peak = device.dense_peak(dtype)
        assert peak
        per_cycle = peak.value * 1e3 / (device.compute_units * device.value("quantities.clock"))
        cut = 4 if name == "h20" else 1
        assert per_cycle * cut == pytest.approx(rates[dtype].value, rel=0.01)
