"""One case of a package's own test with its kernels in the simulator: the calls, the comparison, the findings.

What is compared, with which limits and which guard bands, is the package's test_kernel.py: its functions are used as
they are. Here it is decided how much of a case runs, see `share_of`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

import torch

from kgen.check.dynamic import SimulatedKernel
from kgen.check.flydsl.counts import kernel_of
from kgen.check.flydsl.device import SimulatedDevice
from kgen.check.flydsl.executor import CHOICES, Choice, Execution, Executor, limited
from kgen.check.flydsl.reference import AsOnGpu
from kgen.simulator import Finding

# A call runs whole when it has at most this much work, a second or two of the simulator; of one that has more, a part
# of the workgroups runs.
WHOLE_FLOPS, WHOLE_BYTES = 2.0**28, 2.0**24
MANY_CALLS = 1 / 16  # a case with at most so much of that work is called with all that test_kernel.py has
SEVERAL_LAUNCHES = 8  # such calls run whole with so many times as much: what one launch leaves, the next one reads
LEAST_WORKGROUPS = 8  # of a part: the corners of the grid, and some in between
MOST_FLOPS, MOST_BYTES = 2.0**39, 2.0**31 + 2.0**20  # beyond this the reference itself takes too long on a CPU

INPUTS = "input"  # the module of the package that draws them

Tensors = dict[str, torch.Tensor]


@dataclass(slots=True)
class CaseOutcome:
    """What simulating one case showed: its calls, and those whose results were not compared, `not_simulated` if all.

    Each of these has its reason. `kernels` of such a call are those of the part of its first launch that ran.
    """

    case: str
    calls: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    kernels: list[SimulatedKernel] = field(default_factory=list)
    compared_elements: int = 0
    elements: int = 0
    rel_err: float | None = None
    not_simulated: str | None = None
    # what the simulator found, by instruction: as it was seen first, and again in other calls and orders
    findings: dict[tuple[Any, ...], list[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of `kgen.check.simulated.SimulatedCase`, each finding as one failure."""
        row = asdict(self)
        for seen in row.pop("findings").values():
            again = f" (and in {len(seen) - 1} other runs)" if len(seen) > 1 else ""
            row["failures"].append(f"{seen[0]}{again}")
        return row


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the function under test, and what gives the reference's result and the inputs as it leaves them."""

    what: str
    inputs: Tensors
    expected: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """A package that is loaded into this process: its test, what it runs on, and its cases."""

    test: ModuleType
    executor: Executor
    device: SimulatedDevice
    cases: dict[str, dict[str, Any]]
    arguments: Any  # the parsed arguments of test_kernel.py: seeds and limits

    def work_of(self, case: str) -> float:
        """Return how many times the work of a case is that of a call which still runs whole."""
        flops, bytes_read, bytes_written = map(float, self.test.WORK[case])
        return max(flops / WHOLE_FLOPS, (bytes_read + bytes_written) / WHOLE_BYTES)

    def refuses(self, case: str) -> str | None:
        """Return why a case is too large for a CPU, None where it is not."""
        flops, bytes_read, bytes_written = self.test.WORK[case]
        if flops > MOST_FLOPS:
            return f"the reference has {flops:.2g} operations, more than the {MOST_FLOPS:.2g} of a simulated case"
        if (moved := bytes_read + bytes_written) > MOST_BYTES:
            return f"its tensors have {moved:.2g} bytes, more than the {MOST_BYTES:.2g} of a simulated case"
        return None


def share_of(work: float, launches: list[Execution]) -> int | str | None:
    """Return how many workgroups of each launch run, None for all, or why none may."""
    if work <= 1 or (len(launches) > 1 and work <= SEVERAL_LAUNCHES):
        return None
    if len(launches) > 1:
        grids = " and ".join(str(launch.workgroups) for launch in launches)
        return (
            f"{len(launches)} launches that depend on one another, of {grids} workgroups, "
            f"with {work:.3g} times the work of a whole call; the limit is {SEVERAL_LAUNCHES}"
        )
    return max(LEAST_WORKGROUPS, int(launches[0].workgroups / work)) if launches else None


class _Runner:
    """The function under test, run in the simulator: each call takes the next of the free choices."""

    def __init__(self, subject: Subject, function: Callable[..., Any], updated: Sequence[torch.Tensor] = ()) -> None:
        self.subject = subject
        self.function = function
        self.updated = updated  # inputs that a call updates in place
        self.most_workgroups: int | None = None
        self.results: list[list[torch.Tensor]] = []
        self.executions: list[tuple[Execution, ...]] = []

    def __call__(self, *tensors: torch.Tensor) -> Any:
        choice = limited(CHOICES[len(self.results) % len(CHOICES)], self.most_workgroups)
        out = self.run(choice, *tensors)
        kept = [*self.subject.test.tensors_in(out), *self.updated]
        self.results.append([x.contiguous().reshape(-1, 1).view(torch.uint8).clone() for x in kept])
        self.executions.append(self.subject.executor.take_executions())
        return out

    def run(self, choice: Choice, *tensors: torch.Tensor) -> Any:
        subject = self.subject
        subject.device.clear()
        subject.device.put(*tensors, *_state_of(self.function))
        with subject.executor.on(subject.device, choice):
            return self.function(*tensors)

    def rehearse(self, *tensors: torch.Tensor) -> list[Execution]:
        """Return the launches that a call makes, without running them."""
        self.run(Choice(is_rehearsal=True), *tensors)
        return list(self.subject.executor.take_executions())

    def look_at_a_part(self, *tensors: torch.Tensor) -> None:
        """Run a part of the first launch, which reads inputs alone, under both choices: for findings alone."""
        for choice in CHOICES:
            self.run(replace(choice, most_workgroups=LEAST_WORKGROUPS, most_launches=1), *tensors)
            self.executions.append(self.subject.executor.take_executions())

    def findings(self) -> Iterator[tuple[Execution, Finding, str]]:
        """Yield what the simulator found, with the launch and the order of the waves."""
        for choice, executions in zip(CHOICES * len(self.executions), self.executions, strict=False):
            for execution in executions:
                for finding in execution.report.findings if execution.report else ():
                    yield execution, finding, choice.wave_order.value

    def differences(self) -> Iterator[str]:
        """Yield which results are not the same bytes under the choices; of a part, what neither call wrote is not."""
        words = " and ".join(f"{c.wave_order.value} waves with poison {c.poison.value:#x}" for c in CHOICES)
        poisons = self.subject.test.POISONS
        for index, calls in enumerate(zip(*self.results, strict=True)):
            differing = (calls[0] != calls[1]).any(1)
            if self.most_workgroups is not None:
                differing &= ~unwritten(calls, poisons)
            if count := int(differing.sum()):
                yield f"result {index}: {count} of {differing.numel()} elements differ between {words}"


def simulate_case(subject: Subject, case: str, is_first: bool) -> CaseOutcome:
    """Run the calls of a case: all of test_kernel.py's for the first one, if it is small, else one for each offset."""
    outcome = CaseOutcome(case, not_simulated=subject.refuses(case))
    if outcome.not_simulated is not None:
        return outcome
    test, arguments = subject.test, subject.arguments
    function, reference = test.load(arguments.workspace, subject.cases[case]["init_kwargs"], arguments.seed, "cpu")
    make = _maker(subject, case)
    is_full = is_first and subject.work_of(case) <= MANY_CALLS
    for call in _all_calls(subject, reference, make) if is_full else _few_calls(subject, reference, make):
        _simulate_call(subject, outcome, function, call)
    if not outcome.calls:
        outcome.not_simulated = "; ".join(outcome.skipped)
    if is_first:
        outcome.failures += [f"{case}: {problem}" for problem in _refusals(subject, function, make)]
    return outcome


def _simulate_call(subject: Subject, outcome: CaseOutcome, function: Callable[..., Any], call: Call) -> None:
    test, what, inputs = subject.test, call.what, call.inputs
    runner = _Runner(subject, function, [inputs[name] for name in test.UPDATED])
    share = share_of(subject.work_of(outcome.case), runner.rehearse(*inputs.values()))
    if isinstance(share, int) and test.UPDATED:
        share = "a part of an update in place says nothing"
    if isinstance(share, str):
        outcome.skipped.append(f"{what}: {share}")
        runner.look_at_a_part(*inputs.values())
        _note_executions(outcome, what, runner)
        return
    runner.most_workgroups = share
    expected = call.expected()
    result = test.Result(outcome.case)
    if share is None:
        problems = test.check_call(runner, inputs, expected, subject.arguments, result)
        problems = [*runner.differences(), *problems]
        outcome.compared_elements += (count := sum(x.numel() for x in test.tensors_in(expected[0])))
        outcome.elements += count
    else:
        problems = [*_check_part(subject, outcome, runner, inputs, expected[0], result), *runner.differences()]
    _note_executions(outcome, what, runner)
    outcome.calls.append(what)
    outcome.failures += [f"{outcome.case}, {what}: {problem}" for problem in problems]
    outcome.rel_err = test.largest([outcome.rel_err, result.rel_err])


def _note_executions(outcome: CaseOutcome, what: str, runner: _Runner) -> None:
    """Take over what the simulator found in a call, and the counts of kernels that had not run before."""
    for execution, finding, order in runner.findings():
        place = (execution.variant, execution.kernel, finding.kind, finding.line)
        text = f"{outcome.case}, {what}, {order} waves: {execution.variant}: {execution.kernel}: {finding}"
        outcome.findings.setdefault(place, []).append(text)
    known = {(kernel.variant, kernel.kernel) for kernel in outcome.kernels}
    new = [e for e in runner.executions[0] if e.report and (e.variant, e.kernel) not in known]
    outcome.kernels += [kernel_of(outcome.case, execution) for execution in new]


def _check_part(
    subject: Subject, outcome: CaseOutcome, runner: _Runner, inputs: Tensors, ref: Any, result: Any
) -> list[str]:
    """Compare what a part of the workgroups wrote: what still holds the poison of both calls was not."""
    test = subject.test
    before = {name: test.memory_of(x).clone() for name, x in inputs.items()}
    outs, problems = [], []
    for poison in test.POISONS:
        out, damage = test.call_guarded(runner, inputs, poison)
        outs.append(out)
        problems += damage
    changed = [name for name, x in inputs.items() if not test.memory_of(x).equal(before[name])]
    problems += [f"input {name} was written to" for name in changed]
    if test.structure(outs[0]) != test.structure(ref):
        return [*problems, f"returns {test.structure(outs[0])}, the reference {test.structure(ref)}"]
    parts = zip(*map(test.tensors_in, (*outs, ref)), strict=True)
    for index, (*calls, y) in enumerate(parts):
        elements = [x.contiguous().reshape(-1, 1).view(torch.uint8) for x in calls]
        written = ~unwritten(elements, test.POISONS).reshape(y.shape)
        outcome.compared_elements += int(written.sum())
        outcome.elements += y.numel()
        found = test.compare_tensors(calls[0][written], y[written], subject.arguments, result)
        problems += [f"output {index}: {problem}" for problem in found]
        if not written.any():
            problems.append(f"output {index}: none of its elements was written")
    return problems


def unwritten(calls: Sequence[torch.Tensor], poisons: Sequence[int]) -> torch.Tensor:
    """Return which elements, rows of bytes, hold the poison that each call found in its memory."""
    return torch.stack([(x == poison).all(1) for x, poison in zip(calls, poisons, strict=True)]).all(0)


def _maker(subject: Subject, case: str) -> Callable[..., Tensors]:
    inputs_of_package = import_module(INPUTS)  # the package's input.py, which is on the path
    kwargs = subject.cases[case]["input_kwargs"]

    def make(seed: int, offset: int = 0) -> Tensors:
        made: Tensors = inputs_of_package._make_inputs(**kwargs, seed=seed, offset=offset, device="cpu")
        return made

    return make


def _all_calls(subject: Subject, reference: Callable[..., Any], make: Callable[..., Tensors]) -> Iterator[Call]:
    """Yield the calls that test_kernel.py makes."""
    for what, ref_inputs, inputs in subject.test.calls_to_check(make, subject.arguments):
        yield Call(what, inputs, partial(_expected, subject, reference, ref_inputs))


def _few_calls(subject: Subject, reference: Callable[..., Any], make: Callable[..., Tensors]) -> Iterator[Call]:
    """Yield one call for each offset of the bases, with the same inputs and so one result of the reference."""
    seed = subject.arguments.seed
    expected = cache(lambda: _expected(subject, reference, make(seed)))
    for offset in subject.test.OFFSETS:
        yield Call(f"seed {seed}, offset {offset}", make(seed, offset), expected)


def _expected(subject: Subject, reference: Callable[..., Any], inputs: Tensors) -> Any:
    with AsOnGpu():  # type: ignore[no-untyped-call]
        return subject.test.expect(reference, inputs)


def _refusals(subject: Subject, function: Callable[..., Any], make: Callable[..., Tensors]) -> list[str]:
    """Return which inputs just outside of what the kernel accepts it did not refuse; no kernel runs."""
    test, arguments, inputs_of_package = subject.test, subject.arguments, import_module(INPUTS)
    layouts = [inputs_of_package._layouts(**other["input_kwargs"]) for other in subject.cases.values()]
    accepted = {tuple(shape for _, shape, _ in layout.values()) for layout in layouts}
    seed = arguments.seed
    wrong = list(test.outside(make(seed), accepted))
    wrong += [(f"a base {offset} off an aligned address", make(seed, offset)) for offset in test.REFUSED_OFFSETS]
    runner = _Runner(subject, function)
    problems: list[str] = test.check_refusals(runner.rehearse, wrong)
    for name in make(seed):
        inputs = make(seed)
        problems += test.check_refusals(_leaving_on_the_cpu(runner, inputs[name]), [(f"{name} on the CPU", inputs)])
    return problems


def _leaving_on_the_cpu(runner: _Runner, left: torch.Tensor) -> Callable[..., Any]:
    def function(*tensors: torch.Tensor) -> Any:
        subject = runner.subject
        subject.device.clear()
        subject.device.put(*(x for x in tensors if x is not left))
        with subject.executor.on(subject.device, Choice(is_rehearsal=True)):
            return runner.function(*tensors)

    return function


def _state_of(function: Callable[..., Any]) -> Iterator[torch.Tensor]:
    """The parameters and buffers of a module, which are on the device that it is on."""
    if isinstance(function, torch.nn.Module):
        yield from function.parameters()
        yield from function.buffers()
