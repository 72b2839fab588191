"""The guarded variants of a plan: which there are, what each may assume, and what a user's fixed axes do to them."""

import json

import pytest
import torch
import torch.nn.functional as F

from kgen.errors.backend import CasesDifferError
from kgen.errors.rules import NoLegalCandidateError
from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.form import GemmForm
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace
from kgen.planning.plan import RUNNERS_UP, Guard
from kgen.planning.plan_gemm import GemmPlan, plan_gemm
from kgen.planning.planes import cut_operands
from kgen.target import load_device

BF16, FP32 = torch.bfloat16, torch.float32
ON_16 = Guard((("a", 16), ("b", 16)))
ANY = Guard(())
MADE = frozenset({"out"})


def e(*shape: int, stride: tuple[int, ...] | None = None, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype) if stride else torch.empty(shape, dtype=dtype)


def product(a, b):
    return a @ b


def form_of(fn, *inputs: torch.Tensor) -> GemmForm:
    spec = spec_from_callable(fn, inputs, name="case")
    return classify_gemm(lower(trace(spec, spec.cases[0]), spec).problems[0])


def plan_of(
    *forms: GemmForm, fixed: dict[str, int | str] | None = None, base: int = 1, device: str = "h200"
) -> GemmPlan:
    cases, on = {f"c{i}": form for i, form in enumerate(forms)}, load_device(device)
    return GemmPlan("case", on, plan_gemm("case", cases, on, dict.fromkeys(cases, fixed or {}), base, MADE))


SQUARE = (e(512, 512), e(512, 512))


def test_an_aligned_variant_comes_first_and_one_for_any_base_last() -> None:
    plan = plan_of(form_of(product, *SQUARE))
    assert [(v.name, v.load_path, v.guard) for v in plan.variants] == [
        ("c0_tma", "tma", ON_16),
        ("c0_staged_any", "staged", ANY),
    ]
    assert [v.facts.a_align for v in plan.variants] == [16, 2]
    assert str(ON_16) == "a on 16 bytes, b on 16 bytes" and str(ANY) == "any base address"


def test_a_promised_base_leaves_one_variant() -> None:
    (variant,) = plan_of(form_of(product, *SQUARE), base=16).variants
    assert (variant.name, variant.guard) == ("c0_tma", ON_16)


@pytest.mark.parametrize("base", [1, 16])
def test_operands_that_no_base_helps_get_one_variant(base: int) -> None:
    odd = form_of(F.linear, e(512, 513), e(512, 513))
    (variant,) = plan_of(odd, base=base).variants
    assert variant.load_path == "staged"
    if base == 1:
        assert (variant.name, variant.guard) == ("c0_staged_any", ANY)


def test_one_unaligned_operand_makes_both_variants_staged() -> None:
    plan = plan_of(form_of(product, e(512, 513), e(513, 512)))
    assert [(v.load_path, v.guard, v.facts.b_align) for v in plan.variants] == [
        ("staged", ON_16, 16),
        ("staged", ANY, 2),
    ]
    assert len({v.name for v in plan.variants}) == 2


def test_a_tensor_that_is_both_operands_is_guarded_once() -> None:
    plan = plan_of(form_of(lambda x: x @ x.T, e(512, 512)))
    assert plan.variants[0].guard == Guard((("x", 16),))


@pytest.mark.parametrize("dtype", [FP32, BF16])
def test_products_over_nothing_take_the_fma_units(dtype: torch.dtype) -> None:
    (variant,) = plan_of(form_of(product, e(128, 0, dtype=dtype), e(0, 128, dtype=dtype))).variants
    assert (variant.load_path, variant.store_path, variant.guard) == ("simt", "direct", ANY)


def test_an_empty_result_takes_no_tensor_core() -> None:
    (variant,) = plan_of(form_of(product, e(0, 64), e(64, 128))).variants
    assert (variant.load_path, variant.facts.k, variant.guard) == ("simt", 0, ANY)


def test_ops_before_the_product_are_staged() -> None:
    plan = plan_of(form_of(lambda a, b: a.relu() @ b, *SQUARE))
    assert {v.load_path for v in plan.variants} == {"staged"}


def test_every_case_and_variant_stores_in_one_way() -> None:
    wide = form_of(product, e(4096, 4096), e(4096, 4096))
    alone = plan_of(wide)
    assert {v.store_path for v in alone.variants} == {"tma"}  # which ragged rows cannot
    ragged = form_of(product, e(4096, 4096), e(4096, 4095))
    assert {v.store_path for v in plan_of(ragged).variants} == {"direct"}
    assert {v.store_path for v in plan_of(wide, ragged).variants} == {"direct"}


def test_what_a_spec_fixes_in_one_case_decides_for_all() -> None:
    forms = {"wide": form_of(product, e(4096, 4096), e(4096, 4096)), "square": form_of(product, *SQUARE)}
    ragged = {**forms, "ragged": form_of(product, e(4096, 4096), e(4096, 4095))}
    device = load_device("h200")
    with pytest.raises(NoLegalCandidateError, match="store_"):  # and not an answer that is none to the spec
        plan_gemm("case", ragged, device, {"wide": {"store_path": "tma"}}, 1, MADE)
    both = {"wide": {"store_path": "tma"}, "square": {"store_path": "direct"}}
    with pytest.raises(CasesDifferError, match=r"wide prints `store_path = tma` where .* square prints `.* = direct`"):
        plan_gemm("case", forms, device, both, 1, MADE)
    variants = plan_gemm("case", forms, device, {"square": {"store_path": "direct"}}, 1, MADE)
    assert {v.store_path for v in variants} == {"direct"}


def test_cases_keep_their_order_and_names() -> None:
    plan = plan_of(form_of(product, *SQUARE), form_of(product, e(64, 512), e(512, 512)))
    assert [v.case for v in plan.variants] == ["c0", "c0", "c1", "c1"]
    assert len({v.name for v in plan.variants}) == 4


def test_fixed_axes_hold_in_every_variant() -> None:
    fixed: dict[str, int | str] = {"tile_m": 128, "tile_n": 64, "stages": 4}
    for variant in plan_of(form_of(product, *SQUARE), fixed=fixed).variants:
        assert {name: variant.choice.candidate.value(name) for name in fixed} == fixed
        for runner_up in variant.runners_up:
            assert {name: runner_up.candidate.value(name) for name in fixed} == fixed


def test_a_fixed_cluster_does_not_bind_the_variant_that_has_none() -> None:
    plan = plan_of(form_of(product, *SQUARE), fixed={"cluster_m": 2, "cluster_n": 1})
    clusters = [(v.load_path, v.choice.candidate.value("cluster_m")) for v in plan.variants]
    assert clusters == [("tma", 2), ("staged", 1)]


@pytest.mark.parametrize("fixed", [{"load_path": "tma"}, {"wg_m": 3, "tile_m": 192}])
def test_axes_that_only_bulk_copies_can_have_do_not_bind_the_fallback(fixed: dict[str, int | str]) -> None:
    aligned, fallback = plan_of(form_of(product, *SQUARE), fixed=fixed).variants
    assert {name: aligned.choice.candidate.value(name) for name in fixed} == fixed
    assert fallback.load_path == "staged" and fallback.store_path == aligned.store_path


def test_a_fixed_axis_outside_of_the_rules_is_refused_with_the_rule() -> None:
    with pytest.raises(NoLegalCandidateError, match="smem") as caught:
        plan_of(form_of(product, *SQUARE), fixed={"tile_m": 256, "tile_n": 128, "wg_m": 2, "stages": 12})
    assert caught.value.exit_code == 3


def test_runners_up_are_few_and_ordered() -> None:
    for variant in plan_of(form_of(product, *SQUARE)).variants:
        times = [variant.choice.time_us, *(r.time_us for r in variant.runners_up)]
        assert times == sorted(times) and len(variant.runners_up) == RUNNERS_UP
        assert variant.choice not in variant.runners_up


def test_a_plan_prints_its_variants() -> None:
    lines = str(plan_of(form_of(product, *SQUARE), device="h20")).splitlines()
    assert lines[0] == "plan case on h20 (gemm)"
    assert lines[1] == "  c0_tma: case c0, a on 16 bytes, b on 16 bytes"
    assert len(lines) == 5


def test_candidates_print_as_json() -> None:
    (first, *_) = plan_of(form_of(product, *SQUARE)).variants
    assert json.loads(json.dumps(first.choice.to_json()))["choices"]["load_path"] == "tma"


FEW, MANY = (e(16, 4096), e(4096, 4096)), (e(4096, 4096), e(4096, 4096))


def test_few_rows_exchange_the_operands_in_every_variant() -> None:
    form = form_of(F.linear, *FEW)
    plan = plan_of(form)
    assert [v.load_path for v in plan.variants] == ["tma", "staged"]
    for variant in plan.variants:
        assert variant.is_exchanged and variant.form == form.exchanged
        assert (variant.form.m, variant.form.n, variant.facts.m, variant.facts.n) == (4096, 16, 16, 4096)
    assert form.exchanged.exchanged == form


def test_cases_of_few_and_of_many_rows_keep_the_operands_as_they_are() -> None:
    forms = form_of(F.linear, *FEW), form_of(F.linear, *MANY)
    assert not any(v.is_exchanged for v in plan_of(*forms).variants)
    assert all(v.is_exchanged for v in plan_of(*forms, fixed={"swap": 1}).variants)


def test_a_long_k_is_split_over_a_cluster_but_not_where_loads_pass_through_registers() -> None:
    plan = plan_of(form_of(F.linear, e(256, 65536), e(512, 65536)), fixed={"split_k": 1})
    assert plan.variants[0].cluster_k > 4 and plan.variants[1].cluster_k == 1
    fixed = plan_of(form_of(F.linear, *FEW), fixed={"cluster_k": 4, "resident": 2})
    assert [(v.cluster_k, v.resident) for v in fixed.variants] == [(4, 2), (1, 1)]


def words(*shape: int) -> torch.Tensor:
    return e(*shape, dtype=FP32)


def test_large_products_of_fp32_are_cut_into_planes_whatever_their_base() -> None:
    plan = plan_of(form_of(product, words(4096, 4096), words(4096, 4096)))
    assert [(v.load_path, v.cuts, v.guard) for v in plan.variants] == [("tma", True, ON_16), ("tma", True, ANY)]
    assert plan.variants[0].workspace == plan.variants[1].workspace
    planes, rows = plan.variants[0].workspace.values()
    # rows: a root and a state of each, and the largest value of each column of B in four pieces of k
    assert (planes.numel, rows.numel) == (2 * 2 * 4096 * 4096, 2 * 2 * 4096 + 4 * 4096)


def test_planes_of_ragged_and_shared_operands_fill_whole_steps_and_vectors() -> None:
    form = form_of(torch.matmul, words(3, 515, 2049), words(2049, 1030))
    (variant, *_) = plan_of(form, fixed={"split_k": 1}).variants
    assert variant.cuts and form.batch == ()  # the batch of A folds into its rows
    planes, rows = variant.workspace.values()
    pieces = cut_operands(variant.form, variant.facts)[1].pieces
    assert planes.numel == (1552 + 1032) * 2 * 2112
    assert pieces > 1 and rows.numel == 2 * (3 * 515 + 1030) + pieces * 1030


def test_ctas_deal_out_the_k_of_rows_where_few_of_them_leave_a_device_idle() -> None:
    def pieces(*shapes: tuple[int, int]) -> list[int]:
        (variant, *_) = plan_of(form_of(product, *(words(*shape) for shape in shapes))).variants
        assert variant.cuts
        return [o.pieces for o in cut_operands(variant.form, variant.facts)]

    assert pieces((256, 524288), (524288, 256)) == [1, 64]  # rows of B are contiguous: 32 of them to a CTA
    assert pieces((8192, 8192), (8192, 8192)) == [1, 1]
    assert pieces((64, 65536), (65536, 64))[0] == 4  # a CTA for each of 64 rows
    assert pieces((256, 512), (512, 256)) == [1, 1]  # too short


def test_parts_of_sums_have_room_for_every_tile_that_runs() -> None:
    (variant, fallback) = plan_of(form_of(product, e(256, 65536), e(65536, 512))).variants
    (parts,) = variant.workspace.values()
    tile = variant.choice.candidate.size
    tiles = -(-256 // tile.m) * -(-512 // tile.n)
    assert variant.split_k > 4 and not fallback.workspace
    assert list(variant.workspace) == ["parts"] and parts.numel == tiles * variant.split_k * tile.m * tile.n
    whole = plan_of(form_of(product, e(256, 65536), e(65536, 512)), fixed={"split_k": 1})
    assert [v.split_k for v in whole.variants] == [1, 1] and not whole.variants[0].workspace
    deep = plan_of(form_of(product, words(256, 65536), words(65536, 512))).variants[0]
    assert deep.cuts and list(deep.workspace) == ["planes", "rows", "parts"]


def test_cases_of_fp32_share_an_engine() -> None:
    large = form_of(product, words(4096, 512), words(512, 4096))
    assert all(v.cuts for v in plan_of(large).variants)
    empty = form_of(product, words(64, 0), words(0, 64))
    assert {v.load_path for v in plan_of(empty, large).variants} == {"simt"}  # there is nothing to cut
