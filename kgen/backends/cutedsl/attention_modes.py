"""Modes of Q, K and V over groups and batch: what a tensor varies along, and the coordinates of a head in it."""

from kgen.backends.source.lines import Lines
from kgen.families.attention.form import AttentionForm


def modes_of(form: AttentionForm) -> dict[str, tuple[int, ...]]:
    """Return the extents of (group, *batch) in Q, of batch in K and in V: 1 where one does not vary."""
    batch = tuple(max(extent, 1) for extent in form.batch)
    return {
        "q": _modes((form.ratio, *batch), (form.q.group, *form.q.batch)),
        "k": _modes(batch, form.k.batch),
        "v": _modes(batch, form.v.batch),
    }


def has_all_modes(form: AttentionForm) -> bool:
    """Return whether Q, K and V vary along all heads, so that a head has one place in each of them."""
    batch = tuple(max(extent, 1) for extent in form.batch)
    return modes_of(form) == {"q": (max(form.ratio, 1), *batch), "k": batch, "v": batch}


def coordinate_lines(whole: bool, *, q_first: str, q_modes: str) -> Lines:
    """Return the statement that makes the coordinates of a head where a tensor does not have all of them."""
    if whole:
        return ()
    q_at = f"of_tensor(({q_first}*batch), {q_modes})" if q_first else f"of_tensor(batch, {q_modes})"
    return (
        f"q_at = {q_at}",
        "k_at, v_at = of_tensor(batch, v.k_modes), of_tensor(batch, v.v_modes)",
    )


def _modes(extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent if stride else 1 for extent, stride in zip(extents, strides, strict=True))
