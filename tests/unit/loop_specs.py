"""Programs without a product that between them print every form of loop kernel: emitted once per process.

Each is one kernel, and what decides its text is fixed, so that no constant of the cost model changes what is tested.
"""

from dataclasses import replace
from functools import cache
from unittest import mock

import torch
import torch.nn.functional as F
from emitted_specs import BOOL, FP16, FP32, INT32, e

from kgen.backends.source.statements import statements_of
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning import partition
from kgen.planning.plan import Plan
from kgen.spec.model import FixedAxis
from kgen.target import load_device

E4M3, INT8, INT64 = torch.float8_e4m3fn, torch.int8, torch.int64


def _softmax(x):
    return torch.softmax(x, -1)


def _moments(x):
    var, mean = torch.var_mean(x, -1)
    return (x - mean[:, None]) * torch.rsqrt(var[:, None] + 1e-5)


def _moments_of_rows(x, bias):
    var, mean = torch.var_mean(x.float(), -1, keepdim=True)
    return (x - mean) * torch.rsqrt(var) + bias


def _reserved(v, row, chunk, x1, lambda_, within, sum_0):
    return (v * row + chunk) * x1 + lambda_ + within * sum_0


def _small_types(i, m, q, s):
    return torch.where(m, i.float() + q.float(), 0.0) * s, i > 3, (i.float() * 2).to(E4M3)


# id -> (reference, inputs)
FUNCTIONS = {
    "softmax": (_softmax, e(4096, 1024)),
    "softmax_cluster": (_softmax, e(264, 65536)),
    "softmax_staged": (_softmax, e(1320, 65536)),
    "long_sums": (lambda x: x.sum(-1), e(1320, 65536)),
    "softmax_streamed": (_softmax, e(4096, 65536)),
    "row_sums": (lambda x: (x.sum(-1), x.amax(-1), (x > 0).any(-1)), e(4096, 512)),
    "row_bias": (_moments_of_rows, e(4096, 1024), e(1024)),
    "row_bias_ahead": (_moments_of_rows, e(4096, 1024), e(1024)),
    "int_sum": (lambda x: x.sum(-1), e(4096, 512, dtype=INT8)),
    "moments": (_moments, e(2048, 1536, dtype=FP32)),
    "sumexp": (lambda x: torch.logsumexp(x, -1), e(4096, 2048, dtype=FP32)),
    "argmax": (lambda x: x.argmax(-1), e(4096, 1000, dtype=FP32)),
    "argmin": (lambda x: x.argmin(-1), e(4096, 512)),
    "column_sum": (lambda x: x.sum(0), e(512, 8192)),
    "argmax_of_axes": (lambda x: x.permute(1, 0, 2).reshape(-1).argmax(), e(8, 4, 64, dtype=FP32)),
    "column_moments": (lambda x: torch.var_mean(x, 0), e(256, 16384)),
    "column_argmax": (lambda x: x.argmax(0), e(64, 8192, dtype=FP32)),
    "column_softmax": (lambda x, b: torch.softmax(x + b, 0), e(64, 8192), e(8192, dtype=FP32)),
    "scan_rows": (lambda x: x.cumsum(-1), e(256, 4096, dtype=FP32)),
    "scan_rows_reversed": (lambda x: x.flip(-1).cumsum(-1).flip(-1), e(256, 4096, dtype=FP32)),
    "scan_columns": (lambda x: x.cumsum(0) * 2, e(64, 8192)),
    "scan_columns_reversed": (lambda x: x.flip(0).cumsum(0).flip(0), e(64, 8192)),
    "loss": (lambda x, i: F.cross_entropy(x, i, reduction="none"), e(1024, 4096, dtype=FP32), e(1024, dtype=INT64)),
    "gather": (lambda i, w: w[i] * 2, e(4096, dtype=INT64), e(1000, 256)),
    "bounded": (lambda x: F.pad(x, (3, 5)).amax(-1), e(512, 1000, dtype=FP32)),
    "shifted": (lambda x: F.pad(x, (1, 0))[:, :-1] - x, e(512, 1024, dtype=FP32)),
    "scalar": (lambda x: x.sum(), e(700, dtype=FP32)),
    "scalar_beside": (lambda x, s: (x * s, s * 2), e(4096, 128, dtype=FP32), e(dtype=FP32)),
    "zero_dim": (lambda x, y: x * y + 1, e(dtype=FP32), e(dtype=FP16)),
    "small_types": (
        _small_types,
        e(512, 1024, dtype=INT8),
        e(512, 1024, dtype=BOOL),
        e(512, 1024, dtype=E4M3),
        e(512, 1, dtype=FP32),
    ),
    "reserved_names": (_reserved, *(e(512, 256) for _ in range(3)), e(256), e(512, 1), e(512, 256), e(dtype=FP32)),
    "odd_rows": (lambda x, y: x + y, e(333, 77, stride=(80, 1)), e(77, 333, dtype=INT32).t()),
    "no_rows": (_softmax, e(0, 128)),
}
RESIDENT, STREAMED = {"schedule": "resident", "cluster": 1}, {"schedule": "streamed"}
FIXED: dict[str, dict[str, int | str]] = {
    "softmax": RESIDENT,
    "softmax_cluster": {"schedule": "resident", "cluster": 4},
    "softmax_staged": {"schedule": "staged", "cluster": 1},
    "softmax_streamed": STREAMED,
    "long_sums": STREAMED,
    "row_sums": RESIDENT,
    "row_bias": RESIDENT | {"ahead": 0},
    "row_bias_ahead": {"schedule": "staged", "steps": 4, "ahead": 2},
    "int_sum": RESIDENT,
    "moments": RESIDENT,
    "sumexp": STREAMED,
    "argmax": STREAMED,
    "argmin": RESIDENT,
    "column_sum": STREAMED,
    "column_moments": STREAMED,
    "argmax_of_axes": RESIDENT,
    "column_argmax": RESIDENT,
    "column_softmax": RESIDENT,
    "loss": STREAMED,
    "bounded": RESIDENT,
    "scalar": RESIDENT,
    "no_rows": RESIDENT,
}


@cache
def made_of(name: str) -> dict[str, object]:
    """Return what the stages of the pipeline made."""
    fn, *inputs = FUNCTIONS[name]
    fixed = tuple(FixedAxis(axis, value, "what is tested") for axis, value in FIXED.get(name, {}).items())
    spec = replace(spec_from_callable(fn, inputs, name=name), fixed=fixed)
    with mock.patch.object(partition, "GAIN", 0.0):  # nothing is worth a cut
        return dict(run(spec, load_device("h200")).made)


def files_of(name: str) -> dict[str, str]:
    """Return the package."""
    files = made_of(name)["render"]
    assert isinstance(files, dict)
    return files


def plan_of(name: str) -> Plan:
    """Return the plan."""
    plan = made_of(name)["plan"]
    assert isinstance(plan, Plan)
    return plan


@cache
def kernel_of(name: str) -> str:
    """Return the text of the device kernel, of the first one where any base address needs another."""
    text = files_of(name)["kernel.py"]
    kernel, *_ = [s.text for s in statements_of(text) if s.text.startswith("@cute.kernel")]
    return kernel
