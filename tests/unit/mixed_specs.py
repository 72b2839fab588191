"""Programs of several kernels, matrix products among them: emitted once per process."""

from functools import cache

import torch
import torch.nn.functional as F
from emitted_specs import BF16, BOOL, FP16, FP32, e

from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.plan import Plan
from kgen.target import load_device


def _linear_softmax(x, w, b):
    return torch.softmax(F.linear(x, w, b), -1)


def _linear_norm_linear(x, w, b, g, h, v):
    return F.linear(F.layer_norm(F.linear(x, w, b), b.shape, g, h), v)


def _two_linears(x, w, b, v, c):
    return F.linear(F.gelu(F.linear(x, w, b)), v, c)


def _attention(q, k, v):
    weights = torch.softmax((q @ k.transpose(1, 2)).float() * 0.125, -1)
    return (weights * weights).to(BF16) @ v  # squared weights are no attention: its kernels stay apart


def _grouped_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _chain(a, b, c, d):
    return torch.bmm(torch.bmm(torch.bmm(a, b), c), d)


def _group_norm_min(x, w, b, g, h):
    return torch.min(F.group_norm(F.linear(x, w, b), 8, g, h), dim=1, keepdim=True)[0]


def _in_place(c, a, b, x):
    c.addmm_(a, b)
    return x * 2


def _mask(x, w, m):
    y = torch.where(m, x @ w, 0.0)
    return m.any(-1), y.float().sum(0), y


def _running_mean(mean, x, w):
    h = x @ w
    mean.mul_(0.9).add_(h.float().mean(0) * 0.1)
    return torch.relu(h)


def _split_softmax(x, w):
    return torch.softmax(x @ w, -1)


def _taken_names(made, launches, run, function):
    return torch.softmax(made @ launches, -1) @ run + function


def _heads(x, w, join):
    q, k, v = (y.unflatten(-1, (2, 64)).transpose(1, 2) for y in F.linear(x, w).chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return x + F.linear(y.transpose(1, 2).reshape(x.shape), join)


# id -> (reference, inputs)
FUNCTIONS = {
    "linear_softmax": (_linear_softmax, e(64, 128), e(256, 128), e(256)),
    "linear_norm_linear": (_linear_norm_linear, e(100, 128), e(256, 128), e(256), e(256), e(256), e(512, 256)),
    "two_linears": (
        _two_linears,
        e(64, 128, dtype=FP16),
        e(256, 128, dtype=FP16),
        e(256, dtype=FP16),
        e(64, 256, dtype=FP16),
        e(64, dtype=FP16),
    ),
    "attention": (_attention, e(8, 128, 64), e(8, 104, 64), e(8, 104, 64)),
    "grouped_causal": (_grouped_causal, e(2, 4, 72, 64), e(2, 2, 72, 64), e(2, 2, 72, 64)),
    "heads": (_heads, e(2, 96, 128), e(384, 128), e(128, 128)),
    "odd_chain": (_chain, e(3, 65, 33), e(3, 33, 47), e(3, 47, 65), e(3, 65, 10)),
    "group_norm_min": (
        _group_norm_min,
        e(128, 100, dtype=FP32),
        e(64, 100, dtype=FP32),
        *(e(64, dtype=FP32) for _ in range(3)),
    ),
    "in_place": (_in_place, e(64, 64), e(64, 128), e(128, 64), e(7)),
    "mask": (_mask, e(64, 96), e(96, 136), e(64, 136, dtype=BOOL)),
    "running_mean": (_running_mean, e(64, dtype=FP32), e(512, 128), e(128, 64)),
    "no_rows": (_linear_softmax, e(0, 128), e(256, 128), e(256)),
    "split_softmax": (_split_softmax, e(16, 4096), e(4096, 64)),
    "taken_names": (_taken_names, e(64, 64), e(64, 64), e(64, 64), e(64)),
}


@cache
def made_of(name: str, device: str = "h200") -> dict[str, object]:
    """Return what the stages of the pipeline made."""
    fn, *inputs = FUNCTIONS[name]
    return dict(run(spec_from_callable(fn, inputs, name=name), load_device(device)).made)


def files_of(name: str, device: str = "h200") -> dict[str, str]:
    """Return the package."""
    files = made_of(name, device)["render"]
    assert isinstance(files, dict)
    return files


def plan_of(name: str, device: str = "h200") -> Plan:
    """Return the plan."""
    plan = made_of(name, device)["plan"]
    assert isinstance(plan, Plan)
    return plan


def zeros(name: str, shift: int = 0) -> list[torch.Tensor]:
    """Return tensors as the reference takes them, `shift` bytes beyond an aligned address."""
    found = []
    for t in FUNCTIONS[name][1:]:
        place = torch.zeros(t.numel() * t.element_size() + 64 + shift, dtype=torch.uint8)
        start = -place.data_ptr() % 64 + shift
        found.append(place[start : start + t.numel() * t.element_size()].view(t.dtype).as_strided(t.shape, t.stride()))
    return found
