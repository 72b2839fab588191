"""The rows of an attention's VARIANTS: extents and strides of each case, and the choices with their reasons.

The first row is in the defaults of the dataclass, which comments explain; another one says what is different.
"""

from kgen.backends.cutedsl.attention_lengths import measured, printed_form
from kgen.backends.cutedsl.attention_modes import Whole, are_rows, coordinates, modes_of, packs_heads, strides
from kgen.backends.cutedsl.attention_reads import epilogue_reads, score_reads
from kgen.backends.cutedsl.attention_views import DefaultView, RowCallView
from kgen.backends.source.file_text import string_lines
from kgen.backends.source.lines import LINE, Lines, bracketed, tuple_text
from kgen.families.attention.form import AttentionForm, TokenAccess
from kgen.families.attention.rules import bind_attention
from kgen.planning.plan_attention import AttentionVariant
from kgen.rules.specialise import KernelCheck, kernel_rules
from kgen.target import Device

# Axes and lets of the rules that a row keeps as numbers, and their names in the row.
_KEPT = {
    **{name: name for name in ("tile_m", "tile_n", "d_pad", "dv_pad", "stages")},
    "producer_regs": "producer_registers",
    "consumer_regs": "consumer_registers",
}
# The same where few rows share keys, and a CTA has a part of the keys of a head.
_KEPT_OF_FEW_ROWS = {
    **{name: name for name in ("tile_n", "d_pad", "dv_pad", "stages", "splits", "ctas_per_unit")},
    "producer_regs": "producer_registers",
    "consumer_regs": "consumer_registers",
}
_COMMENTS = {
    "ratio": "query heads that share a head of K and V",
    "o_stride": "of (query, dim, group, *batch)",
    "scale": "of the products",
    "least": "a query at m sees no key before m + least",
    "most": "a query at m sees no key after m + most",
    "extra": "keys that a query sees beyond the length of its sequence",
    "lengths_stride": "of (*batch) behind a mode of extent 1",
    "page": "keys of one page",
    "pages": "of K and of V",
    "table_stride": "of (entry, *batch)",
    "d_pad": "head dims as they lie in smem",
    "section": "heads of K and V that walk side by side, so that these stay in L2",
    "splits": "parts of the keys of a head",
    "ctas_per_unit": "that one SM holds at once",
    "q_rows": "rows of the tile for each head: a power of two, at least the queries",
}


def fields_of(first: AttentionVariant, whole: Whole) -> tuple[DefaultView, ...]:
    """Return the fields of the emitted `Variant`; `whole` names operands that vary along all heads."""
    comments = _COMMENTS | _operand_comments(first, whole)
    return tuple(
        DefaultView(name, _type_of(name), value, f"  # {comments[name]}" if name in comments else "")
        for name, value in row_values(first, whole).items()
    )


def row_view(variant: AttentionVariant, first: AttentionVariant, whole: Whole) -> RowCallView:
    """Return the row of one variant: what is different from the first one."""
    choice, defaults = variant.choice, row_values(first, whole)
    reasons = [
        f"predicted {choice.time_us:.1f} us, bound by {choice.bound_by}: {choice.waves} grid waves, "
        f"{choice.wave_efficiency:.0%} full; {variant.guard}"
    ]
    if variant.runners_up:
        second = variant.runners_up[0]
        tile = f"{second.candidate.value('tile_m')}x{second.candidate.value('tile_n')}"
        stages = f"{second.candidate.number('stages')} stages"
        reasons.append(f"next best: {tile}, {stages}, predicted {second.time_us:.1f} us")
    if variant.form.is_empty:
        reasons.append("its result is empty, so that no kernel runs; 0 stands as 1")
    others = [f"{name}={text}" for name, text in row_values(variant, whole).items() if text != defaults[name]]
    return RowCallView(tuple(reasons), bracketed("Variant(", [f'"{variant.name}"', *others], "),", indent=4))


def row_values(variant: AttentionVariant, whole: Whole) -> dict[str, str]:
    """Return what a row holds besides its name: extents, strides and offsets of the case, then the choices."""
    return problem_values(variant, whole) | _chosen(variant)


def _kept(variant: AttentionVariant) -> dict[str, str]:
    return _KEPT_OF_FEW_ROWS if variant.few_rows else _KEPT


def _chosen(variant: AttentionVariant) -> dict[str, str]:
    """Return the choices that a row keeps."""
    candidate = variant.choice.candidate
    values = {shown: str(candidate.number(name)) for name, shown in _kept(variant).items()}
    registers = {name: values.pop(name) for name in ("producer_registers", "consumer_registers")}
    values["section"] = str(variant.section)
    if candidate.value("pack_gqa"):
        values["q_rows"] = str(variant.facts.padded_queries)
    return values | registers


def attention_rules(variant: AttentionVariant, device: Device) -> tuple[Lines, Lines]:
    """Return the rules of a variant as the kernel carries them: what they read, and a statement for each condition."""
    point = dict(variant.choice.candidate.choices)
    bound = bind_attention(variant.facts, device)
    kept = _kept(variant)
    rules = kernel_rules(bound, point, tuple(kept), lambda name: f"v.{kept[name]}" if name in kept else name)
    checks = {check.condition: check for check in reversed(rules.checks)}.values()
    statements = (line for check in reversed(checks) for line in _yielded(check))
    return tuple(f"{let} = {code}" for let, code in rules.derived), tuple(statements)


def _yielded(check: KernelCheck) -> Lines:
    """Return the statement that yields a rule's name, condition and reason, on one line or with an item a line."""
    line = f'yield "{check.rule}", {check.condition}, "{check.because}"'
    if len(line) <= LINE - 4:
        return (line,)
    items = (f'"{check.rule}",', f"{check.condition},", *string_lines(check.because, indent=8))
    return ("yield (", *(f"    {item}" for item in items), ")")


def _type_of(name: str) -> str:
    if name == "scale":
        return "float"
    if name == "q_stride":
        return "tuple"
    return "tuple[int, ...]" if name.endswith("_stride") or name == "batch" else "int"


def problem_values(variant: AttentionVariant, whole: Whole) -> dict[str, str]:
    """Return what a case says of its extents, strides and offsets."""
    values = _problem_values(variant, printed_form(variant), whole)
    lengths, length, pages = variant.form.keys.lengths, measured(variant), variant.form.pages
    if length is not None and lengths is not None:
        strides = tuple_text((length.group, *length.batch))
        values |= {"extra": str(lengths.extra), "lengths_stride": strides}
        values |= {"lengths_offset": str(length.offset)} if length.offset else {}
    if pages is not None:
        values |= {"page": str(pages.size), "pages": str(pages.pages)}
        values |= {"table_stride": tuple_text((pages.entries, *pages.batch))}
        values |= {"table_offset": str(pages.offset)} if pages.offset else {}
    return values


def _problem_values(variant: AttentionVariant, form: AttentionForm, whole: Whole) -> dict[str, str]:
    """Return the extents, strides and offsets of a case; the DSL has no extent of 0."""
    batch = tuple(max(extent, 1) for extent in form.batch)
    modes = modes_of(variant, whole)
    k_page, v_page = ((form.pages.k_page,), (form.pages.v_page,)) if form.pages else ((), ())
    q_tokens, q_dim = _walks(form.q, form.m, form.d)
    rows = f"({q_tokens}, {form.q.group})" if packs_heads(variant) and not are_rows(variant) else q_tokens
    v_tokens, v_dim = _walks(form.v, form.n, form.dv)
    values: dict[str, object] = {name: max(getattr(form, name), 1) for name in ("m", "n", "d", "dv", "ratio")}
    values = {"queries": values.pop("m"), "keys": values.pop("n"), **values, "batch": tuple_text(batch)}
    values |= {
        "q_stride": tuple_text((rows, q_dim, *strides(form.q, modes["q"]))),
        "k_stride": tuple_text((*_walks(form.k, form.n, form.d), *strides(form.k, modes["k"]), *k_page)),
        "v_stride": tuple_text((v_dim, v_tokens, *strides(form.v, modes["v"]), *v_page)),
        "o_stride": tuple_text((*_walks(form.out, form.m, form.dv), form.out.group, *form.out.batch)),
        "scale": repr(form.scale),
    }
    values |= {n: b for n, b in (("least", form.keys.least), ("most", form.keys.most)) if b is not None}
    offsets = {"q": form.q.offset, "k": form.k.offset, "values": form.v.offset, "o": form.out.offset}
    for read in (*score_reads(form), *epilogue_reads(form)):
        values[f"{read.name}_stride"] = tuple_text(read.strides)
        offsets[read.name] = read.offset
    if form.logsumexp:
        found = form.logsumexp
        values["logsumexp_stride"] = tuple_text((found.queries, found.group, *found.batch))
        offsets["logsumexp"] = found.offset
    values |= {f"{name}_offset": offset for name, offset in offsets.items() if offset}
    return {name: str(value) for name, value in values.items()}


def _operand_comments(variant: AttentionVariant, whole: Whole) -> dict[str, str]:
    """Return what the strides of Q, K and V are of."""
    modes = {name: coordinates(found) for name, found in modes_of(variant, whole).items()}
    rows, page = "query", ", page" if variant.form.pages else ""
    if packs_heads(variant):
        rows = "query of all heads" if are_rows(variant) else "(query, group)"
    return {
        "q_stride": f"of ({rows}, dim{modes['q']}), in elements",
        "k_stride": f"of (key, dim{modes['k']}{page})",
        "v_stride": f"of (dim, key{modes['v']}{page})",
    }


def _walks(access: TokenAccess, tokens: int, dim: int) -> tuple[int, int]:
    """Return strides as a TMA descriptor takes them: an axis of extent 1 has one of 16 bytes, for 0 is none."""
    aligned = 16 // access.dtype.bytes
    return access.tokens if tokens > 1 else max(access.tokens, aligned), access.dim if dim > 1 else 1
