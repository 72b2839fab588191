"""From the simulator's report of a launch to the counts that a check keeps."""

from kgen.check.dynamic import RangeCounts, SimulatedKernel
from kgen.check.flydsl.executor import Execution
from kgen.simulator import Counts, InstructionClass


def kernel_of(case: str, execution: Execution) -> SimulatedKernel:
    """Return the counts of a launch that was executed."""
    report = execution.report
    assert report is not None
    return SimulatedKernel(
        case=case,
        variant=execution.variant,
        kernel=execution.kernel,
        workgroups=execution.workgroups,
        executed_workgroups=execution.executed_workgroups,
        whole=range_counts(report.counts),
        steady=None if report.steady_loop is None else range_counts(report.steady_loop),
    )


def range_counts(counts: Counts) -> RangeCounts:
    """Return the counts of a range of a program."""
    waits = [w for w in counts.waits if w.executed and w.vector_after < w.vector_before]
    return RangeCounts(
        executed=counts.executed,
        mfma=counts.by_class[InstructionClass.MFMA],
        flops=counts.flops,
        global_bytes=counts.global_bytes,
        lds_bytes=counts.lds_bytes,
        bank_conflict_cycles=counts.bank_conflict_cycles,
        loads_in_flight=tuple((w.vector_before, w.vector_after) for w in waits),
    )
