"""What the L2 is told of what a loop kernel reads: large kernels only, whole accesses only, by what comes after."""

import pytest
import torch

from kgen.backends.flydsl.loop_dialect import flydsl_loops
from kgen.families.strided.caching import Eviction
from kgen.families.strided.classify import classify_loop
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.plan_loops import LoopVariant, plan_loop
from kgen.planning.plan_program import _read_later
from kgen.target import load_device

H200 = load_device("h200")


def told(
    function: object,
    *shapes: tuple[int, ...],
    dtype: torch.dtype = torch.bfloat16,
    device: str = "h200",
    **fixed: object,
) -> dict[str, Eviction]:
    """Return what the first kernel of a function says, by tensor."""
    inputs = [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]
    spec = spec_from_callable(function, inputs, "kernel")
    program = run(spec, H200, stop_after="lower").made["lower"]["default"]
    variant, *_ = plan_loop(
        "default", "kernel", classify_loop(program.problems[0]), load_device(device), fixed, 16, later=later_of(fixed)
    )
    assert isinstance(variant, LoopVariant)
    return {access.tensor: eviction for access, eviction in variant.evictions}


def later_of(fixed: dict[str, object]) -> frozenset[str]:
    later = fixed.pop("later", ())
    return frozenset(later)


def test_what_is_read_stays_where_as_much_is_written() -> None:
    assert told(lambda x: torch.softmax(x, -1), (32768, 4096)) == {"x": Eviction.LAST}
    assert told(lambda x, y: x * y, (32768, 4096), (32768, 4096)) == {"x": Eviction.LAST, "y": Eviction.LAST}


def test_what_all_rows_share_says_nothing() -> None:
    norm = lambda x, w: torch.nn.functional.rms_norm(x, (4096,), w, 1e-6)  # noqa: E731
    assert told(norm, (32768, 4096), (4096,)) == {"x": Eviction.LAST}


def test_what_is_read_once_leaves_unless_a_kernel_after_it_finds_it_there() -> None:
    def three(x, y, z):  # of 45 MB each, where the L2 has 60
        return (x * y * z).sum(-1)

    shapes = ((2048, 11008),) * 3
    assert told(three, *shapes, schedule="streamed", later=("x", "z")) == {"y": Eviction.FIRST}
    assert told(three, *shapes, schedule="streamed") == dict.fromkeys("xyz", Eviction.FIRST)


@pytest.mark.parametrize("later", [(), ("x",)])
def test_what_does_not_fit_leaves_whoever_reads_it_then(later: tuple[str, ...]) -> None:
    assert told(lambda x: x.sum(-1), (8192, 32768), schedule="streamed", later=later) == {"x": Eviction.FIRST}


def test_what_fits_the_l2_may_stay_there_for_the_next_kernel() -> None:
    assert told(lambda x: torch.softmax(x, -1), (4096, 4096)) == {}


def test_narrow_accesses_say_nothing() -> None:
    assert told(lambda x: torch.softmax(x, -1), (32768, 4095)) == {}


def test_devices_for_which_no_gain_is_known_say_nothing() -> None:
    assert told(lambda x: torch.softmax(x, -1), (32768, 4096), device="mi300x") == {}
    assert not flydsl_loops(load_device("mi300x").arch).evictions


def test_kernels_know_what_is_read_after_them() -> None:
    inputs = [torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta")]
    spec = spec_from_callable(lambda x: (x.sum(0), x / x.sum()), inputs, "kernel")
    programs = run(spec, H200, stop_after="partition").made["partition"].programs
    kernels = [p.name for p in programs["default"].problems]
    found = _read_later(programs.values())
    assert len(kernels) > 1 and "x" in found[kernels[0]] and not found[kernels[-1]]
