"""The text of loop kernels: per layout and schedule, per element type, where names collide; clean as printed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import loop_specs
import pytest
import torch

from kgen.backends.cutedsl.loop_dialect import CUTEDSL_LOOPS
from kgen.backends.flydsl.loop_dialect import flydsl_loops
from kgen.backends.loops.names import loop_names
from kgen.backends.loops.views import (
    FlatKernelView,
    LaunchView,
    LoopFileView,
    LoopHostView,
    LoopKernelView,
    ScanColumnsView,
    ScanRowsView,
)
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.render.fields import unread_fields
from kgen.spec.load import parse_spec
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
ALL = tuple(loop_specs.FUNCTIONS)
FOLDERS = (CUTEDSL_LOOPS.folder, flydsl_loops(load_device("mi300x").arch).folder)  # of every back-end's templates


def lines_of(name: str) -> list[str]:
    """Return the lines of the device kernel, without indentation."""
    return [line.strip() for line in loop_specs.kernel_of(name).splitlines()]


def in_order(name: str, *wanted: str) -> None:
    """Require lines, one after the other, in the device kernel."""
    lines, at = lines_of(name), 0
    for line in wanted:
        assert line in lines[at:], f"{name}: {line!r} is not behind line {at}"
        at = lines.index(line, at) + 1


@pytest.mark.parametrize("command", [["check", "--output-format", "concise"], ["format", "--check"]])
def test_lint_and_format(tmp_path: Path, command: list[str]) -> None:
    for name in ALL:
        (tmp_path / f"{name}.py").write_text(loop_specs.files_of(name)["kernel.py"], encoding="utf-8")
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    found = subprocess.run(
        [sys.executable, "-m", "ruff", *command, *settings, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    ("template", "view"),
    [
        ("kernel", LoopFileView),
        ("host", LoopHostView),
        ("launch", LaunchView),
        ("flat", FlatKernelView),
        ("scan_rows", ScanRowsView),
        ("scan_columns", ScanColumnsView),
    ],
)
def test_every_field_is_read(template: str, view: type, folder: str) -> None:
    known = ("LaunchView.early",) if (folder, template) == (FOLDERS[1], "launch") else ()
    assert unread_fields(f"{folder}/{template}.py.j2", view) == known  # no launch on CDNA starts before another ends


def unread_of(template: str) -> set[str]:
    return {name.removeprefix("LoopKernelView.") for name in unread_fields(template, LoopKernelView)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_field_of_a_reduction_is_read_by_some_template(folder: str) -> None:
    staging = {"vectors", "arrived", "before_pass"}
    ahead = {"column_ahead", "ahead_fragments", "ahead_reads"}
    resident, streamed = (unread_of(f"{folder}/{t}.py.j2") for t in ("resident", "streamed"))
    has_staged = folder == CUTEDSL_LOOPS.folder
    assert resident == ({"chunk"} if has_staged else {"chunk"} | staging | ahead)
    assert streamed == staging | ahead


@pytest.mark.parametrize("name", ALL)
def test_a_kernel_that_starts_early_waits_before_it_touches_memory(name: str) -> None:
    text, lines = loop_specs.files_of(name)["kernel.py"], lines_of(name)
    variant, *_ = loop_specs.plan_of(name).variants
    waits = [at for at, line in enumerate(lines) if line.startswith("cute.arch.griddepcontrol_wait()")]
    assert len(waits) == variant.starts_early
    assert not any("v.accesses" in line for at in waits for line in lines[:at])
    assert text.count("use_pdl=True") == text.count("griddepcontrol_wait()")


def test_reductions_of_few_ctas_start_early_and_pointwise_kernels_do_not() -> None:
    early = {name: loop_specs.plan_of(name).variants[0].starts_early for name in ("softmax", "column_sum", "odd_rows")}
    assert early == {"softmax": True, "column_sum": True, "odd_rows": False}


# Rows: the threads of a row lie along it.


@pytest.mark.parametrize(("name", "cluster"), [("softmax", 1), ("softmax_cluster", 4)])
def test_a_resident_softmax(name: str, cluster: int) -> None:
    assert {v.choice.candidate.number("cluster") for v in loop_specs.plan_of(name).variants} == {cluster}
    in_order(
        name,
        "enter_cluster(v, (sumexp_0_parts,))",
        "row, lane, lanes = place_in_row(v)",
        "x_raw = fragment(v, x_at, cutlass.BFloat16, v.steps)",
        "col = (s * lanes + lane) * v.vec",
        "read(v, x_at, x, offset(x_at, at_row, at_col), x_at.cols[0], inside, x_raw, s)",
        "meet_cluster(v)",
        'sumexp_0_top = cutlass.Float32(float("-inf"))',
        "sumexp_0_powers = cute.make_rmem_tensor((v.vec, v.steps), cutlass.Float32)",
        "sumexp_0_powers[e, s] = x2",
        "sumexp_0_top, sumexp_0 = combine_row(v, (sumexp_0_top, sumexp_0), join_exponents, sumexp_0_parts)",
        "sumexp_0_scale = cute.math.exp(sumexp_0_largest - center_of(sumexp_0_top), fastmath=True)",
        "x3 = sumexp_0_powers[e, s] * sumexp_0_scale",
        "x4 = reciprocal(sumexp_0)",
        "write(v, out_at, out, offset(out_at, at_row, at_col), out_at.cols[0], is_row & inside, out_new)",
    )
    assert lines_of(name).count("x_raw = fragment(v, x_at, cutlass.BFloat16, v.steps)") == 1


def test_clusters_are_a_choice_of_the_row_and_not_of_the_text() -> None:
    one, other = (loop_specs.kernel_of(n).replace(n, "softmax") for n in ("softmax", "softmax_cluster"))
    assert one == other


def test_a_streamed_softmax_reads_its_row_for_every_pass() -> None:
    lines = lines_of("softmax_streamed")
    read = "read(v, x_at, x, offset(x_at, at_row, at_col), x_at.cols[0], inside, x_raw, s)"
    assert lines.count(read) == 2
    assert sum(line.startswith("for chunk in cutlass.range(") for line in lines) == 2
    assert not any("cluster" in line for line in lines)


def test_moments_are_taken_about_the_first_element_and_their_sum_from_the_mean() -> None:
    in_order(
        "moments",
        "m2_0_start = start_of(v, s + e, inside, x0, m2_0_start)",
        "x1 = within(v, inside, x0 - m2_0_start, 0.0)",
        "m2_0_total = m2_0_total + x1",
        "m2_0_square = m2_0_square + x1 * x1",
        "(m2_0_count, m2_0_mean, m2_0), moments_about(m2_0_start, m2_0_seen, m2_0_total, m2_0_square)",
        "m2_0_count, m2_0_mean, m2_0 = combine_row(v, (m2_0_count, m2_0_mean, m2_0), join_moments, m2_0_parts)",
        "x2 = (m2_0_mean * 1536.0) / 1536.0",
    )
    assert "sum_0" not in loop_specs.kernel_of("moments")


def test_a_sum_of_exponentials_takes_the_largest_along() -> None:
    in_order(
        "sumexp",
        'sumexp_0_largest = maximum(sumexp_0_largest, within(v, inside, x0, cutlass.Float32(float("-inf"))))',
        "x2 = within(v, inside, cute.math.exp(x1 - center_of(sumexp_0_largest), fastmath=True), 0.0)",
        "sumexp_0_top, sumexp_0 = join_exponents((sumexp_0_top, sumexp_0), (sumexp_0_largest, sumexp_0_part))",
        "put(out, offset(out_at, at_row), is_row & (lane == 0), x9)",
    )
    assert "max_0" not in loop_specs.kernel_of("sumexp")


@pytest.mark.parametrize("name", ["softmax_staged", "softmax_streamed", "sumexp", "column_softmax"])
def test_exponentials_are_held_where_elements_are_and_are_wanted(name: str) -> None:
    assert "_powers" not in loop_specs.kernel_of(name)


def test_argmax_keeps_where_the_largest_lies() -> None:
    in_order(
        "argmax",
        "argmax_0_at_parts = exchange(v, smem, cutlass.Float32, INDEX)",
        "argmax_0_place = INDEX(2147483647)",
        'argmax_0_best = maximum(argmax_0_best, within(v, inside, x0, cutlass.Float32(float("-inf"))))',
        "argmax_0_place = earlier_place(",
        "argmax_0, argmax_0_at = first_of_largest(",
        "(argmax_0, argmax_0_at), (argmax_0_best, place_along(v, argmax_0_place, chunk * v.steps, lane, lanes))",
        "put(out, offset(out_at, at_row), is_row & (lane == 0), argmax_0_at.to(cutlass.Int64))",
    )


def test_positions_that_are_not_the_columns_in_their_order_enter_one_by_one() -> None:
    in_order(
        "argmax_of_axes",
        "x2 = offset(index_at, at_row, shifted(at_col, e))",
        "argmax_0, argmax_0_at = first_of_largest((argmax_0, argmax_0_at), (x1, x2))",
    )


def test_reductions_of_one_phase_share_their_pass() -> None:
    lines = lines_of("row_sums")
    assert "enter_cluster(v, (sum_0_parts, max_1_parts, any_2_parts))" in lines
    assert lines.count("for e in cutlass.range_constexpr(v.vec):") == 1
    assert "put(out2, offset(out2_at, at_row), is_row & (lane == 0), (any_2 != 0).to(cutlass.Uint8))" in lines


def test_what_all_rows_share_is_read_in_the_last_pass() -> None:
    in_order(
        "row_bias",
        "read(v, x_at, x, offset(x_at, at_row, at_col), x_at.cols[0], inside, x_raw, s)",
        "out_new = fragment(v, out_at, cutlass.Float32, 1)",
        "bias_raw = fragment(v, bias_at, cutlass.BFloat16, 1)",
        "read(v, bias_at, bias, offset(bias_at, at_row, at_col), bias_at.cols[0], inside, bias_raw, 0)",
        "x8 = from_bf16(bias_raw, e, 0)",
    )


def test_what_all_rows_share_may_be_read_ahead_of_the_last_pass() -> None:
    read = "read(v, bias_at, bias, offset(bias_at, at_row, at_col), bias_at.cols[0], inside, bias_raw, s % v.ahead)"
    in_order(
        "row_bias_ahead",
        "stage(v, x_at, x, offset(x_at, at_row, at_col), x_at.cols[0], inside, x_staged, s)",
        "bias_raw = fragment(v, bias_at, cutlass.BFloat16, v.ahead)",
        "for s in cutlass.range_constexpr(v.ahead):",
        read,
        "await_staged()",
        "m2_0_count, m2_0_mean, m2_0 = combine_row(v, (m2_0_count, m2_0_mean, m2_0), join_moments, m2_0_parts)",
        "x8 = from_bf16(bias_raw, e, s % v.ahead)",
        "write(v, out_at, out, offset(out_at, at_row, at_col), out_at.cols[0], is_row & inside, out_new)",
        "if cutlass.const_expr(s + v.ahead < v.steps):",
        "col = ((s + v.ahead) * lanes + lane) * v.vec",
        read,
    )
    text = loop_specs.files_of("row_bias_ahead")["kernel.py"]
    assert "    ahead: int  # vectors of what rows share" in text and "        ahead=2,\n" in text
    assert "v.ahead" not in loop_specs.files_of("row_bias")["kernel.py"], "nothing is read ahead"


def test_staged_elements_are_copied_into_smem_and_taken_from_there_in_every_phase() -> None:
    in_order(
        "softmax_staged",
        "x_staged = staging(v, smem, x_at, cutlass.BFloat16)",
        "stage(v, x_at, x, offset(x_at, at_row, at_col), x_at.cols[0], inside, x_staged, s)",
        "await_staged()",
        "leave_in_smem()",
        "x_raw = vector_of(v, x_at, x_staged, s)",
        "x0 = from_bf16(x_raw, e, 0)",
        "leave_in_smem()",
        "x_raw = vector_of(v, x_at, x_staged, s)",
        "leave_in_smem()",
        "x_raw = vector_of(v, x_at, x_staged, s)",
        "out_new = fragment(v, out_at, cutlass.BFloat16, 1)",
    )


def accesses_of(name: str) -> dict[str, str]:
    """Return the accesses of the first variant, by name."""
    found = re.findall(r"^ +(Access\(.*\)),  # (\w+)$", loop_specs.files_of(name)["kernel.py"], re.MULTILINE)
    return {at: text for text, at in reversed(found)}


def test_what_passes_the_l2_says_when_it_leaves() -> None:
    assert accesses_of("softmax_staged") == {
        "x_at": "Access(rows=(65536,), cols=(1,), width=8, l2=EVICT_LAST)",
        "out_at": "Access(rows=(65536,), cols=(1,), width=8)",
    }
    assert "l2=EVICT_FIRST" in accesses_of("long_sums")["x_at"]
    assert "EVICT" not in loop_specs.files_of("softmax")["kernel.py"], "what is small may stay for the next kernel"


# Columns: a thread owns a vector of rows and walks down.


def test_a_column_sum_holds_a_state_for_each_element_of_a_vector() -> None:
    in_order(
        "column_sum",
        "vector, lane, lanes = place_in_column(v)",
        "is_row, at_row = row_of(v, row, v.vec)",
        "sum_0 = filled(v, cutlass.Float32, cutlass.Float32(0.0))",
        "col = (chunk * v.steps + s) * lanes + lane",
        "sum_0[e] = join_sum((sum_0[e],), (within(v, inside, x0, cutlass.Float32(0.0)),))[0]",
        "combine_columns(v, (sum_0,), join_sum, sum_0_parts)",
        "write_row(v, out_at, out, at_row, is_row & (lane == 0), out_new)",
    )


def test_states_of_gathered_elements_are_joined_row_by_row() -> None:
    in_order(
        "column_moments",
        "for e in cutlass.range_constexpr(v.vec):",
        "m2_0_start[e] = start_of(v, s, inside, x0, m2_0_start[e])",
        "m2_0_count[e], m2_0_mean[e], m2_0[e] = join_moments(",
        "combine_columns(v, (m2_0_count, m2_0_mean, m2_0), join_moments, m2_0_parts)",
    )
    in_order(
        "column_argmax",
        "argmax_0_place = filled(v, INDEX, INDEX(2147483647))",
        "argmax_0[e], argmax_0_at[e] = first_of_largest(",
        "(argmax_0[e], argmax_0_at[e]), (argmax_0_best[e], place_down(v, argmax_0_place[e], 0, lane, lanes))",
    )


def test_values_of_a_vector_of_rows_are_read_before_the_elements() -> None:
    in_order(
        "column_softmax",
        "read_row(v, b_at, b, at_row, b_raw)",
        "x_raw = fragment(v, x_at, cutlass.BFloat16, v.steps)",
        "x1 = b_raw[e, 0]",
    )


# Scans.


def test_a_scan_along_rows_carries_what_a_chunk_holds() -> None:
    in_order(
        "scan_rows",
        "(sum_0_slots,), _ = exchange(v, smem, cutlass.Float32)",
        "sum_0_carry = cutlass.Float32(0.0)",
        "col = ((chunk * v.steps + s) * lanes + lane) * v.vec",
        "inside, at_col = col < prod(v.cols), digits(col, v.cols)",
        "e = i",
        "sum_0_carry = scan_row(v, sum_0_totals, sum_0_carry, join_sum, cutlass.Float32(0.0), sum_0_slots)",
        "out_new[e, 0] = join_sum((sum_0_totals[s],), (sum_0[e, s],))[0]",
    )


def test_a_reversed_scan_starts_at_the_end() -> None:
    in_order(
        "scan_rows_reversed",
        "col = prod(v.cols) - v.vec - (((chunk * v.steps + s) * lanes + lane) * v.vec)",
        "inside, at_col = col >= 0, digits(col, v.cols)",
        "e = v.vec - 1 - i",
    )
    in_order("scan_columns_reversed", "col = prod(v.cols) - 1 - (chunk * v.steps + s)")


def test_a_scan_down_columns_needs_nobody_else() -> None:
    in_order(
        "scan_columns",
        "vector, _, _ = place_in_column(v)",
        "sum_0_carry = filled(v, cutlass.Float32, cutlass.Float32(0.0))",
        "col = chunk * v.steps + s",
        "write(v, out_at, out, offset(out_at, at_row, at_col), out_at.rows[0], is_row & inside, out_new)",
    )
    assert "SmemAllocator" not in loop_specs.files_of("scan_columns")["kernel.py"]


# Loads and stores.


def test_a_gather_reads_inside_of_its_tensor() -> None:
    in_order(
        "gather",
        "x0 = i__raw[e, s]",
        "x4 = element_where(",
        "w, offset(w_at, shifted(at_row, e)) + INDEX(x3) * 256, (x3 >= 0) & (x3 < 1000) & inside, 0.0",
        ").to(cutlass.Float32)",
    )
    in_order(
        "loss",
        "sumexp_0_top, sumexp_0 = combine_row(v, (sumexp_0_top, sumexp_0), join_exponents, sumexp_0_parts)",
        "x3 = element(i_, offset(i__at, at_row))[0]",
        "x6 = element_where(x, offset(x_at1, at_row) + INDEX(x5) * 1, (x5 >= 0) & (x5 < 4096), 0.0)",
    )


def test_a_bounded_load_gives_its_fill_value_outside() -> None:
    in_order(
        "bounded",
        "x_at, guard_at, guard_at1, out_at = v.accesses",
        "x0 = element_where(",
        "x,",
        "offset(x_at, at_row, shifted(at_col, e)),",
        "(offset(guard_at, at_row, shifted(at_col, e)) >= 0)",
        "& (offset(guard_at1, at_row, shifted(at_col, e)) >= 0)",
        "& inside,",
        "0.0,",
    )


def test_one_value_in_all_is_stored_by_one_thread() -> None:
    in_order("scalar", "put(out, offset(out_at, at_row), is_row & (lane == 0), sum_0)")
    in_order(
        "scalar_beside",
        "write(v, out0_at, out0, offset(out0_at, at_row), out0_at.rows[0], inside, out0_new)",
        "s, e, at_row = 0, 0, digits(INDEX(0), v.rows)",
        "put(out1, offset(out1_at, at_row), (block == 0) & (thread == 0), x4)",
    )


def test_a_tensor_without_axes_is_one_row() -> None:
    text = loop_specs.files_of("zero_dim")["kernel.py"]
    assert "        rows=(1,),\n        cols=(),\n" in text
    assert "(cutlass.Float32, (), (), 4),  # x\n" in text and "(cutlass.Float16, (), (), 2),  # y\n" in text


def test_what_is_empty_is_compiled_and_not_launched() -> None:
    text = loop_specs.files_of("no_rows")["kernel.py"]
    assert "(cutlass.BFloat16, (1, 128), (128, 1), 2),  # x\n" in text
    assert "        return  # nothing is written\n" in text and '"default_resident_any": 1' not in text


def test_small_types_arrive_as_bytes() -> None:
    text = loop_specs.files_of("small_types")["kernel.py"]
    for entry in ("Int8, (512, 1024), (1024, 1), 16),  # i_", "Uint8, (512, 1024), (1024, 1), 16),  # m"):
        assert f"(cutlass.{entry}\n" in text
    assert text.count("(cutlass.Uint8, (512, 1024), (1024, 1), ") == 8  # m, q and two results, in two variants
    recast = "cute.make_tensor(cute.recast_ptr({0}.iterator, dtype=cutlass.Float8E4M3FN), {0}.layout)"
    assert all(f"    {name} = {recast.format(name)}\n" in text for name in ("q", "out2"))
    assert "m.view(torch.uint8)" in text and "q.view(torch.uint8)" in text and "i_.view" not in text
    in_order("small_types", "x0 = m_raw[e, s] != 0", "x3 = q_raw[e, s].to(cutlass.Float32)")
    in_order("small_types", "out1_new[e, 0] = x8.to(cutlass.Uint8)", "out2_new[e, 0] = to_e4m3(x10)")


def test_ints_narrower_than_a_word_are_summed_in_wider_ones() -> None:
    in_order("int_sum", "sum_0_parts = exchange(v, smem, cutlass.Int64)", "x0 = x_raw[e, s]")
    assert "def join_sum_int64(a, b):" in loop_specs.files_of("int_sum")["kernel.py"]


# Names.


CASES = """
name: scaled
reference: |
  def scaled(x):
      return (x + x.shape[1]).sum(-1)
inputs:
  x: {shape: [M, N], dtype: bf16}
extents: {M: 64, N: 256}
cases:
  one: {}
  two: {N: 1024}
  three: {M: 48, N: 1024}
"""


@pytest.mark.parametrize("device", ["h200", "mi300x"])
def test_cases_share_a_function_where_it_has_one_text(device: str) -> None:
    """The extent that is added is a constant in the text, which rows of VARIANTS do not hold."""
    text = run(parse_spec(CASES, Path("case.yaml")), load_device(device)).made["render"]["kernel.py"]
    launches = {
        name.partition("_")[0]: launch for name, launch in re.findall(r'name="(\w+)",[^(]*launch="(\w+)"', text)
    }
    assert launches == {
        "one": "launch_scaled_resident",
        "two": "launch_scaled_two_resident",
        "three": "launch_scaled_two_resident",
    }
    functions = {n.name: ast.unparse(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert "256.0" in functions["scaled_resident"] and "1024.0" in functions["scaled_two_resident"]


def test_names_of_the_user_make_way() -> None:
    assert lines_of("reserved_names")[1] == (
        "def reserved_names_flat(v: cutlass.Constexpr, v_, row_, chunk_, x1_, lambda_, within_, sum_0_, out):"
    )


@pytest.mark.parametrize("name", ["sum_0", "sumexp_0_top", "rules_x", "launch_x", "join_sum", "case_resident", "x12"])
def test_every_name_finds_one_that_is_free(name: str) -> None:
    assert loop_names((name,), CUTEDSL_LOOPS) == {name: f"{name}_"}
    assert loop_names((f"{name}_",), CUTEDSL_LOOPS) == {f"{name}_": f"{name}_"}


def test_names_stay_the_users_where_they_can() -> None:
    assert loop_names(("x", "weight", "a.b", "a_b", "lambda"), CUTEDSL_LOOPS) == {
        "x": "x",
        "weight": "weight",
        "a.b": "a_b",
        "a_b": "a_b_",
        "lambda": "lambda_",
    }


# Names of the user's tensors are bound in device functions and in launch functions.
BINDERS = r"(?!rules_)\w+_(flat|resident|streamed|scan)"


@pytest.mark.parametrize("name", ALL)
def test_no_name_of_the_kernel_is_left_to_the_user(name: str) -> None:
    (program, *_) = loop_specs.made_of(name)["partition"].values()
    tensors = dict.fromkeys(
        (*(a.name for a in program.arguments), *(t.name for p in program.problems for t in p.tensors))
    )
    user = set(loop_names(tuple(tensors), CUTEDSL_LOOPS).values())
    for function in ast.parse(loop_specs.files_of(name)["kernel.py"]).body:
        if not isinstance(function, ast.FunctionDef) or not re.fullmatch(BINDERS, function.name):
            continue
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | {a.arg for a in function.args.args}
        left = {n for n in used - user if loop_names((n,), CUTEDSL_LOOPS)[n] == n}
        assert not left, f"{function.name} uses {sorted(left)}, which a tensor may be called"


def test_tensors_named_like_functions_of_the_file() -> None:
    def fn(twice_flat):
        return twice_flat * 2

    made = run(spec_from_callable(fn, [torch.empty(64, 64)], name="twice"), load_device("h200")).made
    assert "def twice_flat(v: cutlass.Constexpr, twice_flat_, out):" in made["render"]["kernel.py"]


def test_a_quotient_that_is_rounded_is_divided_for() -> None:
    text = (ROOT / "generated" / "h200" / "quantize_int8_rows" / "kernel.py").read_text(encoding="utf-8")
    assert "reciprocal" not in text and re.search(r"= x\d+ / x\d+\n", text)


def test_a_scale_of_what_is_rounded_has_the_bits_of_a_gpu() -> None:
    """A maximum divided by a number, for which PyTorch's GPU code multiplies; a mean of a row stays a quotient."""
    text = (ROOT / "generated" / "h200" / "quantize_int8_rows" / "kernel.py").read_text(encoding="utf-8")
    assert re.search(r"= x\d+ \* \(1\.0 / 127\.0\)\n", text)
    assert "x2 = (m2_0_mean * 1536.0) / 1536.0" in lines_of("moments")
