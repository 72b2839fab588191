"""How the emitted test times: what it goes round, what it alternates, what it refuses to call a speed.

CUDA is stood in for: a replay runs the captured calls again, and the events say what a test wants them to say.
"""

from types import SimpleNamespace

import pytest
import torch
from kernel_test_package import REFERENCE, RIGHT, TEST_VIEW, arguments_of, load_test, package

L2_BYTES = 24 * 1024


class StandInGraph:
    """Runs the captured calls again, into the outputs that the capture made."""

    def __init__(self, function, sets, outs, us):
        self.function, self.sets, self.outs, self.us, self.replays = function, sets, outs, us, 0

    def replay(self):
        self.replays += 1
        for inputs, out in zip(self.sets, self.outs, strict=True):
            out.copy_(self.function(*inputs.values()))


@pytest.fixture
def emitted(tmp_path, monkeypatch):
    """The emitted test of a right kernel, in a process that has no GPU and a stand-in for its clock."""

    def load(body=RIGHT, kernel_us=40.0, ref_us=60.0, reference=REFERENCE, captures_reference=True):
        module = load_test(package(tmp_path, body, reference=reference), monkeypatch)
        found = SimpleNamespace(L2_cache_size=L2_BYTES, multi_processor_count=TEST_VIEW.sm_count)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)

        def capture(function, sets, rounds):
            is_reference = function.__name__ == "reference"
            if is_reference and not captures_reference:
                raise RuntimeError("operation not permitted when stream is capturing")
            outs = [function(*inputs.values()) for inputs in sets]
            call_us = ref_us if is_reference else kernel_us
            return StandInGraph(function, sets, outs, rounds * len(sets) * call_us), outs

        def replay(graph):
            graph.replay()
            module.order.append(graph.function.__name__)
            return graph.us

        module.order = []
        monkeypatch.setattr(module, "capture", capture)
        monkeypatch.setattr(module, "replay", replay)
        monkeypatch.setattr(module, "elapsed_us", list)
        return module

    return load


def measured(module, case="base", *argv):
    """Return what `measure` finds on the kernel's first case."""
    import kernel
    import reference
    from input import _make_inputs

    def make(seed, offset=0):
        return _make_inputs(M=48, N=40, K=32, seed=seed, offset=offset, device="cpu")

    result = module.Result(case)
    module.measure(kernel.kernel, reference.reference, make, arguments_of(module, *argv), result)
    return result


def test_the_sets_pass_the_cache_three_times_and_the_median_is_reported(emitted):
    result = measured(emitted())
    assert (result.failures, result.measurement_error, result.not_measured) == ([], None, None)
    moved = 2 * (48 * 32 + 40 * 32 + 40 + 48 * 40)
    assert result.sets == 8 and result.sets * moved >= 3 * L2_BYTES > (result.sets - 1) * moved
    assert result.l2_passes == pytest.approx(8 * moved / L2_BYTES)
    assert (result.latency_us, result.latency_us_p10, result.latency_us_p90) == (40.0, 40.0, 40.0)
    assert (result.ref_latency_us, result.speedup_vs_ref) == (60.0, 1.5)
    assert result.bandwidth_gbps == pytest.approx(moved / 40.0 * 1e-3)
    assert result.tflops == pytest.approx(2 * 48 * 40 * 32 / 40.0 * 1e-6)


def test_tiny_calls_leave_the_cache_warm_and_say_so(emitted):
    module = emitted()
    module.MOST_SETS = 2
    result = measured(module)
    assert result.sets == 2 and result.l2_passes < 1


def test_kernel_and_reference_alternate(emitted):
    module = emitted()
    measured(module, "base", "--warmup", "2", "--timed-runs", "4")
    a, b = "kernel", "reference"
    assert module.order[-12:] == [a, b, b, a] * 3


def test_a_replay_is_long_and_a_slow_kernel_is_replayed_less(emitted):
    _, _, calls = emitted().long_capture(lambda a: a.clone(), [{"a": torch.zeros(1)}] * 8)
    assert calls == 64  # at 40 us a call, 8 rounds are the first to take 2500 us
    slow = emitted(kernel_us=2e5, ref_us=1e5)
    assert measured(slow).latency_us == 2e5
    # 2.4 s for a replay of both: 3 before and 3 after the timing starts, instead of 10 and 30
    assert slow.order[-12:] == ["kernel", "reference", "reference", "kernel"] * 3
    assert len(slow.order) == 2 + 1 + 2 + 2 + 12


def test_an_output_without_elements_is_not_timed(emitted):
    result = measured(emitted(), "nothing")
    assert result.not_measured == "not measured: the output has no elements"
    assert result.latency_us is None and not result.failures


def test_above_the_roofline_is_a_measurement_error(emitted):
    result = measured(emitted(kernel_us=1e-4))
    assert result.measurement_error == "0.0001 us is above the roofline: the device needs 0.00119 us"
    assert result.latency_us is None and result.speedup_vs_ref is None and not result.failures


def test_a_reference_that_cannot_be_captured_has_no_time(emitted):
    result = measured(emitted(captures_reference=False))
    assert result.latency_us == 40.0
    assert result.ref_latency_us is None and result.speedup_vs_ref is None


def test_a_launch_that_the_graph_missed_is_no_speed(emitted):
    # remembers what it returned for inputs at the same address
    body = f"{RIGHT}; out = globals().setdefault('SEEN', {{}}).setdefault(a.data_ptr(), out).clone()"
    result = measured(emitted(body))
    assert result.latency_us is None
    assert result.failures and result.failures[0].startswith("base, replayed in a CUDA graph: output 0: rel_err 1.")


def test_means_are_over_the_measured_cases(emitted):
    module = emitted()
    timed = [module.Result(str(us), "PASS", latency_us=us, tflops=us, speedup_vs_ref=2.0) for us in (10.0, 40.0)]
    empty = module.Result("empty", "PASS", not_measured="not measured: the output has no elements")
    bare = module.Result("k0", "PASS", latency_us=20.0)  # no operations, and a reference that was not timed
    arguments = arguments_of(module)
    found = module.summary([*timed, empty, bare], [], arguments, None)
    assert found["all_pass"] is True and found["measured"] == 3
    assert found["latency_us_geomean"] == pytest.approx(20.0)
    assert found["latency_us_arith_mean"] == pytest.approx(70 / 3)
    assert found["latency_us_by_shape"] == {"10.0": 10.0, "40.0": 40.0, "empty": None, "k0": 20.0}
    assert found["tflops"] == pytest.approx(20.0) and found["speedup_vs_ref_geomean"] == pytest.approx(2.0)
    assert module.summary([empty], [], arguments, None)["latency_us_geomean"] is None


@pytest.mark.parametrize("fields", [{"status": "FAIL"}, {"status": "PASS", "measurement_error": "above the roofline"}])
def test_a_case_without_a_time_leaves_no_mean(emitted, fields):
    module = emitted()
    timed = module.Result("base", "PASS", latency_us=10.0, tflops=10.0, bandwidth_gbps=1.0, speedup_vs_ref=2.0)
    found = module.summary([timed, module.Result("slow", **fields)], [], arguments_of(module), None)
    means = ("latency_us_geomean", "latency_us_arith_mean", "speedup_vs_ref_geomean", "tflops", "bandwidth_gbps")
    assert [found[name] for name in means] == [None] * 5
    assert found["measured"] == 1 and found["latency_us_by_shape"] == {"base": 10.0, "slow": None}
