"""The map of the compiler: what each stage takes, what it makes, in order.

    trace     Spec                       -> {case: OpGraph}     torch.export on fake tensors
    lower     {case: OpGraph}, Spec      -> {case: Program}     what the kernels mean, without choices
    partition {case: Program}, Device    -> Partition           which kernels a device runs, and why these
    classify  Partition                  -> {case: (Form, ..)}  what each kernel is: a product, a reduction, ...
    plan      {case: (Form, ..)}, Device -> Plan                solves per kernel and alignment class
    view      Plan, Partition            -> Page                kernel.py as a template and its view
    render    all of these but Forms     -> {file name: text}   the package

What comes before is `kgen.spec`'s (a file to a Spec) or the front end's (a callable or a module to one); writing the
files is `kgen.package.write`'s. Stages are pure functions of frozen values. `run` times them, verifies what they made
and stops where it is told to.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kgen.spec.model import Case, Spec
from kgen.target import Device

Made = Mapping[str, Any]  # stage -> what it made, of the types above; `Any`, for each stage makes another type


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its name, how it makes something of the earlier stages' results, and the verifier of that."""

    name: str
    run: Callable[[Spec, Device, Made], Any]
    verify: Callable[[Any], None] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What a run made, by stage, and how long each stage took by the clock of the run."""

    spec: Spec
    device: Device
    made: Made
    seconds: Mapping[str, float]


def run(
    spec: Spec,
    device: Device,
    stop_after: str | None = None,
    clock: Callable[[], float] = time.perf_counter,
    known: Made | None = None,
) -> Run:
    """Run the stages on one spec and one device, up to and including `stop_after`; `clock` tells seconds.

    What is `known` is not made again.
    """
    made: dict[str, Any] = dict(known or {})
    seconds: dict[str, float] = {}
    for stage in STAGES:
        if stage.name not in made:
            start = clock()
            made[stage.name] = stage.run(spec, device, made)
            if stage.verify is not None:
                stage.verify(made[stage.name])
            seconds[stage.name] = clock() - start
        if stage.name == stop_after:
            break
    return Run(spec, device, made, seconds)


def _each_case(spec: Spec, function: Callable[[Case], Any]) -> dict[str, Any]:
    return {case.id: function(case) for case in spec.cases}


def _trace(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.frontend.trace import trace

    return _each_case(spec, lambda case: trace(spec, case))


def _verify_graphs(graphs: Any) -> None:
    from kgen.ir.graph import verify_graph

    for graph in graphs.values():
        verify_graph(graph)


def _lower(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.frontend.lower import lower

    return {case: lower(graph, spec) for case, graph in made["trace"].items()}


def _verify_programs(programs: Any) -> None:
    from kgen.ir.verify_problem import verify_problem

    for program in programs.values():
        for problem in program.problems:
            verify_problem(problem)


def _partition(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.planning.plan_program import partition_all

    may_loop = spec.dynamic is None and not spec.fixed  # axes that a spec decides for a product are a product's
    return partition_all(made["lower"], device, may_loop=may_loop)


def _classify(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.families.classify import classify

    return {case: tuple(classify(p, device) for p in program.problems) for case, program in made["partition"].items()}


def _plan(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.planning.plan_program import plan_program

    if spec.dynamic is not None:
        from kgen.backends.registry import require_run_time_extent
        from kgen.planning.plan_dynamic import plan_dynamic

        require_run_time_extent(spec, device)
        return plan_dynamic(spec, made["classify"], made["partition"], device)
    programs, fixed = made["partition"], _each_case(spec, lambda case: spec.fixed_for(case.id))
    base_align = spec.accepts.base_alignment_bytes
    return plan_program(spec.name, made["classify"], programs, device, fixed, base_align, programs.reasons)


def _view(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.backends.registry import backend_of

    return backend_of(made["plan"]).view(spec, made["partition"].programs, made["plan"])


def _render(spec: Spec, device: Device, made: Made) -> Any:
    from kgen.package.files import package_files

    return package_files(spec, made)


STAGES = (
    Stage("trace", _trace, _verify_graphs),
    Stage("lower", _lower, _verify_programs),
    Stage("partition", _partition, _verify_programs),
    Stage("classify", _classify),
    Stage("plan", _plan),
    Stage("view", _view),
    Stage("render", _render),
)


def stage_names() -> tuple[str, ...]:
    """Return the names that `stop_after` takes, in order."""
    return tuple(stage.name for stage in STAGES)
