"""Facts for the rules: what bulk copies may rely on, and what they must not."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.facts import facts_of, vector_of
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace

BF16, FP32 = torch.bfloat16, torch.float32


def e(*shape: int, stride: tuple[int, ...] | None = None, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype) if stride else torch.empty(shape, dtype=dtype)


def form_of(fn, *inputs: torch.Tensor) -> GemmForm:
    spec = spec_from_callable(fn, inputs, name="case")
    return classify_gemm(lower(trace(spec, spec.cases[0]), spec).problems[0])


def facts(fn, *inputs: torch.Tensor, base: int = 16) -> GemmFacts:
    return facts_of(form_of(fn, *inputs), base)


# inputs of a @ b, then a_major, a_align, b_major, b_align, d_align
PRODUCTS = {
    "plain": (e(64, 64), e(64, 64), "k", 16, "mn", 16, 16),
    "columns_first": (e(64, 64, stride=(1, 64)), e(64, 64, stride=(1, 64)), "mn", 16, "k", 16, 16),
    "leading_dimension_of_8_bytes": (e(64, 64, stride=(68, 1)), e(64, 64), "k", 8, "mn", 16, 16),
    "leading_dimension_of_4_bytes": (e(64, 64, stride=(66, 1)), e(64, 64), "k", 4, "mn", 16, 16),
    "odd_k": (e(64, 63), e(63, 64), "k", 2, "mn", 16, 16),
    "odd_n": (e(64, 64), e(64, 63), "k", 16, "mn", 2, 2),
    "no_unit_stride": (e(64, 64, stride=(256, 2)), e(64, 64), "none", 4, "mn", 16, 16),
    "batch_stride_of_4_bytes": (e(3, 64, 64, stride=(8194, 64, 1)), e(3, 64, 64), "k", 4, "mn", 16, 16),
    "same_row_expanded": (e(1, 64).expand(64, 64), e(64, 64), "none", 2, "mn", 16, 16),
    "overlapping_windows": (e(64, 64, stride=(1, 1)), e(64, 64), "k", 2, "mn", 16, 16),
    "one_row": (e(1, 64), e(64, 64), "k", 16, "mn", 16, 16),
    "one_row_of_100": (e(1, 64), e(64, 100), "k", 16, "mn", 8, 8),
    "one_column": (e(64, 64), e(64, 1), "k", 16, "k", 16, 16),
    "k_of_one": (e(64, 1), e(1, 64), "mn", 16, "mn", 16, 16),
    "one_by_one": (e(1, 1), e(1, 1), "k", 16, "k", 16, 2),
    "fp32": (e(64, 66, dtype=FP32), e(66, 64, dtype=FP32), "k", 8, "mn", 16, 16),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_majors_and_alignments(name: str) -> None:
    a, b, *expected = PRODUCTS[name]
    found = facts(torch.matmul, a, b)
    assert [found.a_major, found.a_align, found.b_major, found.b_align, found.d_align] == expected


def test_a_batch_stride_of_one_element_is_no_aligned_stride() -> None:
    found = facts(lambda a, b: torch.einsum("mkb,knb->bmn", a, b), e(64, 1, 8), e(1, 64, 8))
    assert (found.a_align, found.b_align) == (2, 2)


def test_an_offset_counts() -> None:
    assert facts(lambda a, b: a[:, 4:] @ b, e(64, 72), e(68, 64)).a_align == 8
    assert facts(lambda a, b: a[:, 8:] @ b, e(64, 72), e(64, 64)).a_align == 16
    assert facts(lambda a, b: a[1:] @ b, e(65, 72), e(72, 64)).a_align == 16


@pytest.mark.parametrize("base", [1, 2, 4, 8, 16])
def test_a_base_limits_the_alignment(base: int) -> None:
    found = facts(torch.matmul, e(64, 64), e(64, 64), base=base)
    assert (found.a_align, found.b_align, found.d_align) == (max(base, 2), max(base, 2), 16)


def test_a_shared_operand_has_no_batch_stride() -> None:
    assert facts(torch.matmul, e(3, 64, 64), e(64, 64)).b_align == 16
    assert facts(torch.matmul, e(3, 64, 64), e(1, 64, 64)).b_align == 16


def test_rows_of_d_are_aligned_in_length_too() -> None:
    """A padded row of D is no licence: what a bulk store writes beyond n must not be relied on."""
    form = form_of(torch.matmul, e(64, 64), e(64, 64))
    padded = replace(form, n=60, d=replace(form.d, m=64))
    assert facts_of(padded, 16).d_align == 8
    assert facts_of(replace(form, n=56, d=replace(form.d, m=64)), 16).d_align == 16


def test_d_without_a_unit_stride_is_stored_by_elements() -> None:
    found = facts(lambda a, b: torch.einsum("mkb,knb->mnb", a, b).contiguous(), e(64, 64, 8), e(64, 64, 8))
    assert found.d_align == 2


def test_an_empty_result_asks_for_no_product() -> None:
    assert facts(torch.matmul, e(0, 64), e(64, 64)).k == 0
    assert facts(torch.matmul, e(64, 0), e(0, 64)).k == 0


def test_dtypes_extents_and_ops() -> None:
    def fn(a, b, c, r):
        return F.relu((a * 2) @ b + c + r).float()

    found = facts(fn, e(3, 32, 64), e(64, 48), e(48), e(3, 32, 48))
    assert (found.m, found.n, found.k, found.batch) == (96, 48, 64, 1)
    assert (found.in_dtype, found.in_bytes, found.out_dtype, found.out_bytes) == ("bf16", 2, "fp32", 4)
    assert (found.input_ops, found.epilogue_load_bytes) == (1, 2)  # the residual; a bias is read once per column


@pytest.mark.parametrize(
    ("name", "align", "vectors"),
    [
        ("plain", 16, (8, 8)),
        ("plain", 2, (1, 1)),
        ("odd_k", 16, (1, 8)),
        ("leading_dimension_of_8_bytes", 16, (4, 8)),
        ("no_unit_stride", 16, (1, 8)),
        ("same_row_expanded", 16, (1, 8)),
        ("overlapping_windows", 16, (1, 8)),
        ("one_row_of_100", 16, (8, 4)),
    ],
)
def test_a_staged_load_stays_inside_of_a_contiguous_aligned_run(name: str, align: int, vectors) -> None:
    form = form_of(torch.matmul, *PRODUCTS[name][:2])
    found = facts_of(form, align)
    operands = ((form.a, form.m, found.a_align), (form.b, form.n, found.b_align))
    assert tuple(vector_of(o, outer, form.k, aligned) for o, outer, aligned in operands) == vectors
