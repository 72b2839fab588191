"""The device function and the launch function of one loop kernel as text."""

from dataclasses import replace

from kgen.backends.cutedsl.lines import bracketed, fitted
from kgen.backends.cutedsl.loop_body import Block, BodyPrinter, Lines, Phase, fit, unpacked
from kgen.backends.cutedsl.loop_scan import scan_view
from kgen.backends.cutedsl.loop_views import (
    FlatKernelView,
    FragmentView,
    LaunchView,
    LoopKernelView,
    ScanColumnsView,
    ScanRowsView,
)
from kgen.families.strided.form import Layout
from kgen.ir.dtype import DType
from kgen.ir.problem import Problem
from kgen.planning.plan_loops import LoopVariant
from kgen.render import render

FOLDER = "cutedsl/sm90/loops"
FP8 = {DType.FP8_E4M3: "cutlass.Float8E4M3FN", DType.FP8_E5M2: "cutlass.Float8E5M2"}
_DOCS = {
    "flat": "Every thread takes a few vectors of elements.",
    "resident": "The threads of a row hold its elements in registers through all phases.",
    "streamed": "The threads of a row walk along it, once for every phase.",
    "scan": "The threads of a row scan it chunk by chunk, in order.",
}


def schedule_of(variant: LoopVariant) -> str:
    """Return which kernel text serves a variant."""
    return str(dict(variant.choice.candidate.choices).get("schedule", "flat"))


def kernel_name(variant: LoopVariant) -> str:
    """Return the name of the device function that serves a variant."""
    return f"{variant.kernel}_{schedule_of(variant)}"


def tensors_of(problem: Problem) -> Lines:
    """Return the tensors that a launch takes, in order."""
    return tuple(t.name for t in problem.tensors)


def printer_of(variant: LoopVariant, names: dict[str, str]) -> BodyPrinter:
    """Return the printer of a variant's body, all parts of it printed: its list of accesses is complete."""
    printer = BodyPrinter(variant.form, names, schedule_of(variant))
    _view(variant, names, printer, ())
    return printer


def kernel_text(variant: LoopVariant, names: dict[str, str], problem: Problem) -> tuple[str, str]:
    """Return name and text of the device function."""
    printer = BodyPrinter(variant.form, names, schedule_of(variant))
    view = _view(variant, names, printer, tuple(names[t] for t in tensors_of(problem)))
    template = schedule_of(variant)
    if template == "scan":
        template = "scan_rows" if variant.form.layout is Layout.ROWS else "scan_columns"
    return kernel_name(variant), render(f"{FOLDER}/{template}.py.j2", view).rstrip("\n")


def launch_text(variant: LoopVariant, names: dict[str, str], problem: Problem) -> tuple[str, str]:
    """Return name and text of the launch function."""
    recast = tuple(
        f"{names[t.name]} = cute.make_tensor(cute.recast_ptr({names[t.name]}.iterator, dtype={FP8[t.type.dtype]}), "
        f"{names[t.name]}.layout)"
        for t in problem.tensors
        if t.type.dtype in FP8
    )
    view = LaunchView(
        name=f"launch_{kernel_name(variant)}",
        tensors=tuple(names[t] for t in tensors_of(problem)),
        recast=tuple(part for line in recast for part in fitted(line, 4)),
        call=bracketed(
            f"launched = {kernel_name(variant)}(", ("v", *(names[t] for t in tensors_of(problem))), ")", indent=4
        ),
    )
    return view.name, render(f"{FOLDER}/launch.py.j2", view).rstrip("\n")


def _view(
    variant: LoopVariant, names: dict[str, str], printer: BodyPrinter, tensors: Lines
) -> LoopKernelView | FlatKernelView | ScanRowsView | ScanColumnsView:
    form, schedule = variant.form, schedule_of(variant)
    in_rows = form.layout is Layout.ROWS
    signature = bracketed(f"def {kernel_name(variant)}(", ("v: cutlass.Constexpr", *tensors), "):")
    if schedule == "scan":
        return scan_view(kernel_name(variant), signature, form, printer, _place(in_rows, printer))
    setup, reads = printer.setup(), printer.reads("early")
    phases = tuple(printer.phase(level) for level in range(form.phases))
    stores = printer.element_stores()
    outputs = tuple(FragmentView(*f) for f in printer.outputs(stores))
    elements = printer.stored(stores)
    flat = form.layout is Layout.FLAT
    writes = printer.writes(stores, "inside" if flat else "is_row & inside")
    late = printer.reads("late")
    row_writes = fit(printer.row_store_lines(), 4)
    fragments = tuple(FragmentView(*f) for f in printer.fragments("early"))
    deep = 4 * (schedule == "streamed")  # what streams stands in the loop over chunks
    if flat:
        return FlatKernelView(
            signature=signature,
            doc=_DOCS[schedule],
            accesses=unpacked(printer),
            fragments=fragments,
            reads=fit(reads, 8),
            outputs=outputs,
            elements=fit(elements, 12),
            writes=fit(writes, 8),
            row_writes=row_writes,
        )
    return LoopKernelView(
        signature=signature,
        doc=_DOCS[schedule],
        accesses=unpacked(printer),
        exchanges=fit(printer.exchanges(), 4),
        meet=("meet_cluster(v)",) if in_rows and schedule == "resident" and form.phases else (),
        place=fit(_place(in_rows, printer), 4),
        column=_column(in_rows, schedule),
        chunk="(v.steps * lanes * v.vec)" if in_rows else "(v.steps * lanes)",
        setup=fit(setup, 4),
        fragments=fragments,
        reads=fit(reads, 8 + deep),
        phases=tuple(_fitted_phase(phase, deep) for phase in phases),
        outputs=outputs,
        late=tuple(FragmentView(*f) for f in printer.fragments("late")),
        late_reads=fit(late, 8 + deep),
        elements=fit(elements, 12 + deep),
        writes=fit(writes, 8 + deep),
        row_writes=row_writes,
    )


def _fitted_phase(phase: Phase, deep: int) -> Phase:
    """Return the phase with its statements in lines that fit where its blocks are printed."""
    return Phase(_fitted_blocks(phase.start, 0), _fitted_blocks(phase.passes, deep), _fitted_blocks(phase.end, 0))


def _fitted_blocks(blocks: tuple[Block, ...], deep: int) -> tuple[Block, ...]:
    return tuple(replace(b, lines=fit(b.lines, deep + 4 + 8 * b.over_elements + 4 * b.over_vector)) for b in blocks)


def _column(in_rows: bool, schedule: str) -> str:
    vector = "s * lanes + lane" if schedule == "resident" else "(chunk * v.steps + s) * lanes + lane"
    return f"({vector}) * v.vec" if in_rows else vector


def _place(in_rows: bool, printer: BodyPrinter) -> Lines:
    """Return the statements that find the row of a thread, clamped to a row that exists."""
    if in_rows:
        return (
            "row, lane, lanes = place_in_row(v)",
            "is_row = row < prod(v.rows)",
            "at_row = digits(cutlass.min(row, prod(v.rows) - 1), v.rows)",
        )
    alone = printer.schedule == "scan"  # down a column one thread takes all
    lines = (
        f"vector, {'_, _' if alone else 'lane, lanes'} = place_in_column(v)",
        "row = vector * v.vec",
        "is_row = row < prod(v.rows)",
        "at_row = digits(cutlass.min(row, prod(v.rows) - v.vec), v.rows)",
    )
    fragments = tuple(f"{n} = fragment(v, {at}, {kind}, 1)" for n, at, kind in printer.fragments("row"))
    return (*lines, *fragments, *printer.reads("row"))
