"""The keys that a tile of queries visits, and those that it masks, as statements of the kernel.

Bounds of the mask are numbers of the plan. What lies in memory bounds the blocks, too: how many keys a sequence has, or
the first and the last key that have the number of some query's sequence (`find_ranges`).
"""

from dataclasses import dataclass
from typing import Final

from kgen.backends.cutedsl.attention_lengths import masks_by_length, masks_by_sequence, measured
from kgen.backends.cutedsl.attention_reads import score_reads
from kgen.families.attention.form import AttentionForm
from kgen.planning.plan_attention import AttentionVariant


@dataclass(frozen=True, slots=True)
class Seen:
    """What of a tensor bounds the blocks of a tile: parameters of `key_blocks`, and what the producer and the
    consumers pass, who may need a statement before."""

    parameters: str = ""
    load: str = ""
    tile: str = ""
    lines: tuple[str, ...] = ()


SEEN: Final = {
    "": Seen(),
    ", mLengths": Seen(
        ", length",
        ", v.length_of(mLengths, batch)",
        ", length",
        ("length = v.length_of(mLengths, tile[2])",),
    ),
    ", mRanges": Seen(", mRanges", ", mRanges", ", mRanges"),
}


def mask_lines(variant: AttentionVariant, form: AttentionForm, edges: bool) -> tuple[str, ...]:
    """Return the statements of the condition `inside`; `edges`: bounds say all that is masked inside of them."""
    lines = ["inside = n < v.keys"]
    if edges and form.keys.most is not None:
        lines = ["inside = n < cutlass.min(v.keys, m + (v.most + 1))"]
    if edges and form.keys.least is not None:
        lines.append("inside = inside & (n >= m + v.least)")
    if masks_by_length(variant):
        lines.append(f"inside = inside & (n < length{' + m' if _slides(form) else ''})")
    if masks_by_sequence(variant):
        query, key = numbers(form, "row_", "key_")
        lines.append("row_, key_ = cutlass.min(m, v.queries - 1), cutlass.min(n, v.keys - 1)  # that exist")
        lines.append(f"inside = inside & ({query} == {key})")
    return tuple(lines)


def numbers(form: AttentionForm, row: str, column: str) -> tuple[str, str]:
    """Return the numbers of the sequences of a row and of a key, which all heads share."""
    if form.sequences is None:
        return "", ""
    reads = score_reads(form)
    query, key = (next(i for i, r in enumerate(reads) if load.value in r.values) for load in form.sequences)
    head = "0, " * len(form.batch) + "0"
    return f"fused[{query}][(INDEX({row}), 0, {head})]", f"fused[{key}][(0, INDEX({column}), {head})]"


def block_bounds(variant: AttentionVariant, form: AttentionForm, edges: bool) -> tuple[str, ...]:
    """Return the statements that bound the blocks of keys; `edges`: bounds say all that is masked inside of them."""
    most, least, length = form.keys.most is not None, form.keys.least is not None, measured(variant) is not None
    sliding = length and _slides(form)
    lines = ["start, stop = mRanges[m, 0], mRanges[m, 1]"] if variant.ranges_keys else []
    by_most = "cutlass.min(blocks, cutlass.max(high + self.most, 0) // self.tile_n + 1)"
    lines.append(f"end = {by_most if most else 'blocks'}")
    stop = f"cutlass.max(length{' + high' if sliding else ''}, 0)" if length else "stop" if variant.ranges_keys else ""
    if stop:
        lines.append(f"end = cutlass.min(end, ({stop} + self.tile_n - 1) // self.tile_n)")
    plain = "cutlass.Int32(self.keys // self.tile_n)"
    if most and edges:
        plain = "cutlass.min(self.keys // self.tile_n, cutlass.max(low + self.most + 1, 0) // self.tile_n)"
    by_sequence = masks_by_sequence(variant)
    if by_sequence and not most:
        plain = "mRanges[m, 3] // self.tile_n"
    lines.append(f"plain_end = {f'cutlass.min({plain}, end)' if most and not edges else plain}")
    if masks_by_length(variant):
        by_length = f"cutlass.max(length{' + low' if sliding else ''}, 0) // self.tile_n"
        lines.append(f"plain_end = cutlass.min(plain_end, {by_length})")
    if by_sequence and most:
        lines.append("plain_end = cutlass.min(plain_end, mRanges[m, 3] // self.tile_n)")
    lines += _first(least, edges, "start" if variant.ranges_keys else "", bool(stop))
    if by_sequence:
        plain_first = "(mRanges[m, 2] + self.tile_n - 1) // self.tile_n"
        lines[-1:] = [*lines[-1:], f"plain_first = cutlass.max(plain_first, {plain_first})"]
        if not least:
            lines[-2:] = [f"plain_first = {plain_first}"]  # the one of the last statement is `first`
    return (*_rows("\n".join(lines)), *lines)


def _rows(code: str) -> tuple[str, ...]:
    """Return the statement that makes the first and the last row of a block, those of them that code reads."""
    rows = {"low": "m * self.tile_m", "high": "cutlass.min((m + 1) * self.tile_m, self.queries) - 1"}
    words = {"low": "first", "high": "last"}
    read = [name for name in rows if f"{name} + " in code or f"+ {name}" in code]
    made = ", ".join(rows[name] for name in read)
    said = " and ".join(words[name] for name in read)
    return (f"{', '.join(read)} = {made}  # its {said} row",) if read else ()


def _first(least: bool, edges: bool, start: str, ends_early: bool) -> tuple[str, ...]:
    """Return the statements that make the first block and the first plain one; a tile has one block at least."""
    if not least and not start:
        one = ("end = cutlass.max(end, 1)",) if ends_early else ()
        return (*one, "first, plain_first = cutlass.Int32(0), cutlass.Int32(0)")
    low = "cutlass.max(low + self.least, 0)"
    key = f"cutlass.max({low}, {start})" if least and start else low if least else start
    by_least = "(cutlass.max(high + self.least, 0) + self.tile_n - 1) // self.tile_n"
    unmasked = by_least if least and edges else "first"
    return (
        f"first = cutlass.min({key} // self.tile_n, blocks - 1)",
        "end = cutlass.max(end, first + 1)",
        f"plain_first = {unmasked}",
    )


def _slides(form: AttentionForm) -> bool:
    return form.keys.lengths is not None and form.keys.lengths.sliding
