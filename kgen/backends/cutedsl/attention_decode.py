"""DecodeView: the text of an attention whose few rows per head of K and V are one tile, a CTA for each part of keys."""

from dataclasses import replace
from typing import Final

from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_device import (
    CONSUMER,
    attention_view,
    launch_head,
    parameters,
    q_view,
    tensor_views,
    tensors,
)
from kgen.backends.cutedsl.attention_device import FOLDER as PREFILL
from kgen.backends.cutedsl.attention_lengths import masks_by_length, measured, printed_form
from kgen.backends.cutedsl.attention_modes import coordinate_lines
from kgen.backends.cutedsl.attention_views import Sections
from kgen.backends.source.lines import Lines, bracketed
from kgen.families.attention.form import AttentionForm
from kgen.planning.plan_attention import AttentionVariant

FOLDER: Final = "cutedsl/sm90/attention_decode"
PARTS: Final = ("parts", "sums")  # parameters of the launch function, where keys are split
_FIRST: Final = "max(self.least, 0) // self.tile_n"  # block of keys
_LAYOUTS: Final = "smem of Q (64, d, 1) with zeros where no query is, K (keys, d, stage), V as B (dv, keys, stage)."
_PACKED: Final = "(v.q_rows, MMA_M // v.q_rows)"


def decode_view(variant: AttentionVariant, whole: bool) -> DecodeView:
    """Return what the device templates print for a variant; `whole`: Q, K and V vary along all heads."""
    form, combines = printed_form(variant), variant.combined
    prefill = attention_view(replace(variant, form=form), whole)
    packed = bool(variant.choice.candidate.value("pack_gqa"))
    after = prefill.epilogue_fused
    measures, masks = measured(variant) is not None, masks_by_length(variant)
    lengths, table = ", mLengths" if measures else "", ", mTable" if form.pages else ""
    outputs = f", {'mParts, mSums' if combines else 'mO'}{prefill.fused}{'' if combines else after}"
    sliding = form.keys.lengths is not None and form.keys.lengths.sliding
    length, place = ", length" if masks else "", ", batch" if prefill.places_scores else ""
    passed = f"tma_q, mQ, tma_k, mK, tma_v, mV{lengths}{table}{outputs}".split(", ")
    placed = f", where{place}" if place else ""
    return DecodeView(
        combines=combines,
        measures=measures,
        length_words="how many keys its first query sees" if sliding else "how many keys a sequence has",
        seen="length + (self.queries - 1)" if sliding else "length",
        seen_blocks=_minus_first("(seen + self.tile_n - 1) // self.tile_n", form),
        length=length,
        lengths=lengths,
        paged=form.pages is not None,
        wraps=form.pages is not None and form.pages.wraps,
        page=_page(form),
        table=table,
        walked_keys="v.page" if form.pages else "v.keys",
        box_n="v.box_n()" if form.pages else "v.tile_n",
        layout_parameters=", keys" if form.pages else "",
        layout_keys="keys" if form.pages else "self.tile_n",
        step_keys="v.tile_n" if form.pages else "",
        box_keys="v.box_n()" if form.pages else "",
        box_coordinates="" if whole else ", k_at, v_at",
        reads_batch=measures or not combines or bool(place),
        load_head=_load_head(lengths + table),
        kernel_head=bracketed("def attention(", ("v: cutlass.Constexpr", "blocks: cutlass.Int32", *passed), "):"),
        launch_call=bracketed("attention(", ("v", "blocks", *passed), ").launch(", indent=4),
        key_blocks=_key_blocks(form),
        first_block=f"{_FIRST} + first" if form.keys.least is not None else "first",
        row_words=": the queries of a head, then those of the next one" if packed else "",
        score_row=_row_at("row + i // 2 % 2 * 8", packed),
        stored_row=_row_at("row + r * 8", packed),
        q_tile=f"({_PACKED}, v.d_pad)" if packed and not are_rows(variant) else "(MMA_M, v.d_pad)",
        layout_words=_LAYOUTS,
        q_buffers="1",
        staged_words="",
        coordinates=coordinate_lines(whole, q_first="" if packed else "0, ", q_modes=f"v.q_modes{'[1:]' * packed}"),
        q_at=("*batch" if packed else "0, *batch") if whole else "*q_at",
        k_at=prefill.k_at,
        v_at=prefill.v_at,
        policy=", cache_policy=EVICT_FIRST" if reads_once(form) else "",
        pingpong=False,
        masks_always=True,
        place=place,
        placed=placed,
        step_parameters=f"v, pipes, reads, where{place}{length}{prefill.fused}",
        modifies=prefill.modifies,
        modified=(f"self.modify(v{placed}{prefill.fused})",) if prefill.modifies else (),
        places_scores=prefill.places_scores,
        score_lines=prefill.score_lines,
        score_result=prefill.score_result,
        masks_rows=prefill.masks_rows or (masks and sliding),
        query="v.row_at(row + i // 2 % 2 * 8)[0]" if packed else prefill.query,
        mask_lines=_mask_lines(prefill.mask_lines, masks, sliding),
        exp2_scale=prefill.exp2_scale,
        empty_words=prefill.empty_words,
        inverse_sum=prefill.inverse_sum,
        inverse_total=prefill.inverse_sum.replace("c.row_sum[r]", "total"),
        stored=f"epilogue_ops(x, at_o{after})" if prefill.epilogue_lines else "x.to(OUT)",
        fused=prefill.fused,
        epilogue_fused=after,
        epilogue_lines=prefill.epilogue_lines,
        epilogue_result=prefill.epilogue_result,
        outputs=outputs,
        launch_head=launch_head(decode_parameters(variant)),
        view_lines=_view_lines(variant, form, _packed_view(variant, whole) if packed else q_view(whole), whole),
    )


def decode_parameters(variant: AttentionVariant) -> tuple[str, ...]:
    """Return the parameters of the launch function, tensors by their roles."""
    read = [*(["lengths"] if measured(variant) else []), *(["table"] if variant.form.pages else [])]
    return (*parameters(printed_form(variant)), *read, *(PARTS if variant.combined else ()))


def decode_tensors(variant: AttentionVariant) -> tuple[str, ...]:
    """Return the tensors of the program that these parameters are, which the parts at the end are not."""
    length, pages = measured(variant), variant.form.pages
    read = [*([length.tensor] if length else []), *([pages.tensor] if pages else [])]
    return (*tensors(printed_form(variant)), *read)


def decode_templates(view: DecodeView) -> Sections:
    """Return the names of the templates in the order they stand in the file."""
    ops = (f"{FOLDER}/modify.py.j2",) if view.modifies else ()
    stores = ("store_part", "combine") if view.combines else ("store",)
    return Sections(
        variant=(
            f"{FOLDER}/items.py.j2",
            *((f"{FOLDER}/pages.py.j2",) if view.paged else ()),
            *((f"{FOLDER}/row_at.py.j2",) if view.row_words else ()),
            f"{PREFILL}/layouts.py.j2",
            f"{PREFILL}/operands.py.j2",
        ),
        before=(
            *((f"{PREFILL}/of_tensor.py.j2",) if view.coordinates else ()),
            f"{PREFILL}/tma_views.py.j2",
            f"{FOLDER}/{'load_pages' if view.paged else 'load_block'}.py.j2",
            f"{FOLDER}/load.py.j2",
            f"{PREFILL}/softmax.py.j2",
        ),
        consumer=(*CONSUMER[:2], *ops, *CONSUMER[2:]),
        after=(
            *((f"{PREFILL}/epilogue_ops.py.j2",) if view.epilogue_lines else ()),
            *(f"{FOLDER}/{name}.py.j2" for name in (*stores, "consume", "consume_item", "kernel", "launch")),
        ),
    )


def reads_once(form: AttentionForm) -> bool:
    """Return whether every head of K and V is the operand of one item alone: L2 need not keep what was read."""
    table = form.pages.batch if form.pages else (0,) * len(form.batch)
    walks = (zip(form.batch, x.batch, table, strict=True) for x in (form.k, form.v))
    return all(extent == 1 or stride or entry for walk in walks for extent, stride, entry in walk)


def _row_at(row: str, packed: bool) -> str:
    """Return query and group of a row of the tile."""
    return f"v.row_at({row})" if packed else f"{row}, 0"


def _key_blocks(form: AttentionForm) -> Lines:
    last = "self.keys" if form.keys.most is None else "min(self.keys, max(self.queries + self.most, 1))"
    blocks = f"-(-{last} // self.tile_n)"
    return (f"return {blocks}",) if form.keys.least is None else (f"end = {blocks}", f"return max(end - {_FIRST}, 1)")


def _minus_first(blocks: str, form: AttentionForm) -> str:
    return blocks if form.keys.least is None else f"{blocks} - {_FIRST}"


def _mask_lines(lines: Lines, masks: bool, sliding: bool) -> Lines:
    """Return the statements of the condition `inside`, which a length bounds, too."""
    return (*lines, f"inside = inside & (n < length{' + m' if sliding else ''})") if masks else lines


def _page(form: AttentionForm) -> str:
    """Return a page's number by an entry of the table."""
    if form.pages is None:
        return ""
    entry = "mTable[(entry, *batch)]"
    return f"v.wrapped({entry})" if form.pages.wraps else f"cutlass.Int32({entry})"


def _load_head(tables: str) -> Lines:
    given = "v: cutlass.Constexpr, blocks, pipes, tma_q, mQ, sQ, tma_k, mK, sK, tma_v, mV, sV"
    return bracketed("def load_item(", f"{given}{tables}".split(", "), "):")


def are_rows(variant: AttentionVariant) -> bool:
    """Return whether one stride walks the rows of a tile, those that pad the queries of a head included.

    A TMA descriptor joins the two modes of such rows into one, of which it then knows no extent.
    """
    return variant.form.q.group == variant.facts.padded_queries * variant.form.q.tokens


def _packed_view(variant: AttentionVariant, whole: bool) -> tuple[str, str]:
    """Return the shape and the stride of Q with the queries of all heads that share keys in one mode."""
    batch = "*v.batch" if whole else "*v.q_modes[1:]"
    if are_rows(variant):
        rows = "v.q_rows * (v.ratio - 1) + queries"
        return f"({rows}, d, {batch})", "(v.q_stride[0], v.q_stride[1], *v.q_stride[3:])"
    return f"((queries, v.ratio), d, {batch})", "((v.q_stride[0], v.q_stride[2]), v.q_stride[1], *v.q_stride[3:])"


def _view_lines(variant: AttentionVariant, form: AttentionForm, q_view: tuple[str, str], whole: bool) -> Lines:
    pages = ["pages = cutlass.Int32(v.pages)"] if form.pages else []
    lines = [*pages, *tensor_views(form, q_view, whole)]
    if (length := measured(variant)) is not None:
        pointer = "lengths.iterator + v.lengths_offset" if length.offset else "lengths.iterator"
        layout = "cute.make_layout((1, *v.batch), stride=v.lengths_stride)"
        lines += bracketed("mLengths = cute.make_tensor(", (pointer, layout), ")", indent=4)
    if form.pages is not None:
        pointer = "table.iterator + v.table_offset" if form.pages.offset else "table.iterator"
        layout = "cute.make_layout((-(-v.keys // v.page), *v.batch), stride=v.table_stride)"
        lines += bracketed("mTable = cute.make_tensor(", (pointer, layout), ")", indent=4)
    return tuple(lines)
