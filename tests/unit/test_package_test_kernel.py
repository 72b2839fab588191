"""The emitted test, run on the CPU against kernels that are right and kernels that are wrong in one way each."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from kernel_test_package import KERNEL, RIGHT, SHAPES, TEST_VIEW, arguments_of, load_test, package, run

ROW = 40 * 2  # bytes of the output's
# name of a wrong kernel: its body, and the part of the failure that shows the test caught it for its own reason
WRONG = {
    "zeros": ("out.zero_()", "rel_err 1 is above 0.01"),
    "half magnitude": (f"{RIGHT} * 0.5; out.mul_(0.5)", "rel_err 0.5 is above 0.01"),
    "one element": (f"{RIGHT}; out[-1, -1] += 1", "one element is off by"),
    "NaN on one side": (f"{RIGHT}; out[0, 3] = float('nan')", "seed 0, offset 0: output 0: NaN in 1 places"),
    "drops NaN": (
        f"{RIGHT}; out.nan_to_num_(0.0)",
        "with NaN and Inf in the inputs, offset 0: output 0: NaN in 0 places",
    ),
    "stale memory": (
        "out[:3].copy_(torch.relu(a[:3].float() @ b.float().T + bias.float()))",
        "output 0: 1800 of 1920 elements were never written",
    ),
    "a row after the output": (
        f"{RIGHT}; ctypes.memset(out.data_ptr() + out.nbytes, 0x3F, {ROW})",
        "output 0: memory after its last element was written to",
    ),
    "a row before the output": (
        f"{RIGHT}; ctypes.memset(out.data_ptr() - {ROW}, 0x3F, {ROW})",
        "output 0: memory before its first element was written to",
    ),
    "poison after the output": (  # the second call fills with other bytes
        f"{RIGHT}; ctypes.memset(out.data_ptr() + out.nbytes, 0xFF, {ROW})",
        "output 0: memory after its last element was written to",
    ),
    "past its workspace": (
        f"work = a.new_zeros((4, 4), dtype=torch.float32); ctypes.memset(work.data_ptr() + 64, 1, 1); {RIGHT}",
        "workspace float32[4, 4]: memory after its last element was written to",
    ),
    "a row after an input": (
        f"{RIGHT}; out[-1] += torch.as_strided(a, (40,), (1,), a.storage_offset() + a.shape[0] * a.stride(0))",
        "seed 0, offset 0: output 0: NaN in 40 places",
    ),
    "a row before an input": (
        f"{RIGHT}; out[0] += torch.as_strided(a, (40,), (1,), a.storage_offset() - 40)",
        "seed 0, offset 0: output 0: NaN in 40 places",
    ),
    "the first call only": (
        f"{RIGHT}; globals().setdefault('RUNS', []).append(1); out.mul_(len(RUNS) % 2)",
        "rel_err 1 is above 0.01",
    ),
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


def test_a_right_kernel_passes(tmp_path):
    found = run(package(tmp_path), "--version", "v3", "--no-memory", "--multi-seed", "2")
    assert found.exit_status == 0, found.output
    assert found.result["all_pass"] is True and found.result["failures"] == []
    assert [(c["id"], c["status"]) for c in found.result["cases"]] == [("base", "PASS"), ("ragged", "PASS")]
    assert 0 < found.result["rel_err"] < 0.01
    assert found.result["version"] == "v3" and found.result["measured"] == 0
    assert found.result["kernel_sha256"] == hashlib.sha256((tmp_path / "kernel.py").read_bytes()).hexdigest()
    assert found.result["device"] == {"name": "cpu", "compute_units": None}
    assert found.result["versions"]["torch"] == torch.__version__
    seed = found.result["fresh_seed"]
    assert found.output.startswith(f"seed 0, fresh seed {seed}: --seed {seed} repeats it")
    # no device time on a CPU, and nothing in its place
    assert found.result["latency_us_by_shape"] == {"base": None, "ragged": None}
    assert found.result["latency_us_geomean"] is None and found.result["speedup_vs_ref_geomean"] is None


@pytest.fixture
def check_case(monkeypatch):
    """Check a case of a package in this process, which is quicker than in a child."""

    def check(folder, *argv, extents=None):
        module = load_test(folder, monkeypatch)
        result = module.Result("base")
        cases = {"base": {"init_kwargs": None, "input_kwargs": extents}} if extents else SHAPES
        module.check_case("base", cases, arguments_of(module, *argv), "cpu", result)
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


@pytest.mark.parametrize(
    "extents", [{"M": 1, "N": 40, "K": 1}, {"M": 0, "N": 40, "K": 32}, {"M": 7, "N": 40, "K": 0}], ids=str
)
def test_extents_of_one_and_zero(tmp_path, check_case, extents):
    result = check_case(package(tmp_path), extents=extents)
    assert (result.status, result.failures) == ("PASS", [])
    wrong = check_case(package(tmp_path, f"{RIGHT}; out.add_(1.0)"), extents=extents)
    assert wrong.failures == [] if extents["M"] == 0 else wrong.status == "FAIL"


def test_strides_along_axes_of_one_element_mean_nothing(tmp_path, check_case):
    body = f"a = a.as_strided(a.shape, a.stride(), a.stride(0) - 9 + a.storage_offset()); {RIGHT}"
    failures = check_case(package(tmp_path, body), extents={"M": 1, "N": 40, "K": 1}).failures
    assert failures == [
        "base, with other strides along axes of one element: output 0: NaN in 40 places, the reference in 0: "
        "not the same"
    ]


@pytest.mark.parametrize("make", ["torch.empty", "torch.empty_like", "a.new_empty", "torch.zeros", "torch.ones"])
def test_what_a_kernel_allocates_looks_as_usual(tmp_path, monkeypatch, make):
    module = load_test(package(tmp_path), monkeypatch)
    a = torch.ones(3, 5, dtype=torch.int32)
    with module.GuardBands(0xFF) as bands:
        out = eval(f"{make}({'a' if 'like' in make else '(3, 5), dtype=torch.int32'})", {"torch": torch, "a": a})
        columns = torch.empty_strided((3, 5000), (1, 3), dtype=torch.float64)
        nothing = torch.empty(0, 7)
    assert out.is_contiguous() and out.storage_offset() == 0 and out.untyped_storage().nbytes() == 60
    assert out.unique().tolist() == [{"torch.zeros": 0, "torch.ones": 1}.get(make, -1)]
    assert columns.stride() == (1, 3) and columns.isnan().all() and nothing.shape == (0, 7)
    assert bands.damage([out, columns, nothing]) == []
    assert [(x.shape, len(before)) for x, before, _ in bands.guarded][1:] == [((3, 5000), 4096), ((0, 7), 4096)]
    wide = torch.empty(2, 3000)
    with module.GuardBands(0xFF) as bands:
        torch.empty_like(wide)
    assert [len(band) for band in bands.guarded[0][1:]] == [12032, 12032]  # a row, in whole 256 bytes


def test_an_integer_that_is_left_unwritten_shows_whatever_the_poison_is(tmp_path, monkeypatch):
    module = load_test(package(tmp_path), monkeypatch)
    expected = torch.tensor([-1, -1], dtype=torch.int8)  # what the first poison reads as

    def kernel(a):
        out = torch.empty(2, dtype=torch.int8)
        out[1] = -1
        return out

    inputs = {"a": torch.ones(2)}
    problems = module.check_call(kernel, inputs, (expected, inputs), arguments_of(module), module.Result("base"))
    assert problems == ["output 0: 1 of 2 elements were never written", "output 0: 1 of 2 elements differ"]


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
    found = run(package(tmp_path, body), limit_s=5)
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
    failures = check_case(package(tmp_path, body), "--seed", "5").failures
    assert failures and all("base, seed 12345, " in failure for failure in failures)  # the fresh one
    failures = check_case(package(tmp_path, body), "--seed", "5", "--multi-seed", "2").failures
    assert {failure.split(",")[1] for failure in failures} == {" seed 6", " seed 12345"}


FINITE = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, *FINITE)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values_are_those_that_a_type_has(tmp_path, monkeypatch, dtype):
    module = load_test(package(tmp_path), monkeypatch)
    planted = module.plant_special_values({"x": torch.zeros(2, 3).to(dtype)})["x"].double().flatten()
    assert planted[0].isnan() and not planted[1:-1].any()
    assert planted[-1].isnan() if dtype in FINITE else planted[-1] == float("inf")


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
