"""DecodeView: the text of an attention whose few rows per head of K and V are one tile, walked by a persistent grid."""

from typing import Final

from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_device import FOLDER as PREFILL
from kgen.backends.cutedsl.attention_device import attention_view, parameters, tensor_views
from kgen.families.attention.form import AttentionForm
from kgen.planning.plan_attention import AttentionVariant

FOLDER: Final = "cutedsl/sm90/attention_decode"
PARTS: Final = ("parts", "sums")  # parameters of the launch function, where keys are split
_PACKED: Final = "(v.q_rows, MMA_M // v.q_rows)"


def decode_view(variant: AttentionVariant) -> DecodeView:
    """Return what the device templates print for a variant."""
    form, prefill, combines = variant.form, attention_view(variant), variant.combined
    packed = bool(variant.choice.candidate.value("pack_gqa"))
    after = prefill.epilogue_fused
    return DecodeView(
        combines=combines,
        key_blocks=_key_blocks(form),
        first_block="max(v.least, 0) // v.tile_n + first" if form.keys.least is not None else "first",
        row_words=": the queries of a head, then those of the next one" if packed else "",
        row_at="row % v.q_rows, row // v.q_rows" if packed else "row, 0",
        q_words="the queries of all heads that share keys" if packed else "64 rows",
        q_tile=f"({_PACKED}, v.d_pad)" if packed else "(MMA_M, v.d_pad)",
        q_at="of_tensor(batch, v.q_modes[1:])" if packed else "of_tensor((0, *batch), v.q_modes)",
        policy=", cache_policy=cutlass.Int64(EVICT_FIRST)" if reads_once(form) else "",
        modifies=prefill.modifies,
        places_scores=prefill.places_scores,
        score_parameters=prefill.score_parameters,
        score_arguments=prefill.score_arguments,
        score_lines=prefill.score_lines,
        score_result=prefill.score_result,
        masks_rows=prefill.masks_rows,
        query="row_at(v, row + i // 2 % 2 * 8)[0]" if packed else prefill.query,
        mask_lines=prefill.mask_lines,
        exp2_scale=prefill.exp2_scale,
        empty_words=prefill.empty_words,
        inverse_sum=prefill.inverse_sum,
        inverse_total=prefill.inverse_sum.replace("row_sum[r]", "total"),
        stored=f"epilogue_ops(x, at_o{after})" if prefill.epilogue_lines else "x.to(OUT)",
        fused=prefill.fused,
        epilogue_fused=after,
        epilogue_lines=prefill.epilogue_lines,
        epilogue_result=prefill.epilogue_result,
        outputs=f", {'mParts, mSums' if combines else 'mO'}{prefill.fused}{'' if combines else after}",
        parameters=(*parameters(form), *(PARTS if combines else ())),
        view_lines=tensor_views(form, packed=packed),
    )


def decode_templates(view: DecodeView) -> tuple[str, ...]:
    """Return the names of the section templates in the order they stand in the file."""
    own = (
        f"{FOLDER}/items.py.j2",
        f"{PREFILL}/of_tensor.py.j2",
        f"{PREFILL}/layouts.py.j2",
        f"{FOLDER}/q_layout.py.j2",
        f"{PREFILL}/operands.py.j2",
        f"{PREFILL}/tma_views.py.j2",
        f"{FOLDER}/load.py.j2",
        f"{PREFILL}/products.py.j2",
        *((f"{PREFILL}/score_ops.py.j2", f"{FOLDER}/modify.py.j2") if view.modifies else ()),
        f"{PREFILL}/mask.py.j2",
        f"{PREFILL}/softmax.py.j2",
        *((f"{PREFILL}/epilogue_ops.py.j2",) if view.epilogue_lines else ()),
        *((f"{FOLDER}/store_part.py.j2", f"{FOLDER}/combine.py.j2") if view.combines else (f"{FOLDER}/store.py.j2",)),
    )
    return (*own, *(f"{FOLDER}/{name}.py.j2" for name in ("step", "consume", "kernel", "launch")))


def reads_once(form: AttentionForm) -> bool:
    """Return whether every head of K and V is the operand of one item alone: L2 need not keep what was read."""
    heads = [e for e in form.batch if e > 1]
    walks = ([s for e, s in zip(form.batch, x.batch, strict=True) if e > 1] for x in (form.k, form.v))
    return all(len(strides) == len(heads) and all(strides) for strides in walks)


def _key_blocks(form: AttentionForm) -> str:
    last = "v.keys" if form.keys.most is None else "min(v.keys, max(v.queries + v.most, 1))"
    blocks = f"-(-{last} // v.tile_n)"
    return blocks if form.keys.least is None else f"max({blocks} - max(v.least, 0) // v.tile_n, 1)"
