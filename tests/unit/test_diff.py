"""`kgen diff`: what turned a choice between two made-up devices, checked against plans made without it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from diff_devices import device_file

from kgen import api
from kgen.diff.compare import Comparison, compare_devices
from kgen.diff.explain import PackageDiff, VariantDiff
from kgen.diff.figures import differing, figures_of, with_figures
from kgen.diff.reasons import Cause
from kgen.errors.diff import NoSideError, TargetsNumberError
from kgen.solution import explain_point, kernel_questions
from kgen.target import load_device

PRODUCT = """name: product
reference: |
  def product(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
extents: {M: 4096, N: 4096, K: 4096}
accepts: {base_alignment: 16}
"""
SUM = """name: total
reference: |
  import torch
  def total(x):
      return torch.sum(x)
inputs:
  x: {shape: [M], dtype: fp32}
extents: {M: 1048576}
"""


@contextmanager
def silent(total: int) -> Iterator[Callable[[str], None]]:
    yield lambda title: None


def spec_file(folder: Path, text: str) -> Path:
    path = folder / f"{text.partition('name: ')[2].splitlines()[0]}.yaml"
    path.write_text(text)
    return path


def compared(folder: Path, text: str, *targets: str | Path) -> Comparison:
    return compare_devices([spec_file(folder, text)], [str(t) for t in targets], silent)


def only(found: Comparison) -> PackageDiff:
    (package,) = found.packages
    return package


def variant_of(package: PackageDiff) -> VariantDiff:
    (variant,) = package.variants
    return variant


def test_figures_of_the_other_device_make_the_other_device() -> None:
    a, b = load_device("mi300x"), load_device("mi308x")
    all_of_b = with_figures(a, b, [figure.name for figure in differing(a, b)])
    assert all_of_b.rule_fields() == b.rule_fields()
    assert not differing(all_of_b, b)
    assert with_figures(a, b, ()).rule_fields() == a.rule_fields()


def test_a_device_with_fewer_units_has_units_as_fast_as_before(tmp_path: Path) -> None:
    h200, small = load_device("h200"), load_device(device_file(tmp_path, "small", compute_units=66))
    fewer = with_figures(h200, small, ["quantities.compute_units"])
    assert fewer.compute_units == 66
    assert fewer.rule_fields()["bf16_flops_per_cycle"] == h200.rule_fields()["bf16_flops_per_cycle"]
    peak, whole = fewer.dense_peak("bf16"), h200.dense_peak("bf16")
    assert peak is not None and whole is not None and peak.value == pytest.approx(whole.value / 2, rel=1e-3)


def test_what_plans_rest_on_is_among_the_figures_and_nothing_else() -> None:
    names = figures_of(load_device("h200")).keys()
    assert {"quantities.memory_bandwidth", "limits.smem_bytes_per_cta", "unit_peak.bf16", "fitted.launch"} <= names
    assert not {"quantities.memory", "quantities.board_power", "dense_peak.bf16"} & names


def test_a_choice_that_breaks_a_rule_names_it_and_the_figure(tmp_path: Path) -> None:
    small = device_file(tmp_path, "small", smem_bytes_per_cta=160000)
    package = only(compared(tmp_path, PRODUCT, "h200", small))
    variant = variant_of(package)
    assert package.is_turned and variant.reason is not None and variant.turn is not None
    assert variant.reason.cause is Cause.RULE
    (rule,) = variant.reason.rules
    assert rule.rule == "smem" and rule.place.startswith("targets/sm90a/gemm.rules:")
    assert "against 160000" in variant.reason.text
    assert [figure.name for figure in variant.turn.alone] == ["limits.smem_bytes_per_cta"]
    assert not variant.turn.together


def test_a_choice_that_is_slower_has_the_gap_that_solve_finds(tmp_path: Path) -> None:
    few = device_file(tmp_path, "few", compute_units=100, l2_bandwidth=7.9)
    variant = variant_of(only(compared(tmp_path, PRODUCT, "h200", few)))
    assert variant.reason is not None and variant.reason.cause is Cause.TERM
    judged = variant.reason.judged
    assert judged is not None and judged.gap_us > 0
    spec, choice = api.load_spec(tmp_path / "product.yaml"), {c.what: c.a for c in variant.changes}
    (question,) = kernel_questions(spec, load_device(few), None)
    (of_a,) = api.plan(spec, "h200").variants
    why = explain_point(question.solver, question.fixed, dict(of_a.choice.candidate.choices))
    assert choice and why.ranked is not None and (why.rank, why.ranked.time_us) == (judged.rank, judged.time_us)
    assert sum(time for _, time in judged.gap) == pytest.approx(judged.gap_us, abs=0.02)
    assert "quantities.compute_units" in {fed.figure.name for fed in variant.reason.fed_by}


def test_the_figures_that_turn_a_choice_do_so_and_no_fewer_do(tmp_path: Path) -> None:
    few = load_device(device_file(tmp_path, "few", compute_units=100, l2_bandwidth=3.1, memory_bandwidth=1.2))
    spec, h200 = api.load_spec(spec_file(tmp_path, PRODUCT)), load_device("h200")
    path = tmp_path / "of_few/sm90a/devices/few.yaml"
    variant = variant_of(only(compare_devices([tmp_path / "product.yaml"], ["h200", str(path)], silent)))
    assert variant.turn is not None

    def choice(*names: str) -> object:
        (made,) = api.plan(spec, with_figures(h200, few, names)).variants
        return made.choice.candidate.choices, made.choice.raster

    (at_b,) = api.plan(spec, few).variants
    wanted = at_b.choice.candidate.choices, at_b.choice.raster
    for figure in differing(h200, few):
        assert (figure in variant.turn.alone) == (choice(figure.name) == wanted), figure
    if not variant.turn.alone:
        together = [figure.name for figure in variant.turn.together]
        assert together and choice(*together) == wanted
        for name in together:
            assert choice(*(other for other in together if other != name)) != wanted


def test_other_kernels_are_timed_on_both_devices(tmp_path: Path) -> None:
    slow = device_file(tmp_path, "slow", compute_units=16, memory_bandwidth=0.2, launch=40)
    package = only(compared(tmp_path, SUM, "h200", slow))
    assert package.reason is not None and package.reason.cause is Cause.KERNELS and package.turn is not None
    times = package.reason.times_us
    assert times is not None and times.keys() == {f"{k}_kernels_on_{d}" for k in "ab" for d in "ab"}
    assert None not in times.values()
    assert package.turn.alone or package.turn.together
    assert {change.what for change in package.changes} >= {"kernels", "their lines"}


def test_a_device_is_equal_to_itself_and_differs_from_a_twin_in_nothing_turned(tmp_path: Path) -> None:
    twin = device_file(tmp_path, "twin")
    assert compared(tmp_path, PRODUCT, "h200", twin).is_equal
    warmer = device_file(tmp_path, "warmer", launch=2.9)
    package = only(compared(tmp_path, PRODUCT, "h200", warmer))
    assert not package.is_equal and not package.is_turned and not package.reasons


def test_another_instruction_set_has_other_axes(tmp_path: Path) -> None:
    package = only(compared(tmp_path, PRODUCT, "h200", "mi300x"))
    reasons = package.reasons
    assert reasons[0].cause is Cause.AXIS and "gfx942 has no" in reasons[0].text
    assert all(variant.turn is None for variant in package.variants)


def test_a_spec_without_a_plan_on_one_device_is_alone_on_the_other(tmp_path: Path) -> None:
    none = device_file(tmp_path, "none", smem_bytes_per_cta=4096)
    package = only(compared(tmp_path, PRODUCT, "h200", none))
    assert package.pair.b is None and "none: no legal gemm candidate" in package.note
    assert not package.is_equal and not package.is_turned


def test_counts_add_up(tmp_path: Path) -> None:
    small = device_file(tmp_path, "small", smem_bytes_per_cta=160000)
    found = compared(tmp_path, PRODUCT, "h200", small)
    twice = replace(found, packages=found.packages * 2)
    assert twice.counts() == {"equal": 0, "figures": 0, "turned": 2, "alone": 0}
    assert twice.causes() == {"rule": 2} and twice.turned_by() == {"limits.smem_bytes_per_cta": 2}


@pytest.mark.parametrize("targets", [(), ("h200",), ("h200", "h20", "h100")])
def test_two_targets_are_needed(tmp_path: Path, targets: tuple[str, ...]) -> None:
    with pytest.raises(TargetsNumberError, match=f"--targets names {len(targets)}"):
        compare_devices([spec_file(tmp_path, PRODUCT)], targets, silent)


def test_a_folder_without_specs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSideError, match="it holds no spec"):
        compare_devices([tmp_path], ["h200", "h20"], silent)
