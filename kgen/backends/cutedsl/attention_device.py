"""AttentionView: score, mask, softmax, epilogue and tensors of one variant as source text."""

from collections.abc import Mapping
from typing import Final

from kgen.backends.cutedsl.attention_arguments import parameters
from kgen.backends.cutedsl.attention_bounds import SEEN, block_bounds, mask_lines, numbers
from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_lengths import (
    length_view,
    length_words,
    masks_by_length,
    masks_by_sequence,
    measured,
    printed_form,
)
from kgen.backends.cutedsl.attention_modes import Modes, Whole, coordinates, extents, modes_of
from kgen.backends.cutedsl.attention_reads import Read, epilogue_reads, score_reads
from kgen.backends.cutedsl.attention_views import AttentionView, BlockLoopView, Sections
from kgen.backends.cutedsl.expressions import library_source, loaded, print_ops
from kgen.backends.source.attention import modifies, score_ops
from kgen.backends.source.lines import LINE, bracketed, tuple_text
from kgen.families.attention.form import AttentionForm, Coordinate
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import operands_of
from kgen.planning.plan_attention import AttentionVariant

FOLDER: Final = "cutedsl/sm90/attention"
_WAIT: Final = "cute.arch.cp_async_bulk_wait_group(0, read=True)"
_MEET: Final = "cute.arch.barrier(barrier_id=4 + c.group, number_of_threads=WARP_GROUP)"
CONSUMER_FIELDS: Final = f"{FOLDER}/consumer.py.j2"
CONSUMER: Final = tuple(
    f"{FOLDER}/{name}.py.j2" for name in ("consumer_of", "products", "mask", "softmax_rows", "step")
)
_TO_SMEM: Final = {
    2: "warp.StMatrix8x8x16bOp(False, 4), OUT",
    4: "cute.nvgpu.CopyUniversalOp(), OUT, num_bits_per_copy=64",
}

_OWN_LAYOUTS: Final = (
    "smem of Q (64, d, warp group), K (keys, d, stage), V as B (dv, keys, stage), O (64, dv, warp group)."
)
_SHARED_LAYOUTS: Final = (
    "smem of Q and O of one warp group, which share theirs, of K (keys, d, stage), V (dv, keys, stage)."
)
_EMPTY_ROWS: Final = {
    "zeros": "a row that sees no key has the sum 0, and gives zeros",
    "nan": "a row that sees no key has the sum 0, and gives 0 * inf, which is NaN",
}


def attention_view(variant: AttentionVariant, whole: Whole) -> AttentionView:
    """Return what the device templates print for a variant; `whole` names operands that vary along all heads."""
    form, modes = printed_form(variant), modes_of(variant, whole)
    has_most, has_least = form.keys.most is not None, form.keys.least is not None
    score, result, arguments = _score(form)
    epilogue, epilogue_result = _epilogue(form)
    edges = form.keys.exact and (has_most or has_least)
    masks, sliding = masks_by_length(variant), form.keys.lengths is not None and form.keys.lengths.sliding
    by_sequence = masks_by_sequence(variant)
    masks_first = (has_least and edges) or by_sequence
    length = ", length" if masks else ", fused" if by_sequence else ""
    own_o = variant.choice.candidate.value("o_path") == "own"
    fused, place = ", fused" if form.score_loads else "", ", tile" if "m" in arguments else ""
    placed, passed = f", where{place}" if place else "", f"{place}{length if masks else ''}{fused}"
    bounds = ", mLengths" if measured(variant) else ", mRanges" if variant.ranges_keys else ""
    number_of_query, number_of_key = (_narrow(variant, number) for number in numbers(form, "row", "n"))
    return AttentionView(
        longest_first=has_most,
        length_words=length_words(form),
        ranges=variant.ranges_keys,
        query_number=number_of_query,
        key_number=number_of_key,
        bounds=bounds,
        seen=SEEN[bounds].parameters,
        load_seen=SEEN[bounds].load,
        tile_seen=SEEN[bounds].tile,
        seen_lines=SEEN[bounds].lines,
        block_bounds=block_bounds(variant, form, edges),
        pingpong=bool(variant.choice.candidate.value("pingpong")),
        own_o=own_o,
        staged_words="in smem of their own" if own_o else "where its rows of Q were",
        q_read=("pipe_q.consumer_release(reads[0])", "reads[0].advance()") if own_o else (),
        q_left=() if own_o else ("read_q, _, _ = reads", "pipes[0].consumer_release(read_q)", "read_q.advance()"),
        o_free=(f"{_WAIT}  # the rows of the tile before have left", _MEET) if own_o else (f"{_MEET}  # Q is read",),
        o_sent=() if own_o else (_WAIT,),
        o_last=(_WAIT,) if own_o else (),
        modified=(f"self.modify(v{placed}{fused})",) if modifies(form) else (),
        places_scores="m" in arguments,
        score_lines=score,
        score_result=result,
        masks_rows=edges or (masks and sliding) or by_sequence,
        query="row + i // 2 % 2 * 8",
        length=length,
        mask_lines=mask_lines(variant, form, edges),
        exp2_scale="LOG2_E" if modifies(form) else "v.scale * LOG2_E",
        first="first" if masks_first else "_",
        layout_words=_OWN_LAYOUTS if own_o else _SHARED_LAYOUTS,
        layout_parameters="",
        layout_keys="self.tile_n",
        q_buffers="self.tile_m // MMA_M" if own_o else "1",
        q_at=coordinates(modes["q"]),
        k_at=coordinates(modes["k"]),
        v_at=coordinates(modes["v"]),
        placed=placed,
        masks_always=False,
        step_parameters=f"v, masked, pipes, reads, where{passed}",
        loop_words=", masked ones" if masks_first else "",
        first_step=_step("(row, column + (end - 1) * v.tile_n)", "True", f"{passed}, first=True", 4),
        loops=_loops(masks_first, passed),
        empty_words=_EMPTY_ROWS[form.empty_rows],
        inverse_sum=_inverse_sum(form),
        lse=", mL" if form.logsumexp else "",
        lse_value=_lse_value(form),
        fused=fused,
        epilogue_fused=", after" if form.epilogue_loads else "",
        epilogue_lines=epilogue,
        epilogue_result=epilogue_result,
        to_smem_atom=_TO_SMEM[form.out.dtype.bytes],
        launch_head=launch_head((*parameters(variant), "sm_count: cutlass.Int32")),
        view_lines=(*tensor_views(form, "queries", modes), *length_view(variant), *_ranges_view(variant)),
    )


def section_templates(variant: AttentionVariant, view: AttentionView) -> Sections:
    """Return the names of the templates in the order they stand in the file."""
    ops = (*(("turns",) if view.pingpong else ()), *(("modify",) if view.modified else ()))
    rows = ("tiles", *(("length_of",) if view.seen_lines else ()), "key_blocks", "layouts", "operands")
    before = (
        *(() if view.own_o else ("boxes",)),
        *(("find_ranges",) if view.ranges else ()),
        *("tile_of", "tma_views", "load", "softmax"),
    )
    after = (
        *(("store_lse",) if variant.form.logsumexp else ()),
        *(("epilogue_ops",) if view.epilogue_lines else ()),
        *("store", "attend", "consume", "kernel", "launch"),
    )
    return Sections(
        variant=tuple(f"{FOLDER}/{name}.py.j2" for name in rows),
        before=tuple(f"{FOLDER}/{name}.py.j2" for name in before),
        consumer=(*CONSUMER[:2], *(f"{FOLDER}/{name}.py.j2" for name in ops), *CONSUMER[2:]),
        after=tuple(f"{FOLDER}/{name}.py.j2" for name in after),
    )


def library_sections(view: AttentionView | DecodeView) -> tuple[str, ...]:
    """Return the source of the library functions that the printed ops call."""
    return library_source((*view.score_lines, view.score_result, *view.epilogue_lines))


def _score(form: AttentionForm) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return the statements of the score, its result, and what they take besides the scaled product."""
    ops = score_ops(form)
    used = {o for op in ops for o in operands_of(op)}
    reads = {i: read for i, read in enumerate(score_reads(form)) if used.intersection(read.values)}
    names, types = {form.scaled: "x0"}, {form.scaled: DType.FP32}
    coordinates = [c for c in form.coordinates if c.value in used]
    lines = _loads(reads, "fused", "here = (INDEX(m), INDEX(n), INDEX(group), *batch)", "here", names, types)
    for coordinate in coordinates:
        names[coordinate.value] = name = f"x{len(set(names.values()))}"
        types[coordinate.value] = DType.INT64
        lines.append(f"{name} = {_coordinate(coordinate)}")
    lines += print_ops(ops, names, types)
    result = names[form.keys.unmasked if form.keys.exact else form.score]
    if lines and lines[-1].startswith(f"{result} = "):
        result = lines.pop().removeprefix(f"{result} = ")
    arguments = ["m", "n", "group", "batch"] if reads or coordinates else []
    return tuple(lines), result, (*arguments, *(["fused"] if reads else []))


def _loads(
    reads: Mapping[int, Read], packed: str, head: str, at: str, names: dict[str, str], types: dict[str, DType]
) -> list[str]:
    """Return the statements that load one element of each tensor; extends the names and types of values.

    `reads` have their place among those that are `packed`; `head` is the statement that makes the coordinates `at`, or
    empty.
    """
    lines = [head] if reads and head else []
    for i, read in reads.items():
        name = f"x{len(set(names.values()))}"
        names |= dict.fromkeys(read.values, name)
        types |= dict.fromkeys(read.values, read.dtype)
        lines.append(f"{name} = {loaded(f'{packed}[{i}][{at}]', read.dtype)}  # {read.tensor}")
    return lines


def _coordinate(coordinate: Coordinate) -> str:
    """Return the coordinate of one axis as a whole number of 64 bits."""
    names = {"queries": "m", "keys": "n", "group": "group"}
    along = coordinate.along
    code = names[along] if along in names else f"batch[{int(along.removeprefix('batch_'))}]"
    if coordinate.divisor != 1:
        code = f"{code} // {coordinate.divisor}"
    if along not in ("queries", "keys"):
        code = f"{code} % {coordinate.extent}"
    return f"cutlass.Int64({code})"


def _loops(masks_first: bool, passed: str) -> tuple[BlockLoopView, ...]:
    """Return the loops over blocks behind the last one: masked, plain, masked.

    The first one stands there even where it runs zero times: ptxas joins a lone loop with the block before it, and
    spills from 152 scores, weights and sums a thread on; beside another loop it holds 184.
    """
    loops = [("end - 1 - plain_end", "end - 2", "True"), ("plain_end - plain_first", "plain_end - 1", "False")]
    if masks_first:
        loops.append(("plain_first - first", "plain_first - 1", "True"))
    return tuple(
        BlockLoopView(count, _step(f"(row, column + ({last} - i) * v.tile_n)", masked, passed, 8))
        for count, last, masked in loops
    )


def _step(where: str, masked: str, passed: str, indent: int) -> tuple[str, ...]:
    """Return the statement of the step of the block at `where`; `passed` is what scores need, too."""
    taken = ("v", masked, "pipes", "reads", where, *passed.split(", ")[1:])
    return bracketed("reads = c.step(", taken, ")", indent)


def _ranges_view(variant: AttentionVariant) -> tuple[str, ...]:
    if not variant.ranges_keys:
        return ()
    return ("mRanges = cute.make_tensor(ranges.iterator, cute.make_layout((v.row_blocks(), 4), stride=(4, 1)))",)


def _narrow(variant: AttentionVariant, code: str) -> str:
    """Return the number of a sequence in 32 bits: greater ones are the greatest one, and fewer keys are left out."""
    sequences = variant.form.sequences
    if sequences is None or {load.dtype for load in sequences} == {DType.INT32}:
        return code
    return f"cutlass.Int32(cutlass.max(cutlass.min({code}, 2**31 - 1), -(2**31)))"


def _inverse_sum(form: AttentionForm) -> str:
    inverse = "cute.arch.rcp_approx(c.row_sum[r])"
    if form.empty_rows == "zeros":
        return f"cutlass.select_(c.row_sum[r] == 0.0, ACC(0.0), {inverse})"
    return inverse


def _lse_value(form: AttentionForm) -> str:
    if form.logsumexp is None:
        return ""
    code = "found"
    if form.logsumexp.empty_rows == "nan":
        code = "cutlass.select_(c.row_sum[r] == 0.0, ACC(ACC.nan), found)"
    return code if form.logsumexp.dtype is DType.FP32 else f"{code}.to(mL.element_type)"


def _epilogue(form: AttentionForm) -> tuple[tuple[str, ...], str]:
    """Return the statements of the epilogue and its result; none where it only rounds, which the store does."""
    names, types = {form.output: "x0"}, {form.output: DType.FP32}
    lines = _loads(dict(enumerate(epilogue_reads(form))), "after", "", "at", names, types)
    rounds = all(op.op is Op.CAST and op.dtype is form.out.dtype for op in form.epilogue_ops)
    if rounds:
        return (), "x0"
    lines += print_ops(form.epilogue_ops, names, types)
    return tuple(lines), names[form.result]


def _read_views(names: str, extent: str, reads: tuple[Read, ...]) -> tuple[str, ...]:
    """Return the statement that views what scores or the epilogue read, as a tuple; `extent` is that of a row."""
    if not reads:
        return ()
    pairs = [f"({_pointer(r.name, r.offset)}, v.{r.name}_stride)" for r in reads]
    line = f"for pointer, stride in {tuple_text(pairs)}"
    listed = (line,) if len(line) + 8 <= LINE else ("for pointer, stride in (", *(f"    {p}," for p in pairs), ")")
    return (
        f"{names} = tuple(",
        f"    cute.make_tensor(pointer, cute.make_layout((v.queries, {extent}, v.ratio, *v.batch), stride=stride))",
        *(f"    {part}" for part in listed),
        ")",
    )


def _pointer(name: str, offset: int) -> str:
    return f"{name}.iterator + v.{name}_offset" if offset else f"{name}.iterator"


def launch_head(taken: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines that open the launch function."""
    return bracketed("def launch_attention(", (*taken, "stream", "v: cutlass.Constexpr"), "):")


def tensor_views(form: AttentionForm, rows: str, modes: Mapping[str, Modes]) -> tuple[str, ...]:
    """Return the statements that view Q, K, V and O, what scores and the epilogue read, and where logsumexp goes.

    `rows` are those of Q, `modes` what Q, K and V have behind tokens and head dim.
    """
    pages = ", pages" if form.pages else ""
    q_modes, k_modes, v_modes = (extents(modes[name]) for name in ("q", "k", "v"))
    roles = (
        ("mQ", _pointer("q", form.q.offset), f"({rows}, d{q_modes})", "v.q_stride"),
        ("mK", _pointer("k", form.k.offset), f"(keys, d{k_modes}{pages})", "v.k_stride"),
        ("mV", _pointer("values", form.v.offset), f"(dv, keys{v_modes}{pages})", "v.v_stride"),
        ("mO", _pointer("o", form.out.offset), "(queries, dv, v.ratio, *v.batch)", "v.o_stride"),
    )
    lines: list[str] = []
    for name, pointer, shape, stride in roles:
        layout = f"cute.make_layout({shape}, stride={stride})"
        lines += bracketed(f"{name} = cute.make_tensor(", (pointer, layout), ")", indent=4)
    packs = (("fused", "v.keys", score_reads(form)), ("after", "v.dv", epilogue_reads(form)))
    for names, extent, reads in packs:
        lines += _read_views(names, extent, reads)
    if form.logsumexp:
        layout = "cute.make_layout((v.queries, v.ratio, *v.batch), stride=v.logsumexp_stride)"
        pointer = _pointer("logsumexp", form.logsumexp.offset)
        lines += bracketed("mL = cute.make_tensor(", (pointer, layout), ")", indent=4)
    return tuple(lines)
