"""Modes of Q, K and V over groups and batch: an operand has those along which it varies, and no others."""

from kgen.families.attention.form import AttentionForm, TokenAccess
from kgen.planning.plan_attention import AttentionVariant

Modes = tuple[str, ...]  # as the coordinates of a head are called in the kernel
Whole = frozenset[str]  # of "q", "k" and "v", those that vary along all heads
_EXTENTS = {"group": "v.ratio", "*batch": "*v.batch"}


def whole_operands(form: AttentionForm) -> Whole:
    """Return which of "q", "k" and "v" vary along all heads, so that a head has one place in each of them."""
    batch = tuple(f"batch[{i}]" for i, extent in enumerate(form.batch) if extent > 1)
    heads = {"q": (*(("group",) if form.ratio > 1 else ()), *batch), "k": batch, "v": batch}
    return frozenset(name for name, modes in heads.items() if _walked(getattr(form, name)) == modes)


def modes_of(variant: AttentionVariant, whole: Whole) -> dict[str, Modes]:
    """Return the modes of Q, K and V behind tokens and head dims: all of a head, or each that one varies along.

    A group is a mode of Q where it is not one with the queries.
    """
    form, grouped = variant.form, not packs_heads(variant)
    found = {}
    for name in ("q", "k", "v"):
        walked = _walked(getattr(form, name))
        every = ("group", "*batch") if name == "q" and grouped else ("*batch",)
        found[name] = every if name in whole else tuple(mode for mode in walked if grouped or mode != "group")
    return found


def coordinates(modes: Modes) -> str:
    """Return the coordinates of a head, to stand behind others."""
    return "".join(f", {mode}" for mode in modes)


def extents(modes: Modes) -> str:
    """Return the extents of modes, to stand behind others."""
    return "".join(f", {_EXTENTS.get(mode, f'v.{mode}')}" for mode in modes)


def strides(access: TokenAccess, modes: Modes) -> tuple[int, ...]:
    """Return the strides of modes."""
    found: dict[str, tuple[int, ...]] = {"group": (access.group,), "*batch": access.batch}
    found |= {f"batch[{i}]": (step,) for i, step in enumerate(access.batch)}
    return tuple(step for mode in modes for step in found[mode])


def packs_heads(variant: AttentionVariant) -> bool:
    """Return whether the rows of a tile are those of several heads."""
    return bool(variant.choice.candidate.value("pack_gqa"))


def are_rows(variant: AttentionVariant) -> bool:
    """Return whether one stride walks the rows of a tile, those that pad the queries of a head included.

    A TMA descriptor joins the two modes of such rows into one, of which it then knows no extent.
    """
    return variant.form.q.group == variant.facts.padded_queries * variant.form.q.tokens


def _walked(access: TokenAccess) -> Modes:
    batch = (f"batch[{i}]" for i, step in enumerate(access.batch) if step)
    return (*(("group",) if access.group else ()), *batch)
