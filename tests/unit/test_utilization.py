"""Utilization: figures against hand arithmetic, the peaks of the device files, and what is no speed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.bench import Amounts, Grid, Utilization, utilization
from kgen.bench.expression import amount
from kgen.bench.utilization import grid_waves
from kgen.errors.bench import AmountError, ExpressionError, UnknownDtypeError
from kgen.target import load_device

N = 4096
GEMM = Amounts(2 * N**3, 3 * N * N * 2, 200.0)


def found(device: str = "h200", dtype: str = "bf16", amounts: Amounts = GEMM, grid: Grid | None = None) -> Utilization:
    return utilization(load_device(device), dtype, amounts, grid)


def test_a_gemm_on_the_h200() -> None:
    result = found()
    shown = result.to_json()
    assert shown["tflops"] == pytest.approx(687.19, abs=0.01)
    assert shown["bandwidth_gbps"] == pytest.approx(503.32, abs=0.01)
    assert shown["tflops_peak_utilization_pct"] == pytest.approx(69.48, abs=0.01)
    assert shown["bandwidth_peak_utilization_pct"] == pytest.approx(10.49, abs=0.01)
    assert shown["bound"] == "compute_bound" and shown["roofline_us"] == pytest.approx(138.97, abs=0.01)
    assert shown["dense_peak"]["source"] == "uw_h200" and shown["dense_peak"]["confidence"] == "medium"
    assert set(shown["sources"]) == {"uw_h200", "aiwiki_h200"} and result.ok and not result.notes


def test_few_flops_a_byte_are_memory_bound() -> None:
    result = found(amounts=Amounts(1e9, 4.8e9, 2000.0))
    assert result.bound == "memory_bound" and result.memory.percent == pytest.approx(50)
    assert result.roofline_us == pytest.approx(1000)


@pytest.mark.parametrize(
    ("amounts", "name"),
    [(Amounts(2e12, 1e9, 2000.0), "the dense bf16 peak"), (Amounts(1e9, 9.7e9, 2000.0), "the memory bandwidth")],
)
def test_above_the_roofline_is_a_measurement_error_and_no_speed(amounts: Amounts, name: str) -> None:
    result = found(amounts=amounts)
    assert not result.ok and result.measurement_error and f"% of {name} (" in result.measurement_error
    shown = result.to_json()
    assert [shown[key] for key in ("tflops", "bandwidth_gbps", "tflops_peak_utilization_pct")] == [None] * 3


def test_exactly_the_peak_is_no_error() -> None:
    assert found(amounts=Amounts(989e6, 0, 1.0)).compute.percent == pytest.approx(100)
    assert found(amounts=Amounts(989e6, 0, 1.0)).ok
    assert not found(amounts=Amounts(989.5e6, 0, 1.0)).ok


def test_peaks_of_low_confidence_are_shown_and_decide_nothing() -> None:
    slow, fast = (found("h20", amounts=Amounts(GEMM.flops, GEMM.bytes, time)) for time in (2000.0, 200.0))
    for result in (slow, fast):
        assert result.ok and result.bound is None and result.nearest_limit == "compute_bound"
        assert result.compute.peak is not None and result.compute.peak.confidence == "low" and len(result.notes) == 2
    assert "it decides nothing" in slow.notes[0] and "the peak or the measurement is wrong" in fast.notes[0]


def test_a_trusted_bandwidth_decides_where_the_peak_does_not() -> None:
    assert found("mi355x", "fp4", Amounts(1e9, 9e9, 1000.0)).measurement_error
    above_peak = found("mi355x", "fp4", Amounts(11e9, 1, 1.0))
    assert above_peak.ok and above_peak.bound is None and above_peak.nearest_limit == "compute_bound"


def test_a_dtype_without_a_peak_has_no_utilization() -> None:
    shown = found("mi355x", "tf32").to_json()
    assert shown["tflops"] and shown["tflops_peak_utilization_pct"] is None and shown["bound"] is None
    assert shown["dense_peak"] is None and "the dense tf32 peak of mi355x is not known" in shown["notes"][0]


def test_dtypes_of_problems_map_to_peaks_and_typos_to_the_nearest() -> None:
    assert found(dtype="fp8_e4m3").compute.peak == found(dtype="fp8").compute.peak
    with pytest.raises(UnknownDtypeError, match=r"for 'bf61'\n  = nearest: bf16"):
        found(dtype="bf61")


@pytest.mark.parametrize("amounts", [(1, 1, 0), (1, 1, -1), (1, 1, math.nan), (math.inf, 1, 1), (1, -1, 1), (0, 0, 1)])
def test_what_can_be_no_measurement(amounts: tuple[float, float, float]) -> None:
    with pytest.raises(AmountError):
        found(amounts=Amounts(*amounts))


def test_grid_waves_say_where_the_units_come_from() -> None:
    waves = found(grid=Grid(133)).grid
    assert waves is not None and (waves.waves, waves.last_wave, waves.slots) == (2, 1, 132)
    assert waves.efficiency == pytest.approx(133 / 264) and waves.compute_units.source == "h200_driver"
    given_units = grid_waves(load_device("h20"), Grid(156, 2, 39))
    assert (given_units.waves, given_units.efficiency, given_units.compute_units.source) == (2, 1.0, "given")
    for grid in (Grid(0), Grid(1, 0), Grid(1, 1, 0)):
        with pytest.raises(AmountError, match="it is at least 1"):
            grid_waves(load_device("h200"), grid)


@given(ctas=st.integers(1, 500), per_unit=st.integers(1, 4), units=st.integers(1, 40))
def test_grid_waves_agree_with_dealing_out_the_tiles(ctas: int, per_unit: int, units: int) -> None:
    left, waves, last = ctas, 0, 0
    while left:
        last = min(left, per_unit * units)
        left, waves = left - last, waves + 1
    result = grid_waves(load_device("h200"), Grid(ctas, per_unit, units))
    assert (result.waves, result.last_wave) == (waves, last) and 0 < result.efficiency <= 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*4096*4096*4096", 2 * 4096**3),
        ("2 * 4_096 ** 3", 2 * 4096**3),
        ("(1+2)*3 - -1", 10),
        ("7//2", 3),
        ("1e9/4", 2.5e8),
        ("10**29", 10**29),
        ("2**-1", 0.5),
        ("0**5", 0),
        ("+5 % 3", 2),
    ],
)
def test_expressions(text: str, value: float) -> None:
    assert amount(text, "--flops") == value and type(amount(text, "--flops")) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "2*",
            "N*2",
            "__import__('os').getcwd()",
            "[1][0]",
            "True",
            "1 if 1 else 2",
            "1<<9",
            "'a'*9",
            "2j",
            "1\0",
        ),
        *(
            "(1).real",
            "lambda: 1",
            "9**9**9",
            "10**31",
            "2**1e308",
            "1/0",
            "0**-1",
            "1e999",
            "1e20*1e20",
            "(-8)**0.5",
            "-1",
        ),
        *("(" * 240 + "1" + ")" * 240, "1+" * 400 + "1"),
    ],
)
def test_what_is_no_arithmetic_on_numbers(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"^--flops"):
        amount(text, "--flops")
