"""Device code of an attention on CDNA: scores, masks and bounds as source text, and the sections of the file."""

from typing import Final

from kgen.backends.flydsl.attention_bounds import bounds_exactly, first_tile, key_bounds, key_loops, mask_text
from kgen.backends.flydsl.attention_views import AttentionView
from kgen.backends.flydsl.expressions import flydsl
from kgen.backends.flydsl.gemm_device import SHARED as OF_PRODUCTS
from kgen.backends.source.attention import modifies, score_ops
from kgen.backends.source.lines import Lines
from kgen.families.attention.form import AttentionForm, Coordinate, TokenAccess
from kgen.ir.dtype import DType
from kgen.ir.problem import operands_of
from kgen.planning.plan_attention import AttentionPlan, AttentionVariant
from kgen.render import render
from kgen.resources import templates_dir
from kgen.target import Arch

SHARED: Final = "flydsl/cdna/attention"
_EMPTY_ROWS: Final = {
    "zeros": "A query that sees no key has the sum 0, and gives zeros",
    "nan": "A query that sees no key has the sum 0, and gives 0 / 0, which is NaN",
}


def attention_view(variant: AttentionVariant, arch: Arch, masks: bool) -> AttentionView:
    """Return what the sections print; `masks`: in some case a tile has keys that a query does not see."""
    form = variant.form
    changes, longest_first = modifies(form), form.keys.most is not None
    score, result, places = _score(form, arch)
    mask = mask_text(form)
    where = ", (rows.m, first, *where)" if places else ""
    return AttentionView(
        longest_first=longest_first,
        tile_of="row_blocks(v) - 1 - index % row_blocks(v)" if longest_first else "index % row_blocks(v)",
        places_scores=places,
        each_sums="i, sums in enumerate(scores)" if places else "sums in scores",
        score_lines=score,
        score_result=result,
        exp2_scale="LOG2_E" if changes else "v.scale * LOG2_E",
        mask_parameters=mask.parameters,
        mask_arguments=mask.arguments,
        mask_words=mask.words,
        mask_head=mask.head,
        inside=mask.inside,
        masks=masks,
        masked=", masked" if masks else "",
        has_place=masks or places,
        place=", (group, batch)" if places else "",
        placed=", where" if places else "",
        modified=(f"modify(v, scores{where})",) if changes else (),
        empty_words=_EMPTY_ROWS[form.empty_rows],
        inverse=_inverse(form),
        bounds=key_bounds(form),
        first=first_tile(form),
        loops=key_loops(form, masks),
        q=_pointer("q", form.q),
        k=_pointer("k", form.k),
        values=_pointer("values", form.v),
        o=_pointer("o", form.out),
    )


def masks_keys(plan: AttentionPlan) -> bool:
    """Return whether in some case a tile has keys that a query does not see, or that do not exist."""
    return any(
        bounds_exactly(v.form) or v.form.n % v.choice.candidate.number("tile_n") for v in plan.variants if v.form.n
    )


def sections(variant: AttentionVariant, view: AttentionView, arch: Arch) -> tuple[str, ...]:
    """Return the device code in the order it stands in the file, callees before callers."""
    own = f"{arch.backend}/{arch.templates}/attention/narrowed_{variant.form.mma_dtype}"
    narrowed = own if (templates_dir() / f"{own}.py.j2").is_file() else f"{SHARED}/narrowed"
    names = (
        *(f"{OF_PRODUCTS}/{name}" for name in ("memory", "only")),
        *(f"{SHARED}/{name}" for name in ("rows", "load", "multiply")),
        *((f"{SHARED}/modify",) if view.modified else ()),
        *((f"{SHARED}/mask",) if view.masks else ()),
        narrowed,
        *(f"{SHARED}/{name}" for name in ("softmax", "attend", "store", "kernel", "launch")),
    )
    return tuple(render(f"{name}.py.j2", view).rstrip("\n") for name in names)


def _score(form: AttentionForm, arch: Arch) -> tuple[Lines, str, bool]:
    """Return the statements of the score, its result, and whether it takes coordinates."""
    words, ops = flydsl(arch.fp8), score_ops(form)
    used = {o for op in ops for o in operands_of(op)}
    names, types = {form.scaled: "x0"}, {form.scaled: DType.FP32}
    coordinates = [c for c in form.coordinates if c.value in used]
    lines: list[str] = []
    for coordinate in coordinates:
        names[coordinate.value] = name = f"x{len(names)}"
        types[coordinate.value] = DType.INT64
        lines.append(f"{name} = {_coordinate(coordinate)}")
    lines += words.print_ops(ops, names, types)
    result = names[form.keys.unmasked if form.keys.exact else form.score]
    if lines and lines[-1].startswith(f"{result} = "):
        result = lines.pop().removeprefix(f"{result} = ")
    return tuple(lines), result, bool(coordinates)


def _coordinate(coordinate: Coordinate) -> str:
    """Return the coordinate of one axis as a whole number of 64 bits."""
    names = {"queries": "m", "keys": "n", "group": "group"}
    along = coordinate.along
    code = names[along] if along in names else f"batch[{int(along.removeprefix('batch_'))}]"
    if coordinate.divisor != 1:
        code = f"{code} // {coordinate.divisor}"
    if along not in ("queries", "keys"):
        code = f"{code} % {coordinate.extent}"
    return f"fx.Int64({code})"


def _inverse(form: AttentionForm) -> str:
    inverse = "reciprocal_approximate(total)"
    return f"select(total == 0.0, 0.0, {inverse})" if form.empty_rows == "zeros" else inverse


def _pointer(name: str, access: TokenAccess) -> str:
    return f"{name} + {access.offset}" if access.offset else name
