"""The text of scan kernels: what a thread adds up, and how it learns what stands before its elements."""

from kgen.backends.cutedsl.loop_body import BodyPrinter, Lines, fit, unpacked
from kgen.backends.cutedsl.loop_states import State, state_of
from kgen.backends.cutedsl.loop_views import FragmentView, ScanColumnsView, ScanRowsView
from kgen.errors.family import MixedScanError
from kgen.families.strided.form import Layout, LoopForm
from kgen.ir.problem import Reduce, Scan

_DOC = "The threads of a row scan it chunk by chunk, in order."


def scan_view(
    name: str, signature: Lines, form: LoopForm, printer: BodyPrinter, place: Lines
) -> ScanRowsView | ScanColumnsView:
    """Return the view of a scan kernel. Raises `MixedScanError` for scans in two directions, or beside a reduction."""
    scans = [s for s in form.body if isinstance(s, Scan)]
    if len({s.reverse for s in scans}) > 1 or any(isinstance(s, Reduce) for s in form.body):
        raise MixedScanError(kernel=name)
    return _Scan(signature, form, printer, place, scans).view()


class _Scan:
    """Prints one scan kernel."""

    def __init__(self, signature: Lines, form: LoopForm, printer: BodyPrinter, place: Lines, scans: list[Scan]) -> None:
        self.signature, self.form, self.printer, self.place = signature, form, printer, place
        self.scans = scans
        self.states = [state_of(s, printer.types[s.operand], f"{s.combine}_{i}") for i, s in enumerate(scans)]
        for s, state in zip(scans, self.states, strict=True):
            printer.states[s.result] = state

    def view(self) -> ScanRowsView | ScanColumnsView:
        in_rows = self.form.layout is Layout.ROWS
        printer = self.printer
        setup, reads = printer.setup(), printer.reads("early")
        steps = self.steps(in_rows)
        for s, state in zip(self.scans, self.states, strict=True):
            printer.known[s.result] = self.result(state, in_rows)
        stores = printer.element_stores()
        outputs = tuple(FragmentView(*f) for f in printer.outputs(stores))
        elements, writes = printer.stored(stores), printer.writes(stores, "is_row & inside")
        fragments = tuple(FragmentView(*f) for f in printer.fragments("early"))
        accesses = unpacked(printer)
        reverse = self.scans[0].reverse
        column = "((chunk * v.steps + s) * lanes + lane) * v.vec" if in_rows else "chunk * v.steps + s"
        if reverse:
            column = f"prod(v.cols) - {'v.vec' if in_rows else '1'} - ({column})"
        inside = "col >= 0" if reverse else "col < prod(v.cols)"
        if not in_rows:
            return ScanColumnsView(
                signature=self.signature,
                doc=_DOC,
                accesses=accesses,
                place=fit(self.place, 4),
                column=column,
                inside=inside,
                setup=fit(setup, 4),
                start=self.start(False),
                fragments=fragments,
                reads=fit(reads, 12),
                steps=fit(steps, 16),
                outputs=outputs,
                elements=fit(elements, 16),
                writes=fit(writes, 12),
            )
        return ScanRowsView(
            signature=self.signature,
            doc=_DOC,
            accesses=accesses,
            exchanges=self.exchanges(),
            place=fit(self.place, 4),
            column=column,
            inside=inside,
            element="v.vec - 1 - i" if reverse else "i",
            setup=fit(setup, 4),
            start=self.start(True),
            fragments=fragments,
            reads=fit(reads, 12),
            scanned=tuple(line for state in self.states for line in self.fragments(state)),
            vector_start=tuple(f"{s.names[0]}_running = {s.identities[0]}" for s in self.states),
            steps=fit(steps, 16),
            vector_end=tuple(f"{s.names[0]}_totals[s] = {s.names[0]}_running" for s in self.states),
            combine=tuple(self.combined(s) for s in self.states),
            outputs=outputs,
            elements=fit(elements, 16),
            writes=fit(writes, 12),
        )

    def exchanges(self) -> Lines:
        found = [f"({s.names[0]}_slots,), _ = exchange(v, smem, {s.types[0]})" for s in self.states]
        return ("smem = SmemAllocator()", *found)

    def start(self, in_rows: bool) -> Lines:
        if in_rows:
            return tuple(f"{s.names[0]}_carry = {s.identities[0]}" for s in self.states)
        return tuple(f"{s.names[0]}_carry = filled(v, {s.types[0]}, {s.identities[0]})" for s in self.states)

    def fragments(self, state: State) -> Lines:
        name, kind = state.names[0], state.types[0]
        return (
            f"{name} = cute.make_rmem_tensor((v.vec, v.steps), {kind})",
            f"{name}_totals = cute.make_rmem_tensor(v.steps, {kind})",
        )

    def steps(self, in_rows: bool) -> Lines:
        """Return the statements that take in one element."""
        scope = self.printer.scope()
        self.printer.compute([s.operand for s in self.scans], scope)
        for s, state in zip(self.scans, self.states, strict=True):
            value = self.printer.entering(s, state, scope)
            name = state.names[0]
            value = f"within(v, inside, {value}, {state.identities[0]})"
            target = f"{name}_running" if in_rows else f"{name}_carry[e]"
            scope.lines.append(f"{target} = {state.join}(({target},), ({value},))[0]")
            if in_rows:
                scope.lines.append(f"{name}[e, s] = {target}")
        return self.printer.close(scope)

    def combined(self, s: State) -> str:
        n = s.names[0]
        return f"{n}_carry = scan_row(v, {n}_totals, {n}_carry, {s.join}, {s.identities[0]}, {n}_slots)"

    def result(self, s: State, in_rows: bool) -> str:
        n = s.names[0]
        return f"{s.join}(({n}_totals[s],), ({n}[e, s],))[0]" if in_rows else f"{n}_carry[e]"
