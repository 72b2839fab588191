"""The device function and the launch function of one loop kernel as text, and what the rest of the file needs of it."""

from dataclasses import dataclass

from kgen.backends.cutedsl.expressions import memory
from kgen.backends.cutedsl.lines import Lines, bracketed
from kgen.backends.cutedsl.loop_body import LoopBody
from kgen.backends.cutedsl.loop_places import column_of_vector, place_in_column, place_in_row
from kgen.backends.cutedsl.loop_reads import ReadTime
from kgen.backends.cutedsl.loop_scan import scan_view
from kgen.backends.cutedsl.loop_symbols import NamedAccess
from kgen.backends.cutedsl.loop_text import fitted_lines, fitted_phase
from kgen.backends.cutedsl.loop_views import FlatKernelView, LaunchView, LoopKernelView, ScanColumnsView, ScanRowsView
from kgen.families.strided.form import Layout
from kgen.ir.dtype import DType
from kgen.ir.problem import Problem
from kgen.planning.plan_loops import LoopVariant
from kgen.render import render

FOLDER = "cutedsl/sm90/loops"
FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)  # arrive as bytes
_DOCS = {
    "flat": "Every thread takes a few vectors of elements.",
    "resident": "The threads of a row hold its elements in registers through all phases.",
    "streamed": "The threads of a row walk along it, once for every phase.",
}


@dataclass(frozen=True, slots=True)
class DeviceText:
    """The text of a device function; `joins` are the functions it joins states with that the library does not have."""

    name: str
    text: str
    joins: Lines
    accesses: tuple[NamedAccess, ...]


def kernel_name(variant: LoopVariant) -> str:
    """Return the name of the device function that serves a variant."""
    return f"{variant.kernel}_{variant.schedule}"


def tensors_of(problem: Problem) -> Lines:
    """Return the tensors that a launch takes, in order."""
    return tuple(t.name for t in problem.tensors)


def device_text(variant: LoopVariant, names: dict[str, str], problem: Problem) -> DeviceText:
    """Return the device function of a variant; `names` are the Python names of all tensors."""
    body, name = LoopBody(variant.form, names), kernel_name(variant)
    tensors = (names[t] for t in tensors_of(problem))
    signature = bracketed(f"def {name}(", ("v: cutlass.Constexpr", *tensors), "):")
    view: FlatKernelView | LoopKernelView | ScanRowsView | ScanColumnsView
    match variant.schedule:
        case "scan":
            template = "scan_rows" if variant.form.layout is Layout.ROWS else "scan_columns"
            view = scan_view(name, signature, body)
        case "flat":
            template, view = "flat", _flat_view(signature, body)
        case schedule:
            template, view = schedule, _reduction_view(signature, body, schedule)
    text = render(f"{FOLDER}/{template}.py.j2", view).rstrip("\n")
    return DeviceText(name, text, body.reductions.joins(), tuple(body.symbols.accesses))


def launch_text(variant: LoopVariant, names: dict[str, str], problem: Problem) -> tuple[str, str]:
    """Return name and text of the launch function."""
    tensors = tuple(names[t] for t in tensors_of(problem))
    fp8 = ((names[t.name], memory(t.type.dtype)) for t in problem.tensors if t.type.dtype in FP8)
    recast = (
        f"{name} = cute.make_tensor(cute.recast_ptr({name}.iterator, dtype={type_}), {name}.layout)"
        for name, type_ in fp8
    )
    view = LaunchView(
        name=f"launch_{kernel_name(variant)}",
        tensors=tensors,
        recast=fitted_lines(recast, 4),
        call=bracketed(f"launched = {kernel_name(variant)}(", ("v", *tensors), ")", indent=4),
    )
    return view.name, render(f"{FOLDER}/launch.py.j2", view).rstrip("\n")


def _flat_view(signature: Lines, body: LoopBody) -> FlatKernelView:
    reads = body.reads.statements(ReadTime.EARLY)
    stores = body.stores.vector_stores("inside")
    row_writes = body.stores.row_stores()
    return FlatKernelView(
        signature=signature,
        doc=_DOCS["flat"],
        accesses=body.symbols.unpacked_accesses(),
        fragments=body.reads.fragments(ReadTime.EARLY),
        reads=fitted_lines(reads, 8),
        outputs=stores.fragments,
        elements=fitted_lines(stores.elements, 12),
        writes=fitted_lines(stores.writes, 8),
        row_writes=fitted_lines(row_writes, 4),
    )


def _reduction_view(signature: Lines, body: LoopBody, schedule: str) -> LoopKernelView:
    in_rows, is_resident = body.form.layout is Layout.ROWS, schedule == "resident"
    depth = 0 if is_resident else 4  # what streams stands in the loop over chunks
    setup, reads = body.values.row_values(0), body.reads.statements(ReadTime.EARLY)
    phases = tuple(body.reductions.phase(level) for level in range(body.form.phases))
    stores = body.stores.vector_stores("is_row & inside")
    late_reads = body.reads.statements(ReadTime.LATE)
    row_writes = body.stores.row_stores()
    over_clusters = in_rows and is_resident
    return LoopKernelView(
        signature=signature,
        doc=_DOCS[schedule],
        accesses=body.symbols.unpacked_accesses(),
        exchanges=fitted_lines(body.reductions.exchanges(over_clusters=over_clusters), 4),
        meet=("meet_cluster(v)",) if over_clusters and body.form.phases else (),
        place=fitted_lines(place_in_row() if in_rows else place_in_column(body, alone=False), 4),
        column=column_of_vector(schedule, in_rows=in_rows),
        chunk="(v.steps * lanes * v.vec)" if in_rows else "(v.steps * lanes)",
        setup=fitted_lines(setup, 4),
        fragments=body.reads.fragments(ReadTime.EARLY),
        reads=fitted_lines(reads, 8 + depth),
        phases=tuple(fitted_phase(phase, depth) for phase in phases),
        outputs=stores.fragments,
        late_fragments=body.reads.fragments(ReadTime.LATE),
        late_reads=fitted_lines(late_reads, 8 + depth),
        elements=fitted_lines(stores.elements, 12 + depth),
        writes=fitted_lines(stores.writes, 8 + depth),
        row_writes=fitted_lines(row_writes, 4),
    )
