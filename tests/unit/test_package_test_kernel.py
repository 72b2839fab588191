"""The emitted test, run on the CPU against kernels that are right and kernels that are wrong in one way each."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from kgen.package.views import InputTensorView, InputView, KernelTestView, WorkView
from kgen.render import render

TEST_VIEW = KernelTestView(
    title="relu(a @ b.T + bias)",
    is_module=False,
    rel_err="0.01",
    element_err="0.1",
    element_err_reason="ten times REL_ERR",
    atol="None",
    offsets="0, 1",
    offsets_reason="any base address is accepted",
    refused_offsets="",
    device="h200",
    sm_count=132,
    peak_flops="9.89e14",
    peak_flops_source="bf16, dense",
    peak_bytes="4.8e12",
    peak_bytes_source="HBM",
    work=(WorkView("base", 2 * 48 * 40 * 32, 2 * (48 * 32 + 40 * 32 + 40), 2 * 48 * 40),),
)
INPUT_VIEW = InputView(
    title=TEST_VIEW.title,
    parameters="M, N, K",
    tensors=(
        InputTensorView("a", "torch.bfloat16", "(M, K)", "(K + 8, 1)"),
        InputTensorView("b", "torch.bfloat16", "(N, K)", "(1, N)"),
        InputTensorView("bias", "torch.bfloat16", "(N,)", "(1,)"),
    ),
)
SHAPES = {
    "base": {"init_kwargs": None, "input_kwargs": {"M": 48, "N": 40, "K": 32}},
    "ragged": {"init_kwargs": None, "input_kwargs": {"M": 7, "N": 40, "K": 33}},
}
REFERENCE = """
import torch

def reference(a, b, bias):
    return torch.relu(a @ b.T + bias)
"""
KERNEL = """
import time
import torch

ACCEPTED = {(48, 40, 32), (7, 40, 33)}

def kernel(a, b, bias):
    for name, x, rank in (("a", a, 2), ("b", b, 2), ("bias", bias, 1)):
        if x.dtype != torch.bfloat16:
            raise TypeError(f"{name} is {x.dtype}, not torch.bfloat16")
        if x.ndim != rank:
            raise ValueError(f"{name} has {x.ndim} axes, not {rank}")
    if (*a.shape[:1], *b.shape) not in ACCEPTED or a.shape[1] != b.shape[1] or b.shape[:1] != bias.shape:
        raise ValueError(f"no variant for shapes {a.shape}, {b.shape}, {bias.shape}")
    if a.stride(1) != 1 or b.stride(0) != 1:
        raise ValueError(f"no variant for strides {a.stride()}, {b.stride()}")
    out = torch.empty(a.shape[0], b.shape[0], dtype=torch.bfloat16, device=a.device)
    BODY
    return out
"""
# the emitted test runs on CUDA; this runs the same code on the CPU
ON_CPU = """
import sys
import test_kernel

if __name__ == "__main__":
    sys.exit(test_kernel.main(device="cpu"))
"""
RIGHT = "out.copy_(torch.relu(a.float() @ b.float().T + bias.float()))"
# name of a wrong kernel: its body, and the part of the failure that shows the test caught it for its own reason
WRONG = {
    "zeros": ("out.zero_()", "rel_err 1 is above 0.01"),
    "half magnitude": (f"{RIGHT} * 0.5; out.mul_(0.5)", "rel_err 0.5 is above 0.01"),
    "one element": (f"{RIGHT}; out[-1, -1] += 1", "one element is off by"),
    "NaN on one side": (f"{RIGHT}; out[0, 3] = float('nan')", "seed 0, offset 0: output 0: NaN in 1 places"),
    "drops NaN": (f"{RIGHT}; out.nan_to_num_(0.0)", "with NaN and Inf in the inputs: output 0: NaN in 0 places"),
    "stale memory": ("out[:3].copy_(torch.relu(a[:3].float() @ b.float().T + bias.float()))", "NaN in"),
    "wrong dtype": (f"{RIGHT}; out = out.float()", "returns float32[48, 40], the reference bfloat16[48, 40]"),
    "wrong shape": (f"{RIGHT}; out = out.reshape(-1)", "returns bfloat16[1920], the reference bfloat16[48, 40]"),
    "wrong structure": (f"{RIGHT}; out = (out,)", "returns tuple(bfloat16[48, 40]), the reference bfloat16[48, 40]"),
    "writes an input": (f"{RIGHT}; bias.zero_()", "input bias was written to"),
    "writes padding": (
        f"{RIGHT}; torch.as_strided(a, (1,), (1,), 32 + a.storage_offset()).zero_()",
        "input a was written to",
    ),
    "aliases an input": (
        f"{RIGHT}; bias.untyped_storage().resize_(out.numel() * 2); out = bias.new_empty(0).set_("
        "bias.untyped_storage(), 0, out.shape, (40, 1)).copy_(out)",
        "output 0 shares the memory of input bias",
    ),
    "one output for ever": (
        f"{RIGHT}; out = globals().setdefault('OUT', torch.empty_like(out)).resize_(out.shape).copy_(out)",
        "output 0 shares the memory of the output of another call",
    ),
    "aligned only": (f"assert a.data_ptr() % 16 == 0, 'misaligned'; {RIGHT}", "AssertionError: misaligned"),
}


@dataclass(frozen=True)
class Run:
    exit_status: int
    result: dict
    output: str


def package(folder, kernel_body=RIGHT, kernel=KERNEL, shapes=SHAPES, view=TEST_VIEW, reference=REFERENCE):
    files = {
        "kernel.py": kernel.replace("BODY", kernel_body),
        "reference.py": reference,
        "input.py": render("package/input.py.j2", INPUT_VIEW),
        "test_kernel.py": render("package/test_kernel.py.j2", view),
        "shapes.json": json.dumps(shapes),
        "on_cpu.py": ON_CPU,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def run(folder, *arguments, script="on_cpu.py", limit_s=30):
    command = [sys.executable, str(folder / script), *arguments]
    environment = {"PATH": "/usr/bin:/bin", "TEST_TIMEOUT_SEC": str(limit_s), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    mark = "[test_kernel] RESULT_JSON="
    last = (done.stdout.splitlines() or [""])[-1]
    assert last.startswith(mark), done.stdout + done.stderr
    return Run(done.returncode, json.loads(last.removeprefix(mark)), done.stdout + done.stderr)


def test_a_right_kernel_passes(tmp_path):
    found = run(package(tmp_path), "--version", "v3", "--no-memory", "--multi-seed", "2")
    assert found.exit_status == 0, found.output
    assert found.result["all_pass"] is True and found.result["failures"] == []
    assert [(c["id"], c["status"]) for c in found.result["cases"]] == [("base", "PASS"), ("ragged", "PASS")]
    assert 0 < found.result["rel_err"] < 0.01
    assert found.result["version"] == "v3"
    # no device time on a CPU, and nothing in its place
    assert found.result["latency_us_by_shape"] == {"base": None, "ragged": None}
    assert found.result["latency_us_geomean"] is None and found.result["speedup_vs_ref_geomean"] is None


@pytest.fixture
def check_case(monkeypatch):
    """Check a package's case "base" in this process, which is quicker than in a child."""

    def check(folder, *argv):
        monkeypatch.syspath_prepend(folder)
        for name in ("kernel", "reference", "input"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        spec = importlib.util.spec_from_file_location(f"emitted_test_{folder.name}", folder / "test_kernel.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        _, arguments = module.parse(argv)
        result = module.Result("base")
        module.check_case("base", SHAPES, arguments, "cpu", result)
        return result

    yield check
    for name in ("kernel", "reference", "input"):
        sys.modules.pop(name, None)


def test_a_right_kernel_has_no_failure(tmp_path, check_case):
    result = check_case(package(tmp_path))
    assert (result.status, result.failures) == ("PASS", [])


@pytest.mark.parametrize(("body", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_fails_for_its_reason(tmp_path, check_case, body, reason):
    if reason.startswith("AssertionError"):
        with pytest.raises(AssertionError, match="misaligned"):
            check_case(package(tmp_path, body))
        return
    result = check_case(package(tmp_path, body))
    assert result.status == "FAIL" and result.latency_us is None
    assert any(reason in failure for failure in result.failures), result.failures


def test_failures_are_reported(tmp_path):
    body = "import os\n    if a.shape[0] == 7: os._exit(7)\n    raise RuntimeError('no luck')"
    found = run(package(tmp_path, body))
    assert found.exit_status == 1
    assert found.result["all_pass"] is False
    assert [c["status"] for c in found.result["cases"]] == ["FAIL", "FAIL"]
    assert found.result["failures"] == [
        "base: RuntimeError: no luck",
        "ragged: the process ended with exit code 7",
    ]


@pytest.mark.parametrize(
    "hang",
    ["import time; time.sleep(600)", "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(600)"],
    ids=["in Python", "deaf to the alarm, as in a driver call"],
)
def test_a_hang_is_ended_and_the_other_cases_run(tmp_path, hang):
    body = f"if a.shape[0] == 48:\n        {hang}\n    {RIGHT}"
    found = run(package(tmp_path, body), limit_s=2)
    assert found.exit_status == 1
    assert [c["status"] for c in found.result["cases"]] == ["TIMEOUT_FAIL", "PASS"]
    assert found.result["cases"][0]["rel_err"] is None


def test_a_kernel_that_accepts_too_much_fails(tmp_path, check_case):
    kernel = "import torch\n\ndef kernel(a, b, bias):\n    return torch.relu(a @ b.T + bias)\n"
    failures = check_case(package(tmp_path, kernel=kernel)).failures
    assert "base: accepts a of strides [1, 48]" in failures
    assert "base: accepts a with an axis more" in failures
    assert any(f.startswith("base: fails on bias of shape [41] instead of refusing it") for f in failures)


def test_a_seed_changes_the_inputs(tmp_path, check_case):
    # right for seed 5 only: the same seed draws the same values, others draw others
    body = (
        "import input; good = input._make_inputs(M=48, N=40, K=32, seed=5, device='cpu')['a']\n"
        f"    {RIGHT}\n    if not torch.equal(good, a) and not a.isnan().any(): out.zero_()"
    )
    assert check_case(package(tmp_path, body), "--seed", "5").failures == []
    failures = check_case(package(tmp_path, body), "--seed", "5", "--multi-seed", "2").failures
    assert failures and all("seed 6" in failure for failure in failures)


def test_stricter_limits_can_be_asked_for(tmp_path, check_case):
    failures = check_case(package(tmp_path), "--rtol", "1e-6", "--atol", "1e-9").failures
    assert any("is above 1e-06" in f for f in failures) and any("max_abs_err" in f for f in failures)


def test_without_a_gpu_it_says_so(tmp_path):
    found = run(package(tmp_path), script="test_kernel.py")
    assert found.exit_status == 4
    assert found.result["failures"] == ["no CUDA device here: the kernel was not run"]
    assert found.result["all_pass"] is False


def test_an_unknown_case_is_refused(tmp_path):
    command = [sys.executable, str(package(tmp_path) / "on_cpu.py"), "--shape-id", "bsae"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no case bsae in shapes.json; it has base, ragged" in done.stderr


def test_result_json_has_no_nan(tmp_path):
    # everything zero in the reference: rel_err is infinite, which JSON cannot say
    reference = "def reference(a, b, bias):\n    return (a @ b.T) * 0\n"
    found = run(package(tmp_path, "out.fill_(1.0)", reference=reference), "--shape-id", "base")
    assert found.exit_status == 1 and found.result["rel_err"] is None


def test_module_packages(tmp_path):
    body = "class Model(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
    body += "        self.bias = torch.nn.Parameter(torch.randn(n, dtype=torch.bfloat16))\n"
    forward = "    def forward(self, a, b, bias):\n        return "
    reference = f"import torch\n\n{body}\n{forward}torch.relu(a @ b.T + bias + self.bias)\n"
    kernel = KERNEL.replace("BODY", RIGHT.replace("bias.float()", "(bias + own).float()"))
    kernel = kernel.replace("def kernel(a, b, bias):", "def kernel(a, b, bias, own):")
    kernel += f"\n{body}\n{forward}kernel(a, b, bias, self.bias)\n"
    shapes = {"base": {"init_kwargs": {"n": 40}, "input_kwargs": SHAPES["base"]["input_kwargs"]}}
    view = replace(TEST_VIEW, is_module=True)
    found = run(package(tmp_path, kernel=kernel, shapes=shapes, view=view, reference=reference))
    assert found.exit_status == 0, found.output
