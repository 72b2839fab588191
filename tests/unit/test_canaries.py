"""The canaries of `tests/gpu/canaries.py`: those whose fault is in torch are caught on the CPU too."""

import sys
from pathlib import Path

import pytest
from kernel_test_package import arguments_of, load_test

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import canaries
from canaries import CANARIES, SPINS, Canary

from kgen.check.on_device import DeviceResult

# what the emitted kernel does on the GPU
STAND_IN = """
import torch


def kernel(a, b):
    found = [(x.dtype, tuple(x.shape), x.stride()) for x in (a, b)]
    if found != [(torch.bfloat16, (256, 128), (128, 1)), (torch.bfloat16, (128, 192), (192, 1))]:
        raise ValueError(f"not accepted: {found}")
    return torch.empty(256, 192, dtype=torch.bfloat16).copy_(a.float() @ b.float())
"""
IN_TORCH = [c for c in CANARIES if not c.on_device and c.name != "misses the capture"]


@pytest.fixture(scope="module")
def files():
    return canaries.emitted()


def failures_of(folder: Path, monkeypatch) -> list[str]:
    monkeypatch.delitem(sys.modules, "right", raising=False)
    module = load_test(folder, monkeypatch)
    result = module.Result("even")
    cases = {"even": {"init_kwargs": None, "input_kwargs": {"M": 256, "N": 192, "K": 128}}}
    module.check_case("even", cases, arguments_of(module), "cpu", result)
    return result.failures


@pytest.mark.parametrize("canary", IN_TORCH, ids=lambda canary: canary.name)
def test_a_canary_is_caught_for_its_reason(tmp_path, monkeypatch, files, canary):
    folder = canaries.write_package(tmp_path, {**files, "kernel.py": STAND_IN}, canary)
    failures = failures_of(folder, monkeypatch)
    assert any(canary.expected in failure for failure in failures), failures


def test_what_the_canaries_call_is_right(tmp_path, monkeypatch, files):
    folder = canaries.write_package(tmp_path, {**files, "kernel.py": STAND_IN}, None)
    assert failures_of(folder, monkeypatch) == []


def test_every_canary_has_a_reason_of_its_own():
    assert len({canary.name for canary in CANARIES}) == len({canary.expected for canary in CANARIES}) == len(CANARIES)
    for canary in CANARIES:
        assert not any(other.expected in canary.expected for other in CANARIES if other != canary)


def verdict(failures, cases=()):
    report = {"cases": [{"id": name, "status": status} for name, status in cases], "measured": len(cases)}
    return DeviceResult(Path("x"), "gpu", not failures, tuple(failures), report)


def test_a_canary_that_passes_or_fails_for_another_reason_is_missed():
    canary = Canary("zeros", "", "rel_err 1 is above")
    status = "test_kernel.py: exit status 1"
    assert canaries.judge(canary, verdict(["even: rel_err 1 is above 0.01", status]))["faults"] == []
    assert canaries.judge(canary, verdict(["even: no luck", status]))["faults"] == [
        f"not found: rel_err 1 is above; but even: no luck; {status}"
    ]
    assert len(canaries.judge(canary, verdict([]))["faults"]) == 2
    killed = [SPINS.expected, status]
    ended = (("even", "TIMEOUT_FAIL"), ("odd", "PASS"))
    assert canaries.judge(SPINS, verdict(killed, ended))["faults"] == []
    assert canaries.judge(SPINS, verdict(killed, ended[:1]))["faults"]
    assert canaries.judge_right(verdict([], (("even", "PASS"),)))["faults"] == []
    assert canaries.judge_right(verdict(["even: rel_err"]))["faults"] == ["even: rel_err"]


def test_a_loop_that_was_optimised_away_is_found():
    load = "        /*0060*/      LDG.E.STRONG.SYS R0, desc[UR4][R2.64] ;\n"
    loop = f".L_x_0:\n{load}        /*0080*/   @!P0 BRA `(.L_x_0) ;\n"
    assert canaries.faults_in(SPINS, loop) == []
    end = ".L_x_1:\n        /*00a0*/    BRA `(.L_x_1);\n"
    assert canaries.faults_in(SPINS, load + end) == ["no loop around the load is left in the machine code"]
