"""Whole modules with an attention inside: programs of products, loops and one attention, each kernel right."""

from dataclasses import replace
from pathlib import Path

import attention_modules as modules
import pytest
import torch
from emitted_specs import BF16, e
from spellings import t
from test_attention_lower import check, lowered

from kgen.families.attention.classify import classify_attention
from kgen.families.gemm.classify import classify_gemm
from kgen.frontend.importers import spec_from_callable
from kgen.ir.attention import attention_body
from kgen.ir.problem import Contract
from kgen.ir.program import Program
from kgen.package.files import package_files
from kgen.pipeline import run
from kgen.planning.plan_attention import AttentionVariant
from kgen.spec.load import load_spec
from kgen.target import load_device

SMALL = {
    "ones": (modules.MaskedSelfAttention, (12, 3, 9), (2, 5, 12)),
    "bool": (modules.MaskedSelfAttention, (12, 3, 9, "bool"), (2, 5, 12)),
    "made": (modules.MaskedSelfAttention, (12, 3, 9, "made"), (2, 5, 12)),
    "op": (modules.MaskedSelfAttention, (12, 3, 9, "op"), (2, 5, 12)),
    "block": (modules.TransformerBlock, (12, 3, 9), (2, 5, 12)),
    "pixels": (modules.PixelAttention, (12, 3), (2, 12, 3, 2)),
}


def kinds(program: Program) -> list[str]:
    """Return what each kernel is, each classified by its family."""
    found = []
    for problem in program.problems:
        if attention_body(problem) is not None:
            classify_attention(problem)
            found.append("attention")
        elif any(isinstance(s, Contract) for s in problem.body):
            classify_gemm(problem)
            found.append("product")
        else:
            found.append("loop")
    return found


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize("name", SMALL)
def test_a_module_is_a_program_of_products_and_one_attention(name: str, dtype: torch.dtype) -> None:
    made, arguments, shape = SMALL[name]
    torch.manual_seed(7)
    module, x = made(*arguments).to(dtype).requires_grad_(False), t(*shape, dtype=dtype)
    program, tensors = lowered(module, (x,))
    found = kinds(program)
    assert found.count("attention") == 1 and found.count("product") == (4 if name == "block" else 2)
    check(program, tensors, module(x), 3e-5 if dtype is torch.float32 else 4e-2)
    assert program.plain is not None and "attention" not in kinds(program.plain)
    check(program.plain, tensors, module(x), 3e-5 if dtype is torch.float32 else 4e-2)


def test_masks_that_are_made_in_the_module_are_bounds_and_those_in_buffers_are_read() -> None:
    for mask, exact in (("ones", False), ("bool", False), ("made", True), ("op", True)):
        program, _ = lowered(modules.MaskedSelfAttention(12, 3, 9, mask), (t(2, 5, 12),))
        form = next(classify_attention(p) for p in program.problems if attention_body(p) is not None)
        assert (form.keys.exact, form.keys.most, len(form.score_loads)) == (exact, 0 if exact else None, int(not exact))


# The shapes of published problems: a causal layer, a block, an image's attention.
WHOLE = {
    "layer": (modules.MaskedSelfAttention, (768, 8, 1024), (128, 512, 768)),
    "block": (modules.TransformerBlock, (768, 8, 1024), (128, 512, 768)),
    "pixels": (modules.PixelAttention, (128, 4), (2, 128, 128, 128)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_module_in_bf16_is_printed_with_its_attention_in_one_kernel(name: str) -> None:
    made, arguments, shape = WHOLE[name]
    spec = spec_from_callable(made(*arguments).to(BF16), (e(*shape),), name=name)
    plan = run(spec, load_device("h200")).made["plan"]
    assert not plan.cut and sum(isinstance(v, AttentionVariant) for v in plan.variants) == 1


def test_a_head_dim_of_1024_is_refused_by_the_rule_that_says_so() -> None:
    qkv = tuple(e(2, 4, 512, 1024) for _ in range(3))
    plan = run(spec_from_callable(modules.PlainAttention(), qkv), load_device("h200"), stop_after="plan").made["plan"]
    (reason,) = plan.cut
    assert "no candidate keeps to wgmma_n_output (dv_pad <= 256: " in reason
    assert not any(isinstance(v, AttentionVariant) for v in plan.variants)


SPEC = """
name: layer
reference:
  source: attention_modules.py::MaskedSelfAttention
  init_args: [128, 2, 64]
  dtype: bf16
inputs:
  x: {shape: [2, 64, 128], dtype: bf16}
"""


def test_a_module_of_a_file_is_cast_by_its_spec(tmp_path: Path) -> None:
    source = Path(modules.__file__).read_text(encoding="utf-8")
    (tmp_path / "attention_modules.py").write_text(source, encoding="utf-8")
    (tmp_path / "layer.yaml").write_text(SPEC, encoding="utf-8")
    spec = load_spec(tmp_path / "layer.yaml")
    made = run(spec, load_device("h200")).made
    files = package_files(spec, made)
    own, reference = {}, {}
    exec(files["reference.py"], reference)
    exec(source, own)
    torch.manual_seed(3)
    cast = reference["Model"](128, 2, 64)
    torch.manual_seed(3)
    wanted = own["MaskedSelfAttention"](128, 2, 64).to(BF16)
    for (name, one), (_, other) in zip(cast.state_dict().items(), wanted.state_dict().items(), strict=True):
        assert one.dtype == BF16 and torch.equal(one, other), name
    text = files["kernel.py"]
    assert "        self.register_buffer(" in text and text.count("        self.bfloat16()\n") == 1
    assert any(isinstance(v, AttentionVariant) for v in made["plan"].variants)
    assert spec != replace(spec, reference=replace(spec.reference, dtype=None))
