"""The device function and the launch function of one loop kernel as text, and what the rest of the file needs of it."""

from dataclasses import dataclass, replace

from kgen.backends.loops.body import HELD, LoopBody
from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.places import column_ahead, column_of_vector, place_in_column, place_in_row
from kgen.backends.loops.reads import ReadTime
from kgen.backends.loops.scan import scan_view
from kgen.backends.loops.symbols import NamedAccess
from kgen.backends.loops.text import Block, fitted_lines, fitted_phase
from kgen.backends.loops.views import FlatKernelView, LaunchView, LoopKernelView, ScanColumnsView, ScanRowsView
from kgen.backends.source.lines import Lines, bracketed
from kgen.families.strided.form import Layout
from kgen.ir.problem import Problem
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan_loops import LoopVariant
from kgen.render import render

_DOCS = {
    "flat": "Every thread takes a few vectors of elements.",
    "resident": "The threads of a row hold its elements in registers through all phases.",
    "staged": "The threads of a row copy its elements into smem, and take them from there in every phase.",
    "streamed": "The threads of a row walk along it, once for every phase.",
}


@dataclass(frozen=True, slots=True)
class DeviceText:
    """The text of a device function and of the one that launches it, with their names.

    `joins` are the functions it joins states with that the library does not have.
    """

    name: str
    text: str
    launch: str
    launch_text: str
    joins: Lines
    accesses: tuple[NamedAccess, ...]


def problem_of(variant: LoopVariant, programs: dict[str, Program]) -> Problem:
    """Return the problem that a variant computes."""
    return next(p for p in programs[variant.case].problems if p.name == variant.kernel)


def tensors_of(problem: Problem) -> Lines:
    """Return the tensors that a launch takes, in order."""
    return tuple(t.name for t in problem.tensors)


def device_texts(
    variants: tuple[LoopVariant, ...], programs: dict[str, Program], names: dict[str, str], dialect: LoopDialect
) -> dict[str, DeviceText]:
    """Return the device function of each variant, by its name; `names` are the Python names of all tensors.

    One function serves all variants of a kernel and schedule of which it is the text. A case that differs in more
    than what a row of VARIANTS holds has a function of its own, with the case in its name.
    """
    texts: dict[str, DeviceText] = {}
    found: dict[tuple[str, str], dict[str, str]] = {}  # of a kernel and a schedule: what is computed -> its function
    for v in variants:
        problem, shared = problem_of(v, programs), f"{v.kernel}_{v.schedule}"
        text = device_text(v, shared, names, problem, dialect)
        functions = found.setdefault((v.kernel, v.schedule), {})
        own = f"{v.kernel}_{v.case}_{v.schedule}" if functions else shared
        function = functions.setdefault(f"{text.text}\n{text.launch_text}", own)
        texts[v.name] = text if function == shared else device_text(v, function, names, problem, dialect)
    return texts


def device_text(
    variant: LoopVariant, name: str, names: dict[str, str], problem: Problem, dialect: LoopDialect
) -> DeviceText:
    """Return the device function of a variant under a name; `names` are the Python names of all tensors."""
    far = frozenset(t.name for t in problem.tensors if _is_far(t.type, dialect))
    body = LoopBody(variant, names, dialect, far)
    tensors = (dialect.tensor_parameter.format(names[t]) for t in tensors_of(problem))
    signature = bracketed(f"def {name}(", (dialect.variant_parameter, *tensors), "):")
    view: FlatKernelView | LoopKernelView | ScanRowsView | ScanColumnsView
    match variant.schedule:
        case "scan":
            template = "scan_rows" if variant.form.layout is Layout.ROWS else "scan_columns"
            view = scan_view(name, signature, body)
        case "flat":
            template, view = "flat", _flat_view(signature, body)
        case schedule:
            template = "resident" if schedule in HELD else schedule
            view = _reduction_view(signature, body, schedule)
    entered = (dialect.entered.format(names[t]) for t in tensors_of(problem) if dialect.entered and t not in far)
    begins = dialect.begins if variant.starts_early else ()
    view = replace(view, accesses=(*begins, *view.accesses, *entered))
    text = render(f"{dialect.folder}/{template}.py.j2", view).rstrip("\n")
    launch, launch_text = _launch(name, names, problem, dialect, starts_early=bool(begins))
    return DeviceText(name, text, launch, launch_text, body.reductions.joins(), tuple(body.symbols.accesses))


def _is_far(type_: TensorType, dialect: LoopDialect) -> bool:
    """Return whether a tensor spans more bytes than the dialect's ordinary accesses reach."""
    last = sum((extent - 1) * stride for extent, stride in zip(type_.static_shape, type_.strides, strict=True))
    return dialect.most_bytes is not None and (last + 1) * type_.dtype.bytes > dialect.most_bytes


def _launch(
    function: str, names: dict[str, str], problem: Problem, dialect: LoopDialect, *, starts_early: bool
) -> tuple[str, str]:
    """Return name and text of the function that launches a device function."""
    tensors = tuple(names[t] for t in tensors_of(problem))
    given = (
        dialect.given[t.type.dtype].format(names[t.name]) for t in problem.tensors if t.type.dtype in dialect.given
    )
    call = bracketed(f"launched = {function}(", ("v", *tensors), ")", indent=4)
    doc, early = "Launch on the grid of the plan.", ""
    if starts_early:
        doc, early = "Launch on the grid of the plan, before the kernel before this one has ended.", "use_pdl=True, "
    view = LaunchView(f"launch_{function}", tensors, doc, (*fitted_lines(given, 4), *call), early)
    return view.name, render(f"{dialect.folder}/launch.py.j2", view).rstrip("\n")


def _flat_view(signature: Lines, body: LoopBody) -> FlatKernelView:
    reads = body.reads.statements(ReadTime.EARLY)
    stores = body.stores.vector_stores("inside")
    row_writes = body.stores.row_stores()
    return FlatKernelView(
        signature=signature,
        doc=_DOCS["flat"],
        accesses=body.symbols.unpacked_accesses(),
        fragments=body.reads.fragments(ReadTime.EARLY, "v.steps"),
        reads=fitted_lines(reads, 8),
        outputs=stores.fragments,
        elements=fitted_lines(stores.elements, 12),
        writes=fitted_lines(stores.writes, 8),
        row_writes=fitted_lines(row_writes, 4),
    )


def _reduction_view(signature: Lines, body: LoopBody, schedule: str) -> LoopKernelView:
    in_rows, is_held, staged = body.form.layout is Layout.ROWS, schedule in HELD, body.reads.staged
    depth = 0 if is_held else 4  # what streams stands in the loop over chunks
    setup, reads = body.values.row_values(0), body.reads.statements(ReadTime.EARLY)
    phases = tuple(body.reductions.phase(level) for level in range(body.form.phases))
    stores = body.stores.vector_stores("is_row & inside")
    late_fragments = body.reads.fragments(ReadTime.LATE, "v.ahead" if body.reads.ahead else "1")
    late_reads, is_ahead = body.reads.statements(ReadTime.LATE), body.reads.ahead
    row_writes = body.stores.row_stores()
    over_clusters = in_rows and is_held and body.dialect.has_clusters
    if over_clusters and phases:
        phases = (replace(phases[0], start=(Block(False, False, ("meet_cluster(v)",)), *phases[0].start)), *phases[1:])
    return LoopKernelView(
        signature=signature,
        doc=_DOCS[schedule],
        accesses=body.symbols.unpacked_accesses(),
        exchanges=fitted_lines(body.reductions.exchanges(over_clusters=over_clusters), 4),
        place=fitted_lines(place_in_row(body.dialect) if in_rows else place_in_column(body, alone=False), 4),
        column=column_of_vector(schedule, in_rows=in_rows),
        column_ahead=column_ahead(),
        chunk="(v.steps * lanes * v.vec)" if in_rows else "(v.steps * lanes)",
        setup=fitted_lines(setup, 4),
        fragments=body.reads.staging() if staged else body.reads.fragments(ReadTime.EARLY, "v.steps"),
        vectors=body.reads.vectors() if staged else (),
        reads=fitted_lines(reads, 8 + depth),
        ahead_fragments=late_fragments if is_ahead else (),
        ahead_reads=fitted_lines(late_reads, 12) if is_ahead else (),
        arrived=("await_staged()",) if staged else (),
        before_pass=("leave_in_smem()",) if staged else (),
        phases=tuple(fitted_phase(phase, depth) for phase in phases),
        outputs=stores.fragments,
        late_fragments=() if is_ahead else late_fragments,
        late_reads=() if is_ahead else fitted_lines(late_reads, 8 + depth),
        elements=fitted_lines(stores.elements, 12 + depth),
        writes=fitted_lines(stores.writes, 8 + depth),
        row_writes=fitted_lines(row_writes, 4),
    )
