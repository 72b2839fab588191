"""The keys that a tile of queries visits on CDNA, and those that it masks, as statements of the kernel."""

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.backends.flydsl.attention_views import KeyLoopView
from kgen.backends.source.lines import Lines
from kgen.families.attention.form import AttentionForm


def bounds_exactly(form: AttentionForm) -> bool:
    """Return whether bounds on the distance from query to key say all that is masked."""
    return form.keys.exact and (form.keys.least, form.keys.most) != (None, None)


def key_bounds(form: AttentionForm) -> Lines:
    """Return the statements that bound the tiles of keys of a workgroup."""
    return tuple(_bounds(form))


def first_tile(form: AttentionForm) -> str:
    """Return the first tile that is visited."""
    return "first" if form.keys.least is not None else "fx.Int32(0)"


def key_loops(form: AttentionForm, masks: bool) -> tuple[KeyLoopView, ...]:
    """Return the loops over tiles of keys: masked, plain, masked, where a bound or the last key makes them differ."""
    if not masks:
        return (KeyLoopView(first_tile(form), "end", ""),)
    plain, last = KeyLoopView("plain_first", "plain_end", ", False"), KeyLoopView("plain_end", "end", ", True")
    if form.keys.least is None:
        return (KeyLoopView("fx.Int32(0)", "plain_end", ", False"), last)
    return (KeyLoopView("first", "plain_first", ", True"), plain, last)


@dataclass(frozen=True, slots=True)
class MaskText:
    """Parameters of `mask` beside the scores, what they are, its arguments, and when a lane sees its key `n`."""

    parameters: str
    words: str
    arguments: str
    head: Lines
    inside: str


def mask_text(form: AttentionForm) -> MaskText:
    """Return what the mask prints: bounds where these say all that is masked, and always the last key."""
    most = "fx.min(rows.m + v.most, fx.Int32(v.keys - 1))" if form.keys.exact and form.keys.most is not None else ""
    last = f"{most or 'fx.Int32(v.keys - 1)'} - first"
    if not form.keys.exact or form.keys.least is None:
        return MaskText(
            "last", "`last` is the last key that it sees, counted from this lane's first one", last, (), "n <= last"
        )
    return MaskText(
        "start, last",
        "`start` and `last` are the first and the last key that it sees, counted from this lane's first one",
        f"rows.m + v.least - first, {last}",
        ("count = fx.Uint32(fx.max(last - start + 1, fx.Int32(0)))",),
        "fx.Uint32(n - start) < count",  # one comparison for both bounds
    )


def _bounds(form: AttentionForm) -> Iterator[str]:
    most, least, exact = form.keys.most is not None, form.keys.least is not None, form.keys.exact
    if most or least:
        yield "low = tile * tile_m(v)  # its first query"
        yield "high = fx.min(low + tile_m(v), fx.Int32(v.queries)) - 1  # and its last one"
    yield "tiles = fx.Int32(-(-v.keys // v.tile_n))"
    end = "fx.min(tiles, fx.max(high + v.most, fx.Int32(0)) // v.tile_n + 1)" if most else "tiles"
    yield f"end = {end}"
    if least:
        yield "first = fx.min(fx.max(low + v.least, fx.Int32(0)) // v.tile_n, tiles - 1)"
        yield "end = fx.max(end, first + 1)"
    plain = "fx.Int32(v.keys // v.tile_n)"
    if most and exact:
        plain = f"fx.min({plain}, fx.max(low + v.most + 1, fx.Int32(0)) // v.tile_n)"
    yield f"plain_end = fx.min({plain}, end)"
    if least:
        within = "(fx.max(high + v.least, fx.Int32(0)) + v.tile_n - 1) // v.tile_n" if exact else "first"
        yield f"plain_first = fx.max(first, fx.min({within}, end))"
        yield "plain_end = fx.max(plain_end, plain_first)"
