"""References in many spellings, each with its inputs: (id, function, shapes and dtypes of the inputs)."""

import torch
import torch.nn.functional as F

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def t(*shape, dtype=FP32, stride=None, seed=0):
    """Return a random tensor; `stride` lays it out inside a larger storage."""
    generator = torch.Generator().manual_seed(seed + sum(shape) + len(shape))
    dense = torch.randn(shape, generator=generator)
    if dtype is torch.bool:
        return dense > 0
    dense = (dense * 4).to(dtype) if not dtype.is_floating_point else dense.to(dtype)
    if stride is None:
        return dense
    size = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    out = torch.zeros(size, dtype=dtype).as_strided(shape, stride)
    return out.copy_(dense)


PRODUCTS = {
    "operator": (lambda a, b: a @ b, t(5, 8), t(8, 3)),
    "matmul": (torch.matmul, t(5, 8), t(8, 3)),
    "mm": (torch.mm, t(5, 8), t(8, 3)),
    "bmm": (torch.bmm, t(2, 5, 8), t(2, 8, 3)),
    "mv": (torch.mv, t(5, 8), t(8)),
    "dot": (torch.dot, t(8), t(8, seed=1)),
    "vector_matrix": (lambda a, b: a @ b, t(8), t(8, 3)),
    "vector_batch": (lambda a, b: a @ b, t(8), t(2, 8, 3)),
    "batch_vector": (lambda a, b: a @ b, t(2, 3, 8), t(8)),
    "broadcast_batch": (lambda a, b: a @ b, t(4, 1, 5, 8), t(3, 8, 2)),
    "one_batch": (lambda a, b: a @ b, t(1, 5, 8), t(1, 8, 2)),
    "addmm": (lambda a, b, c: torch.addmm(c, a, b, alpha=0.5, beta=2), t(5, 8), t(8, 3), t(3)),
    "addmm_column": (lambda a, b, c: torch.addmm(c, a, b), t(5, 8), t(8, 3), t(5, 1)),
    "addmm_beta_zero": (lambda a, b, c: torch.addmm(c, a, b, beta=0), t(5, 8), t(8, 3), t(3) / 0),
    "baddbmm": (lambda a, b, c: torch.baddbmm(c, a, b, alpha=3), t(2, 5, 8), t(2, 8, 3), t(5, 3)),
    "addbmm": (lambda a, b, c: torch.addbmm(c, a, b), t(2, 5, 8), t(2, 8, 3), t(5, 3)),
    "addmv": (lambda a, b, c: torch.addmv(c, a, b), t(5, 8), t(8), t(5)),
    "linear": (F.linear, t(2, 5, 8), t(3, 8)),
    "linear_bias": (F.linear, t(2, 5, 8), t(3, 8), t(3)),
    "inner": (torch.inner, t(2, 5, 8), t(3, 8)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [1, 0])), t(3, 4, 5), t(5, 4, 6)),
    "einsum": (lambda a, b: torch.einsum("mk,kn->mn", a, b), t(5, 8), t(8, 3)),
    "einsum_implicit": (lambda a, b: torch.einsum("zk,ka", a, b), t(5, 8), t(8, 3)),
    "einsum_batch": (lambda a, b: torch.einsum("bmhd,bnhd->bhmn", a, b), t(2, 5, 3, 4), t(2, 6, 3, 4)),
    "einsum_dots": (lambda a, b: torch.einsum("...mk,...kn->...nm", a, b), t(2, 1, 5, 8), t(3, 8, 4)),
    "einsum_batch_vector": (lambda a, b: torch.einsum("bk,bk->b", a, b), t(5, 8), t(5, 8, seed=1)),
    "padded": (lambda a, b: a @ b, t(5, 8, stride=(11, 1)), t(8, 3, stride=(1, 9))),
    "k_zero": (lambda a, b, c: a @ b + c, t(5, 0), t(0, 3), t(3)),
    "empty": (lambda a, b: a @ b, t(0, 8), t(8, 3)),
    "one_by_one": (lambda a, b: a @ b, t(1, 8), t(8, 1)),
}

VIEWS = {
    "t": (lambda a, b: (a.t() @ b.T).t(), t(8, 5), t(3, 8)),
    "permute": (lambda a, b: (a.permute(1, 2, 0) @ b).permute(2, 0, 1), t(8, 2, 5), t(8, 3)),
    "movedim": (lambda a, b: (a.movedim(0, -1) @ b).movedim(-1, 0), t(8, 2, 5), t(8, 3)),
    "flatten_rows": (lambda a, b: a.reshape(-1, 8) @ b, t(2, 5, 8), t(8, 3)),
    "heads": (lambda a, b: (a @ b).view(2, 5, 3, 4).transpose(1, 2), t(2, 5, 8), t(8, 12)),
    "there_and_back": (lambda a, b: (a.view(10, 8) @ b).view(2, 5, 12), t(2, 5, 8), t(8, 12)),
    "flatten_k": (lambda a, b: a.flatten(1) @ b, t(5, 2, 4), t(8, 3)),
    "unflatten": (lambda a, b: (a @ b).unflatten(1, (2, 3)), t(5, 8), t(8, 6)),
    "regroup": (lambda a, b: (a @ b).reshape(4, 6), t(8, 8), t(8, 3)),
    "merge_all": (lambda a, b: (a @ b).flatten(), t(4, 8), t(8, 3)),
    "slice_result": (lambda a, b: (a @ b)[1:, ::2] + 1, t(5, 8), t(8, 6)),
    "slice_inputs": (lambda a, b: a[1:4, 2:] @ b[:6], t(5, 8), t(8, 3)),
    "select": (lambda a, b: a[:, 1] @ b[-1], t(5, 2, 8), t(3, 8, 4)),
    "select_result": (lambda a, b: (a @ b)[2], t(5, 8), t(8, 4)),
    "chunk": (lambda a, b: (a @ b).chunk(2, -1)[1].relu(), t(5, 8), t(8, 6)),
    "split": (lambda a, b: (a @ b).split([2, 3, 1], 1)[1], t(5, 8), t(8, 6)),
    "unbind": (lambda a, b: a.unbind(1)[1] @ b, t(5, 2, 8), t(8, 6)),
    "narrow": (lambda a, b: a.narrow(0, 1, 3) @ b, t(5, 8), t(8, 6)),
    "squeeze": (lambda a, b: (a.unsqueeze(1) @ b).squeeze(1), t(5, 8), t(8, 6)),
    "expand": (lambda a, b: a @ b.expand(4, 8, 3), t(4, 5, 8), t(8, 3)),
    "copies": (lambda a, b: (a.contiguous() @ b.clone()).detach(), t(5, 8), t(8, 3)),
    "grouped": (
        lambda q, k: q.view(2, 2, 3, 5, 4) @ k[:, :, None].transpose(-1, -2),
        t(2, 6, 5, 4),
        t(2, 2, 7, 4),
    ),
    "transposed_linear": (lambda a, w, b: F.linear(a.mT, w, b).mT, t(2, 8, 5), t(3, 8), t(3)),
}

EPILOGUES = {
    "column_bias": (lambda a, b, c: a @ b + c, t(4, 8), t(8, 4), t(4, 1)),
    "row_bias_square": (lambda a, b, c: a @ b + c, t(4, 8), t(8, 4), t(4)),
    "residual": (lambda a, b, c: torch.relu(a @ b) + c, t(4, 8), t(8, 4), t(4, 4, stride=(1, 6))),
    "scalars": (lambda a, b: 2 * (a @ b) / 3 - 1, t(4, 8), t(8, 4)),
    "reversed_scalars": (lambda a, b: 1 / (1 - (a @ b)), t(4, 8), t(8, 4)),
    "scale_tensor": (lambda a, b, s: (a @ b) * s, t(4, 8), t(8, 4), t()),
    "alpha": (lambda a, b, c: torch.sub(torch.add(a @ b, c, alpha=2), c, alpha=0.5), t(4, 8), t(8, 4), t(4)),
    "rsub": (lambda a, b, c: torch.rsub(a @ b, c, alpha=2), t(4, 8), t(8, 4), t(4)),
    "where": (lambda a, b, c: torch.where(c > 0.25, a @ b, -1.5), t(4, 8), t(8, 4), t(4, 4)),
    "masked_fill": (lambda a, b, m: (a @ b).masked_fill(m, float("-inf")), t(4, 8), t(8, 4), t(4, 4, dtype=torch.bool)),
    "mask_times": (lambda a, b, m: (a @ b) * m, t(4, 8), t(8, 4), t(4, 4, dtype=torch.bool)),
    "logic": (
        lambda a, b, c: torch.where((c > 0) & ~(c > 1) | c.isnan(), a @ b, c),
        t(4, 8),
        t(8, 4),
        t(4, 4),
    ),
    "clamps": (lambda a, b, c: (a @ b).clamp(-1, 2).clamp_min(-0.5).clamp(max=c), t(4, 8), t(8, 4), t(4)),
    "lerp": (lambda a, b, c: torch.lerp(a @ b, c, 0.3) + torch.lerp(c, c + 1, 0.8), t(4, 8), t(8, 4), t(4)),
    "lerp_tensor": (lambda a, b, c: torch.lerp(a @ b, c, c), t(4, 8), t(8, 4), t(4)),
    "addcmul": (lambda a, b, c: torch.addcmul(c, a @ b, c, value=0.5), t(4, 8), t(8, 4), t(4)),
    "addcdiv": (lambda a, b, c: torch.addcdiv(c, a @ b, c + 10), t(4, 8), t(8, 4), t(4)),
    "prelu": (lambda a, b, c: F.prelu(a @ b, c), t(4, 8), t(8, 4), t(4)),
    "powers": (lambda a, b: (a @ b) ** 2 + (a @ b).abs() ** 0.5 + (a @ b).abs() ** 1.7, t(4, 8), t(8, 4)),
    "power_of_scalar": (lambda a, b: 2.0 ** (a @ b), t(4, 8), t(8, 4)),
    "dropout_eval": (lambda a, b: F.dropout(a @ b, 0.5, False), t(4, 8), t(8, 4)),
    "same_twice": (lambda a, b: (a @ b) * torch.sigmoid(a @ b), t(4, 8), t(8, 4)),
    "constants": (lambda a, b: (a @ b) * torch.full((4,), 0.5) + torch.ones(4), t(4, 8), t(8, 4)),
    "in_place": (lambda a, b: (a @ b).relu_().add_(1), t(4, 8), t(8, 4)),
    "input_ops": (lambda a, b: (a * 0.5 + 1) @ b.relu(), t(4, 8), t(8, 4)),
    "int_residual": (lambda a, b, c: a @ b + c, t(4, 8), t(8, 4), t(4, dtype=torch.int32)),
    "trunc_div": (lambda a, b: torch.div(a @ b, 0.3, rounding_mode="trunc"), t(4, 8), t(8, 4)),
    "threshold": (lambda a, b: F.threshold(a @ b, 0.1, 20.0), t(4, 8), t(8, 4)),
    "maximum": (lambda a, b, c: torch.maximum(a @ b, c).minimum(c + 1), t(4, 8), t(8, 4), t(4)),
    "fresh_tensor": (lambda a, b: (a @ b) * torch.tensor(2.5), t(4, 8), t(8, 4)),
}

_ACTIVATIONS = (
    "relu gelu silu sigmoid tanh leaky_relu elu celu selu hardtanh relu6 softplus softsign mish hardswish hardsigmoid "
    "logsigmoid tanhshrink hardshrink softshrink"
)
_UNARY = (
    "exp exp2 expm1 sin cos tan atan sinh cosh tanh erf erfc floor ceil trunc round frac neg sign square reciprocal"
)
_POSITIVE = "log log2 log10 log1p sqrt rsqrt"


def after_product(function):
    """Return a reference that applies a function to a product, with its inputs."""
    return (lambda a, b: function(a @ b), t(4, 8), t(8, 4))


def after_positive(function):
    """Return a reference that applies a function to the absolute value of a product, with its inputs."""
    return (lambda a, b: function((a @ b).abs()), t(4, 8), t(8, 4))


ACTIVATIONS = {
    **{n: after_product(getattr(F, n)) for n in _ACTIVATIONS.split()},
    **{f"torch_{n}": after_product(getattr(torch, n)) for n in _UNARY.split()},
    **{n: after_positive(getattr(torch, n)) for n in _POSITIVE.split()},
    "gelu_tanh": (lambda a, b: F.gelu(a @ b, approximate="tanh"), t(4, 8), t(8, 4)),
    "leaky_slope": (lambda a, b: F.leaky_relu(a @ b, 0.2), t(4, 8), t(8, 4)),
    "elu_alpha": (lambda a, b: F.elu(a @ b, 0.7), t(4, 8), t(8, 4)),
    "celu_alpha": (lambda a, b: F.celu(a @ b, 0.7), t(4, 8), t(8, 4)),
    "softplus_beta": (lambda a, b: F.softplus(a @ b, 2.0, 1.0), t(4, 8), t(8, 4)),
}

REDUCED = {
    "bf16": (lambda a, b: a @ b, t(5, 8, dtype=BF16), t(8, 3, dtype=BF16)),
    "fp16_bias": (F.linear, t(5, 8, dtype=FP16), t(3, 8, dtype=FP16), t(3, dtype=FP16)),
    "cast_inputs": (lambda a, b: a.float() @ b.float(), t(5, 8, dtype=BF16), t(8, 3, dtype=BF16)),
    "cast_between": (lambda a, b, c: (a @ b).to(BF16) + c, t(5, 8), t(8, 3), t(3, dtype=BF16)),
    "fp32_bias": (lambda a, b, c: a @ b + c, t(5, 8, dtype=BF16), t(8, 3, dtype=BF16), t(3)),
    "fp32_scale": (lambda a, b, c: (a @ b) * c, t(5, 8, dtype=BF16), t(8, 3, dtype=BF16), t()),
    "scaled_input": (lambda a, b: (a * 0.1) @ b, t(5, 8, dtype=BF16), t(8, 3, dtype=BF16)),
    "half_result": (lambda a, b: (a @ b).half(), t(5, 8), t(8, 3)),
    "compare_scalar": (
        lambda a, b: torch.where(a[:, :3] >= 0.1, a @ b, 0.3),
        t(5, 8, dtype=BF16),
        t(8, 3, dtype=BF16),
    ),
}

ALL = {**PRODUCTS, **VIEWS, **EPILOGUES, **ACTIVATIONS, **REDUCED}
