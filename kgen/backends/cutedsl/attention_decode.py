"""DecodeView: the text of an attention whose few rows per head of K and V are one tile, a CTA for each part of keys."""

from collections.abc import Mapping
from typing import Final

from kgen.backends.cutedsl.attention_arguments import parameters
from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_device import (
    CONSUMER,
    attention_view,
    launch_head,
    tensor_views,
)
from kgen.backends.cutedsl.attention_device import FOLDER as PREFILL
from kgen.backends.cutedsl.attention_lengths import length_view, masks_by_length, measured, printed_form
from kgen.backends.cutedsl.attention_modes import Modes, Whole, are_rows, coordinates, modes_of, packs_heads
from kgen.backends.cutedsl.attention_views import Sections
from kgen.backends.source.lines import Lines, bracketed
from kgen.families.attention.form import AttentionForm
from kgen.planning.plan_attention import AttentionVariant

FOLDER: Final = "cutedsl/sm90/attention_decode"
_FIRST: Final = "max(self.least, 0) // self.tile_n"  # block of keys
_LAYOUTS: Final = "smem of Q (64, d, 1) with zeros where no query is, K (keys, d, stage), V as B (dv, keys, stage)."
_PACKED: Final = "(v.q_rows, MMA_M // v.q_rows)"


def decode_view(variant: AttentionVariant, whole: Whole) -> DecodeView:
    """Return what the device templates print for a variant; `whole` names operands that vary along all heads."""
    form, combines = printed_form(variant), variant.combined
    prefill = attention_view(variant, whole)
    packed = packs_heads(variant)
    modes = modes_of(variant, whole)
    after = prefill.epilogue_fused
    measures, masks = measured(variant) is not None, masks_by_length(variant)
    lengths, table = ", mLengths" if measures else "", ", mTable" if form.pages else ""
    outputs = f", mParts, mSums{prefill.fused}" if combines else f", mO{prefill.lse}{prefill.fused}{after}"
    sliding = form.keys.lengths is not None and form.keys.lengths.sliding
    length, place = ", length" if masks else "", ", batch" if prefill.places_scores else ""
    passed = f"tma_q, mQ, tma_k, mK, tma_v, mV{lengths}{table}{outputs}".split(", ")
    placed = f", where{place}" if place else ""
    return DecodeView(
        combines=combines,
        measures=measures,
        length_words=prefill.length_words,
        seen="length + (self.queries - 1)" if sliding else "length",
        seen_blocks=_minus_first("(seen + self.tile_n - 1) // self.tile_n", form),
        length=length,
        lengths=lengths,
        paged=form.pages is not None,
        page=_page(form),
        table=table,
        walked_keys="v.page" if form.pages else "v.keys",
        box_n="v.box_n()" if form.pages else "v.tile_n",
        layout_parameters=", keys" if form.pages else "",
        layout_keys="keys" if form.pages else "self.tile_n",
        step_keys="v.tile_n" if form.pages else "",
        box_keys="v.box_n()" if form.pages else "",
        item=_item(measures, masks, "head" if measures or not combines or place else ""),
        load_head=_load_head(lengths + table),
        kernel_head=bracketed("def attention(", ("v: cutlass.Constexpr", "blocks", *passed), "):"),
        launch_call=bracketed("attention(", ("v", "blocks", *passed), ").launch(", indent=4),
        combine_call=_combine_call(prefill.lse + after),
        key_blocks=_key_blocks(form),
        first_block=f"{_FIRST} + first" if form.keys.least is not None else "first",
        row_words=": the queries of a head, then those of the next one" if packed else "",
        score_row=_score_row(packed),
        stored_row=_row_at("row + r * 8", packed),
        q_tile=f"({_PACKED}, v.d_pad)" if packed and not are_rows(variant) else "(MMA_M, v.d_pad)",
        layout_words=_LAYOUTS,
        q_buffers="1",
        staged_words="",
        q_at=coordinates(tuple(mode.replace("group", "0") for mode in modes["q"])),
        k_at=prefill.k_at,
        v_at=prefill.v_at,
        policy=", cache_policy=EVICT_FIRST" if reads_once(form) else "",
        pingpong=False,
        masks_always=True,
        first_step=_step("first", f"{place}{length}{prefill.fused}, first=True", 8),
        next_step=_step("block", f"{place}{length}{prefill.fused}", 12),
        placed=placed,
        step_parameters=f"v, pipes, reads, where{place}{length}{prefill.fused}",
        modified=(f"self.modify(v{placed}{prefill.fused})",) if prefill.modified else (),
        places_scores=prefill.places_scores,
        score_lines=prefill.score_lines,
        score_result=prefill.score_result,
        masks_rows=prefill.masks_rows,
        query="v.row_at(row + i // 2 % 2 * 8)[0]" if packed else prefill.query,
        mask_lines=prefill.mask_lines,
        exp2_scale=prefill.exp2_scale,
        empty_words=prefill.empty_words,
        inverse_sum=prefill.inverse_sum,
        inverse_total=prefill.inverse_sum.replace("c.row_sum[r]", "total"),
        lse=prefill.lse,
        lse_value=prefill.lse_value,
        lse_total=prefill.lse_value.replace("c.row_sum[r]", "total"),
        store_open="epilogue_ops(" if prefill.epilogue_lines else "(",
        store_close=f", at_o{after})" if prefill.epilogue_lines else ").to(OUT)",
        fused=prefill.fused,
        epilogue_fused=after,
        epilogue_lines=prefill.epilogue_lines,
        epilogue_result=prefill.epilogue_result,
        outputs=outputs,
        launch_head=launch_head(parameters(variant)),
        view_lines=_view_lines(variant, form, modes),
    )


def decode_templates(view: DecodeView) -> Sections:
    """Return the names of the templates in the order they stand in the file."""
    ops = (f"{FOLDER}/modify.py.j2",) if view.modified else ()
    stores = ("store_part", "combine") if view.combines else (*(("store_lse",) if view.lse else ()), "store")
    return Sections(
        variant=(
            f"{FOLDER}/items.py.j2",
            *((f"{FOLDER}/pages.py.j2",) if view.paged else ()),
            *((f"{FOLDER}/row_at.py.j2",) if view.row_words else ()),
            f"{PREFILL}/layouts.py.j2",
            f"{PREFILL}/operands.py.j2",
        ),
        before=(
            f"{PREFILL}/tma_views.py.j2",
            f"{FOLDER}/{'load_pages' if view.paged else 'load_block'}.py.j2",
            f"{FOLDER}/load.py.j2",
            f"{PREFILL}/softmax.py.j2",
        ),
        consumer=(*CONSUMER[:2], *ops, *CONSUMER[2:]),
        after=(
            *((f"{PREFILL}/epilogue_ops.py.j2",) if view.epilogue_lines else ()),
            *(f"{FOLDER}/{name}.py.j2" for name in (*stores, "consume_item", "kernel", "launch")),
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


def _score_row(packed: bool) -> Lines:
    """Return the statements that make query and group of the row of score i, of one that exists."""
    row = "row + i // 2 % 2 * 8"
    if not packed:
        return (f"m, group = cutlass.min({row}, v.queries - 1), 0",)
    return f"m, group = v.row_at({row})", "m, group = cutlass.min(m, v.queries - 1), cutlass.min(group, v.ratio - 1)"


def _step(block: str, passed: str, indent: int) -> Lines:
    """Return the statement of the step of one block; `passed` is what scores need besides their place."""
    taken = ("v", "pipes", "reads", f"(row, column + {block} * v.tile_n)", *passed.split(", ")[1:])
    return bracketed("reads = c.step(", taken, ")", indent)


def _item(measures: bool, masks: bool, head: str) -> Lines:
    """Return the statements that make the blocks of an item, and the coordinates of its `head` where they are read."""
    lines = [f"part, {head or '_'} = v.item_at(index)", *(["batch = v.batch_at(head)"] if head else [])]
    if not measures:
        return (*lines, "first, count = v.part_of(blocks, part)")
    return (
        *lines,
        f"{'length' if masks else '_'}, seen = v.seen_of(blocks, mLengths, batch)",
        "first, count = v.part_of(seen, part)",
    )


def _combine_call(further: str) -> Lines:
    head = f"combine(v, mParts, mSums, mO{further}).launch("
    given = ("grid=(prod(v.batch), rows, 1)", "block=(32, 1, 1)", "stream=stream", "use_pdl=True")
    return bracketed(head, given, ")", indent=4)


def _key_blocks(form: AttentionForm) -> Lines:
    """Return the statements that count the blocks of keys that any query sees."""
    last = "v.keys" if form.keys.most is None else "min(v.keys, max(v.queries + v.most, 1))"
    blocks = f"-(-{last} // v.tile_n)"
    if form.keys.least is None:
        return (f"blocks = cutlass.Int32({blocks})",)
    first = _FIRST.replace("self.", "v.")
    return (f"end = {blocks}", f"blocks = cutlass.Int32(max(end - {first}, 1))")


def _minus_first(blocks: str, form: AttentionForm) -> str:
    return blocks if form.keys.least is None else f"{blocks} - {_FIRST}"


def _page(form: AttentionForm) -> Lines:
    """Return the statements that make a page's number by an entry of the table."""
    if form.pages is None:
        return ()
    lines = ("page = cutlass.Int32(mTable[(entry, *batch)])",)
    from_end = "page = page + cutlass.select_(page < 0, cutlass.Int32(v.pages), cutlass.Int32(0))  # -1 is the last one"
    return (*lines, from_end) if form.pages.wraps else lines


def _load_head(tables: str) -> Lines:
    given = "v: cutlass.Constexpr, blocks, pipes, tma_q, mQ, sQ, tma_k, mK, sK, tma_v, mV, sV"
    return bracketed("def load_item(", f"{given}{tables}".split(", "), "):")


def _rows(variant: AttentionVariant) -> str:
    """Return the extents of the rows of Q: queries, or those of all heads that share keys in one mode."""
    if not packs_heads(variant):
        return "queries"
    return "v.q_rows * (v.ratio - 1) + queries" if are_rows(variant) else "(queries, v.ratio)"


def _view_lines(variant: AttentionVariant, form: AttentionForm, modes: Mapping[str, Modes]) -> Lines:
    pages = ["pages = cutlass.Int32(v.pages)"] if form.pages else []
    lines = [*pages, *tensor_views(form, _rows(variant), modes)]
    lines += length_view(variant)
    if form.pages is not None:
        pointer = "table.iterator + v.table_offset" if form.pages.offset else "table.iterator"
        layout = "cute.make_layout((-(-v.keys // v.page), *v.batch), stride=v.table_stride)"
        lines += bracketed("mTable = cute.make_tensor(", (pointer, layout), ")", indent=4)
    return tuple(lines)
