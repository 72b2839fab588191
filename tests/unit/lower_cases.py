"""References of the memory-bound kind, each with its inputs: what `test_lower_programs` compares with eager torch."""

import torch
import torch.nn.functional as F
from spellings import BF16, FP16, t

INF, NAN = float("inf"), float("nan")
INFINITE_LAST = torch.tensor([1, -1, 2, -2, 3, INF])
X, Y, W = t(4, 6), t(4, 6, seed=1), t(6)
Z = t(2, 6, 3, 5)
CLASSES = torch.tensor([1, 0, 5, 3])
TIES = torch.tensor([[1.0, 3.0, 3.0, -1.0], [NAN, 2.0, NAN, 5.0], [INF, INF, -INF, 0.0], [-1.0, -1.0, -1.0, -1.0]])
EDGES = torch.tensor([[-INF, -INF, -INF], [-INF, 2.0, -INF], [INF, 1.0, 2.0], [NAN, 1.0, 2.0]])
UNIT = torch.rand(4, 6, generator=torch.Generator().manual_seed(3))

REDUCTIONS = {
    "sum_last": (lambda x: x.sum(-1), X),
    "sum_first": (lambda x: x.sum(0), X),
    "sum_all": (lambda x: x.sum(), Z),
    "sum_keepdim": (lambda x: x.sum(1, keepdim=True), Z),
    "sum_axes": (lambda x: x.sum((0, 2)), Z),
    "sum_outer_axes": (lambda x: x.sum((0, 3), keepdim=True), Z),
    "sum_of_unit_axis": (lambda x: x.sum(1), t(4, 1)),
    "sum_of_unit_result": (lambda x: x.sum(1), t(1, 4)),
    "sum_all_units": (lambda x: x.sum(), t(1, 1)),
    "sum_of_scalar": (lambda x: x.sum(), t()),
    "sum_empty_axis": (lambda x: x.sum(1), t(4, 0)),
    "sum_empty_result": (lambda x: x.sum(1), t(0, 4)),
    "sum_ints": (lambda x: x.sum(1), t(4, 6, dtype=torch.int32)),
    "sum_bools": (lambda x: x.sum(), t(4, 6, dtype=torch.bool)),
    "sum_ints_as_floats": (lambda x: x.sum(1, dtype=torch.float32), t(4, 6, dtype=torch.int32)),
    "sum_wider": (lambda x: x.sum(1, dtype=torch.float64), X),
    "sum_bf16": (lambda x: x.sum(1), t(4, 6, dtype=BF16)),
    "sum_bf16_to_fp32": (lambda x: x.sum(1, dtype=torch.float32), t(4, 6, dtype=BF16)),
    "sum_expanded": (lambda x: x.expand(3, 4, 6).sum((0, 2)), X),
    "sum_transposed": (lambda x: x.t().sum(0), X),
    "sum_strided": (lambda x: x.sum(-1), t(4, 6, stride=(1, 5))),
    "sum_constant": (lambda x: torch.ones(3, 5).sum(0) + x, t(5)),
    "sum_of_two": (lambda x, y: (x * y).sum(-1), X, Y),
    "sum_scaled_sum": (lambda x: (x / x.sum(-1, keepdim=True)).sum(), X),
    "mean": (lambda x: x.mean(1), X),
    "mean_all": (lambda x: x.mean(), Z),
    "mean_empty": (lambda x: x.mean(1), t(4, 0)),
    "mean_ints": (lambda x: x.mean(1, dtype=torch.float32), t(4, 6, dtype=torch.int64)),
    "prod": (lambda x: x.prod(1), X),
    "prod_all": (lambda x: x.prod(), X),
    "prod_empty": (lambda x: x.prod(1), t(4, 0)),
    "prod_expanded": (lambda x: x[:, :1].expand(4, 3).prod(1), X),
    "amax": (lambda x: x.amax((1, 3)), Z),
    "amin": (lambda x: x.amin(0), X),
    "max_dim": (lambda x: x.max(1), X),
    "max_dim_ties": (lambda x: (*x.max(1), *x.min(1)), TIES),
    "max_values_only": (lambda x: x.max(0).values, X),
    "max_full": (lambda x: (x.max(), x.min()), TIES),
    "max_ints": (lambda x: x.max(1), t(4, 6, dtype=torch.int32)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0)), TIES),
    "argmax_flat": (lambda x: (x.argmax(), x.argmin()), Z),
    "argmax_keepdim": (lambda x: x.argmax(1, keepdim=True), TIES),
    "argmax_unit": (lambda x: x.argmax(1), t(4, 1)),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), X),
    "any_all": (lambda x: (x.any(1), x.all(1), x.any(), x.all(0)), t(4, 6, dtype=torch.bool)),
    "any_floats": (lambda x: (x.any(1), (x > 0).all((0, 1))), torch.tensor([[0.0, -0.0], [NAN, 0.0], [1.0, 0.0]])),
    "count_nonzero": (lambda x: (torch.count_nonzero(x, 1), torch.count_nonzero(x)), TIES.nan_to_num()),
    "var": (lambda x: (x.var(1), x.std(), x.var(unbiased=False)), X),
    "var_mean": (lambda x: (*torch.var_mean(x, 1, correction=0), *torch.std_mean(x, 1, keepdim=True)), X),
    "var_of_one": (lambda x: (x.var(1), x.var(1, correction=0)), t(4, 1)),
    "var_axes": (lambda x: x.var((0, 2, 3), correction=2), Z),
    "var_cancellation": (lambda x: x.var(1), X + 1e4),
    "norms": (lambda x: (x.norm(), x.norm(dim=1), x.norm(p=1, dim=0), x.norm(p=3, dim=1, keepdim=True)), X),
    "norm_infinite": (lambda x: (x.norm(p=INF, dim=1), x.norm(p=-INF, dim=1), x.norm(p=0, dim=1)), X),
    "linalg_norms": (lambda x: (torch.linalg.norm(x), torch.linalg.vector_norm(x, 2, (0, 1))), X),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), X),
    "logsumexp_edges": (lambda x: torch.logsumexp(x, 1, keepdim=True), EDGES),
    "dist": (lambda x, y: (torch.dist(x, y), torch.dist(x, y, 1)), X, Y),
    "wide_sum": (lambda x: x.double().sum(1), X),
}

NORMS = {
    "softmax": (lambda x: x.softmax(-1), X),
    "softmax_first": (lambda x: x.softmax(0), X),
    "softmax_middle": (lambda x: x.softmax(1), Z),
    "softmax_edges": (lambda x: (x.softmax(-1), x.log_softmax(-1)), EDGES),
    "softmax_scaled_masked": (lambda x, m: (x * 0.3).masked_fill(m, -INF).softmax(-1), X, t(4, 6, dtype=torch.bool)),
    "softmax_dtype": (lambda x: F.softmax(x, -1, dtype=torch.float32), t(4, 6, dtype=BF16)),
    "softmax_bf16": (lambda x: x.softmax(-1), t(4, 6, dtype=BF16)),
    "softmax_no_rows": (lambda x: x.softmax(-1), t(0, 5)),
    "layer_norm_no_rows": (lambda x, w: F.layer_norm(x, (6,), w), t(0, 6), W),
    "softmax_unit": (lambda x: x.softmax(1), t(4, 1)),
    "softmax_scalar": (lambda x: x.softmax(0), t()),
    "softmin": (lambda x: F.softmin(x, 1), X),
    "log_softmax": (lambda x: x.log_softmax(1), X),
    "softmax_square": (lambda x: x.softmax(0) + x, t(5, 5)),
    "softmax_of_flat": (lambda x: x.flatten(1).softmax(1), Z),
    "softmax_transposed": (lambda x: x.transpose(1, 2).softmax(-1), Z),
    "softmax_causal": (lambda x: x.masked_fill(torch.ones(5, 5).triu(1) > 0, -INF).softmax(-1), t(3, 5, 5)),
    "softmax_then_sum": (lambda x: x.softmax(-1).sum(0), X),
    "softmax_of_no_rows_and_sum": (lambda x: ((y := x.softmax(-1)), y.sum()), t(0, 6)),
    "softmax_then_halves": (lambda x: torch.mul(*x.softmax(-1).chunk(2, -1)), X),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (6,), w, b), X, W, t(6, seed=2)),
    "layer_norm_plain": (lambda x: F.layer_norm(x, (3, 5)), Z),
    "layer_norm_bf16": (lambda x, w: F.layer_norm(x, (6,), w), t(4, 6, dtype=BF16), t(6, dtype=BF16)),
    "layer_norm_residual": (lambda x, y, w: ((h := x + y), F.layer_norm(h, (6,), w)), X, Y, W),
    "native_layer_norm": (lambda x: torch.native_layer_norm(x, (6,), None, None, 1e-5), X),
    "layer_norm_constant_rows": (lambda x: F.layer_norm(x, (6,)), torch.ones(3, 6) * 1e4),
    "rms_norm": (lambda x, w: F.rms_norm(x, (6,), w), X, W),
    "rms_norm_eps": (lambda x: F.rms_norm(x, (3, 5), eps=1e-2), Z),
    "rms_norm_bf16": (lambda x, w: F.rms_norm(x, (6,), w), t(4, 6, dtype=BF16), t(6, dtype=BF16)),
    "rms_norm_silu_cast": (lambda x, w: F.silu(F.rms_norm(x, (6,), w)).to(BF16), X, W),
    "rms_norm_by_hand": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, X, W),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), Z, W, t(6, seed=2)),
    "group_norm_infinite_weight": (lambda x, w, b: F.group_norm(x, 2, w, b), Z, INFINITE_LAST, W),
    "group_norm_infinite_weight_and_bias": (lambda x, w, b: F.group_norm(x, 2, w, b), Z, INFINITE_LAST, INFINITE_LAST),
    "group_norm_infinite_weight_alone": (lambda x, w: F.group_norm(x, 3, w), Z, INFINITE_LAST),
    "group_norm_flat": (lambda x: F.group_norm(x, 3), X),
    "group_norm_groups_of_one": (lambda x: F.group_norm(x, 6), Z),
    "group_norm_one_group": (lambda x: F.group_norm(x, 1), Z),
    "instance_norm": (lambda x, w: F.instance_norm(x, weight=w), Z, W),
    "batch_norm_eval": (lambda x, m, v, w: F.batch_norm(x, m, v, w), Z, W, W * W + 1, t(6, seed=2)),
    "batch_norm_batch": (lambda x, w: F.batch_norm(x, None, None, w, training=True), Z, W),
    "batch_norm_2d": (lambda x: F.batch_norm(x, None, None, training=True), X),
    "normalize": (lambda x: F.normalize(x, dim=-1), X),
    "normalize_rows_of_zeros": (lambda x: F.normalize(x * 0, dim=0), X),
    "l1_normalize": (lambda x: x / x.abs().mean(1, keepdim=True), X),
    "frobenius": (lambda x: x / torch.norm(x, p="fro"), Z),
}

_C = (t(4, 6), CLASSES)
_IGNORED = torch.tensor([1, -100, 5, -100])
_MAPS = (t(2, 6, 3), torch.tensor([[1, 2, 0], [5, 3, -100]]))

LOSSES = {
    "cross_entropy": (F.cross_entropy, *_C),
    "cross_entropy_none": (lambda x, y: F.cross_entropy(x, y, reduction="none"), *_C),
    "cross_entropy_sum": (lambda x, y: F.cross_entropy(x, y, reduction="sum"), *_C),
    "cross_entropy_weight": (lambda x, y, w: F.cross_entropy(x, y, w), *_C, UNIT[0]),
    "cross_entropy_ignored": (F.cross_entropy, X, _IGNORED),
    "cross_entropy_ignored_weight": (lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=5), *_C, UNIT[0]),
    "cross_entropy_smoothed": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), X, _IGNORED),
    "cross_entropy_smoothed_weight": (
        lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.2),
        X,
        _IGNORED,
        UNIT[0],
    ),
    "cross_entropy_smoothed_sum": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="sum"), *_C),
    "cross_entropy_maps": (F.cross_entropy, *_MAPS),
    "cross_entropy_one": (F.cross_entropy, t(6), torch.tensor(2)),
    "cross_entropy_probabilities": (F.cross_entropy, X, UNIT),
    "cross_entropy_probabilities_all": (
        lambda x, p, w: F.cross_entropy(x, p, w, label_smoothing=0.1, reduction="sum"),
        X,
        UNIT,
        UNIT[0],
    ),
    "cross_entropy_bf16": (F.cross_entropy, t(4, 6, dtype=BF16), CLASSES),
    "nll": (lambda x, y: F.nll_loss(x.log_softmax(1), y), *_C),
    "nll_input": (F.nll_loss, *_C),
    "nll_maps": (F.nll_loss, *_MAPS),
    "nll_none_weight": (lambda x, y, w: F.nll_loss(x, y, w, reduction="none"), *_C, UNIT[0]),
    "mse": (F.mse_loss, X, Y),
    "mse_none": (lambda x, y: F.mse_loss(x, y, reduction="none"), X, Y),
    "mse_sum_bf16": (lambda x, y: F.mse_loss(x, y, reduction="sum"), t(4, 6, dtype=BF16), t(4, 6, dtype=BF16, seed=1)),
    "l1": (F.l1_loss, X, Y),
    "huber": (lambda x, y: F.huber_loss(x, y, delta=0.7), X, Y),
    "smooth_l1": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), X, Y),
    "smooth_l1_zero": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), X, Y),
    "kl_div": (lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), X, Y),
    "kl_div_zeros": (lambda x, y: F.kl_div(x, y.relu(), reduction="sum"), X, Y),
    "kl_div_log": (lambda x, y: F.kl_div(x, y, reduction="mean", log_target=True), X, Y),
    "bce": (F.binary_cross_entropy, UNIT, UNIT.flip(0)),
    "bce_edges": (lambda x, y, w: F.binary_cross_entropy(x, y, w), UNIT.round(), UNIT.flip(0), UNIT),
    "bce_logits": (lambda x, y, p: F.binary_cross_entropy_with_logits(x, y, pos_weight=p), X, UNIT, UNIT[0]),
    "bce_logits_sum": (lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"), X, UNIT),
    "hinge_embedding": (F.hinge_embedding_loss, X, Y.sign()),
    "hinge": (lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)), X, Y.sign()),
    "margin_ranking": (lambda a, b, y: F.margin_ranking_loss(a, b, y, margin=0.3), X, Y, X.sign()),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y), X, Y),
    "cosine_similarity_rows": (lambda x, y: F.cosine_similarity(x, y, dim=0), X, Y),
    "cosine_similarity_broadcast": (lambda x, y: F.cosine_similarity(x, y, dim=-1), X, W),
    "cosine_loss": (lambda x, y: torch.mean(1 - F.cosine_similarity(x, y, dim=1)), X, Y),
    "cosine_embedding": (
        lambda x, y, c: F.cosine_embedding_loss(x, y, c, margin=0.1),
        X,
        Y,
        torch.tensor([1, -1, 1, -1]),
    ),
    "pairwise_distance": (lambda x, y: (F.pairwise_distance(x, y), F.pairwise_distance(x, y, p=1, keepdim=True)), X, Y),
    "triplet": (F.triplet_margin_loss, X, Y, t(4, 6, seed=2)),
    "triplet_swap": (lambda a, p, n: F.triplet_margin_loss(a, p, n, swap=True, p=1), X, Y, t(4, 6, seed=2)),
}

SCANS = {
    "cumsum": (lambda x: x.cumsum(1), X),
    "cumsum_first": (lambda x: x.cumsum(0), X),
    "cumsum_middle": (lambda x: x.cumsum(1), Z),
    "cumprod": (lambda x: x.cumprod(1), X),
    "cumsum_reversed": (lambda x: x.flip(1).cumsum(1).flip(1), X),
    "cumsum_masked": (lambda x, m: (x * m).cumsum(1), X, t(4, 6, dtype=torch.bool)),
    "cumsum_exclusive": (lambda x: torch.cat([torch.zeros_like(x[:, :1]), x], 1)[:, :-1].cumsum(1), X),
    "cumsum_shifted": (lambda x: torch.cat([torch.zeros_like(x[:, :1]), x.cumsum(1)[:, :-1]], 1), X),
    "cumprod_lagging": (lambda x: F.pad(x.exp().cumprod(1)[:, :-1], (1, 0), value=1.0), X),
    "cumsum_prefix": (lambda x: x.cumsum(1)[:, :3] * 2, X),
    "cumsum_reversed_lagging": (lambda x: F.pad(x.flip(1).cumsum(1).flip(1)[:, 1:], (0, 1)), X),
    "cumsum_minus_itself": (lambda x: x.cumsum(1) - x, X),
    "cumsum_ints": (lambda x: x.cumsum(0), t(4, 6, dtype=torch.int32)),
    "cumsum_bf16": (lambda x: x.cumsum(1), t(4, 6, dtype=BF16)),
    "cumsum_unit": (lambda x: x.cumsum(1), t(4, 1)),
    "cumsum_sliced": (lambda x: x.cumsum(1)[:, 2:5], X),
    "cumsum_normalised": (lambda x: x.cumsum(1) / x.sum(1, keepdim=True), X),
    "cumsum_of_softmax": (lambda x: x.softmax(-1).cumsum(-1), X),
    "cumsum_flat": (lambda x: x.flatten().cumsum(0), X),
    "cumsum_joined": (lambda x, y: torch.cat([x, y], 1).cumsum(1), X, Y),
}

_INDEX = torch.tensor([2, 0, 3])
MOVEMENT = {
    "copy": (lambda x: x.clone(), X),
    "transposed_copy": (lambda x: x.t(), X),
    "view": (lambda x: x[1:, ::2].unsqueeze(0), X),
    "reshape": (lambda x: x.reshape(2, 2, 3, 2), X),
    "constant": (lambda x: torch.full((3, 2), 2.5), X),
    "same_twice": (lambda x: (x, x + 1, x + 1), X),
    "flip": (lambda x: x.flip(0, 1) + x, X),
    "rot90": (lambda x: torch.rot90(x), X),
    "cat": (lambda x, y: torch.cat([x, y], 1), X, Y),
    "cat_first": (lambda x, y: torch.cat([x, y * 2], 0), X, Y),
    "cat_unequal": (lambda x, y: torch.cat([x, y[:, :2], x.relu()], 1), X, Y),
    "cat_promoted": (lambda x, y: torch.cat([x, y], 1), X, t(4, 6, dtype=FP16)),
    "cat_of_sums": (lambda x, y: torch.cat([x.sum(1), y.amax(1)]), X, Y),
    "cat_many": (lambda x: torch.cat([x] * 6, 0), X),
    "cat_part": (lambda x, y: torch.cat([x, y], 1)[:, 6:], X, Y),
    "stack": (lambda x, y: torch.stack([x, y, x + y], -1), X, Y),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0), X),
    "pad_axes": (lambda x: F.pad(x, (1, 0, 2, 1)), X),
    "pad_negative": (lambda x: F.pad(x, (-1, 2)), X),
    "pad_computed": (lambda x: F.pad(x.exp(), (1, 1), value=-INF), X),
    "roll": (lambda x: x.roll(2, 1), X),
    "roll_axes": (lambda x: x.roll((1, -1), (0, 1)), X),
    "roll_flat": (lambda x: x.roll(5), t(24)),
    "repeat": (lambda x: x.repeat(2, 3), X),
    "repeat_in_front": (lambda x: x.repeat(3, 1, 2), X),
    "tile": (lambda x: x.tile(2), X),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), X),
    "tril_triu": (lambda x: (x.tril(), x.triu(1), x.tril(-2)), X),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1)), X),
    "arange": (lambda x: x * torch.arange(6) + torch.arange(1, 13, 2), X),
    "eye": (lambda x: x + torch.eye(4, 6), X),
    "chunk_split": (lambda x: (*x.chunk(2, 1), *x.split([1, 3], 0)), X),
    "index": (lambda x, i: x[i], X, _INDEX),
    "index_columns": (lambda x, i: x[:, i] + 1, X, _INDEX),
    "index_negative": (lambda x, i: x[i], X, torch.tensor([-1, 0, -4])),
    "index_matrix": (lambda x, i: x[i], X, _INDEX.repeat(2, 1)),
    "index_pick": (lambda x, i: x[torch.arange(4), i], X, CLASSES),
    "index_of_sum": (lambda x, i: x.sum(1)[i], X, _INDEX),
    "index_of_softmax": (lambda x, i: x.softmax(1)[i], X, _INDEX),
    "gather": (lambda x, i: x.gather(1, i[:, None]), X, CLASSES),
    "gather_rows": (lambda x, i: x.exp().gather(0, i), X, torch.tensor([[0, 1, 3]])),
    "gather_log_softmax": (lambda x, i: x.log_softmax(1).gather(1, i[:, None]).mean(), X, CLASSES),
    "index_select": (lambda x, i: x.index_select(1, i), X, _INDEX),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i[:, None], 1), X, CLASSES),
    "embedding": (lambda i, w: F.embedding(i, w), _INDEX.repeat(2, 1), X),
    "embedding_norm": (lambda i, w: F.layer_norm(F.embedding(i, w), (6,)), _INDEX, X),
    "one_hot": (lambda i: F.one_hot(i, 6), CLASSES),
    "slices_written": (lambda x, y: _written(x, y), X, Y),
}


def _written(x, y):
    x = x.clone()
    x[:, 0] = 0
    x[1:3] = y[:2] * 2
    return x


def _rope(x, cos, sin):
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat((-two, one), -1) * sin


def _quantised(x):
    scale = x.abs().amax(-1, keepdim=True) / 127.0
    return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


def _quantised_groups(x):
    groups = x.view(4, 3, 2)
    scale = groups.abs().amax(-1, keepdim=True) / 127.0
    return torch.round(groups / scale).clamp(-128, 127).to(torch.int8).view(4, 6), scale.squeeze(-1)


CHAINS = {
    "rope": (_rope, t(2, 3, 4), t(3, 4), t(3, 4, seed=1)),
    "silu_mul": (lambda a, b: F.silu(a) * b, X, Y),
    "silu_mul_halves": (lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], X),
    "quantised": (_quantised, X),
    "quantised_groups": (_quantised_groups, X),
    "fp8_cast": (lambda x: (x / x.abs().amax() * 448).to(torch.float8_e4m3fn).float(), X),
    "linear_softmax": (lambda x, w: F.linear(x, w).softmax(-1), X, t(5, 6)),
    "two_linears": (lambda x, a, b: F.linear(F.relu(F.linear(x, a)), b), X, t(5, 6), t(3, 5)),
    "linear_norm_linear": (lambda x, a, b: F.linear(F.layer_norm(F.linear(x, a), (5,)), b), X, t(5, 6), t(3, 5)),
    "linear_residual_norm": (lambda x, a: F.layer_norm(x + F.linear(x, a), (6,)), X, t(6, 6)),
    "amax_and_sum": (lambda x: (x.amax(-1), x.sum(0)), X),
    "attention": (lambda q, k, v: (q @ k.mT * 0.5).softmax(-1) @ v, t(2, 3, 4), t(2, 5, 4), t(2, 5, 4, seed=1)),
    "gated_halves": (lambda x, w: torch.mul(*(x @ w).chunk(2, -1)), X, t(6, 8)),
    "mixed_operand": (lambda x, y, w: (x + y) @ w, X, Y, t(6, 8)),
    "flipped_operand": (lambda x, w: x.flip(1) @ w, X, t(6, 8)),
    "gathered_operand": (lambda x, i, w: x[i] @ w, X, _INDEX, t(6, 8)),
    "triangular_product": (lambda a, b: torch.tril(a @ b), t(5, 5), t(5, 5, seed=1)),
    "product_and_relu": (lambda x, w: ((h := x @ w), h.relu(), h.sum(-1)), X, t(6, 8)),
    "sum_and_broadcast": (lambda x: x.sum(-1)[:, None] * x.sum(-1)[None, :], X),
    "outer_of_sums": (lambda x, y: x.sum(-1)[:, None] + y.sum(0)[None, :], X, Y),
    "sums_added": (lambda x, y: x.sum(-1) + y.sum(-1), X, Y),
    "row_then_column": (lambda x: (x - x.mean(1, keepdim=True)).amax(0), X),
    "row_norm_by_all": (lambda x: F.layer_norm(x, (6,)) / x.norm(), X),
    "global_pool": (lambda x: x.mean((2, 3)).softmax(1), Z),
    "square_ambiguous": (lambda x: (x.softmax(0), x.t().softmax(0)), t(5, 5)),
    "min_of_norm": (lambda x: F.group_norm(x, 2).amin(1, keepdim=True), X),
    "logsumexp_chain": (lambda x: F.mish(torch.logsumexp(x, 1, keepdim=True).clamp(-1, 1)), X),
    "mean_of_exp_diff": (lambda x, y: ((x - y).exp().mean(0), (x - y).abs().sum()), X, Y),
    "var_and_max": (lambda x: (x.var(1), x.amax(1), x - x.amin(1, keepdim=True)), X),
    "top_and_index": (lambda x: (x.amax(1), x.argmax(1), x.sum(1)), X),
    "softmax_summed": (lambda x: x.softmax(-1).sum(), X),
    "two_norms": (lambda x: F.layer_norm(F.layer_norm(x, (6,)), (6,)), X),
    "entropy": (lambda x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1).mean(), X),
    "softmax_both_ways": (lambda x: x.softmax(0).softmax(1), X),
    "covariance": (lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / 3, X),
    "two_spaces": (lambda x, y: (x + 1, y * 2), X, t(3, 5)),
}

Q, K, V = t(2, 3, 5, 8), t(2, 3, 7, 8, seed=1), t(2, 3, 7, 6, seed=2)
_EMPTY_ROWS = t(5, 7, dtype=torch.bool) & torch.tensor([[False], [True], [True], [True], [False]])


def sdpa(**options):
    """Return torch's attention with options."""
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


def masked_sdpa(q, k, v, mask):
    """Return torch's attention with a mask."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


ATTENTION = {
    "sdpa": (sdpa(), Q, K, V),
    "sdpa_causal": (sdpa(is_causal=True), Q, K, V),
    "sdpa_causal_few_keys": (sdpa(is_causal=True), K, Q, t(2, 3, 5, 6)),
    "sdpa_causal_one_row": (sdpa(is_causal=True), Q[:, :, :1], K, V),
    "sdpa_scale": (sdpa(scale=0.3), Q, K, V),
    "sdpa_gqa": (sdpa(enable_gqa=True), t(2, 6, 5, 8), t(2, 2, 7, 8, seed=1), t(2, 2, 7, 6, seed=2)),
    "sdpa_mask": (masked_sdpa, Q, K, V, _EMPTY_ROWS),
    "sdpa_mask_of_batches": (masked_sdpa, Q, K, V, t(2, 1, 5, 7, dtype=torch.bool)),
    "sdpa_added_mask": (masked_sdpa, Q, K, V, torch.where(_EMPTY_ROWS, t(5, 7), -INF)),
    "sdpa_bf16": (sdpa(is_causal=True), *(x.to(BF16) for x in (Q, K, V))),
    "sdpa_no_keys": (sdpa(), Q, K[:, :, :0], V[:, :, :0]),
    "sdpa_one_key": (sdpa(), Q, K[:, :, :1], V[:, :, :1]),
    "sdpa_no_queries": (sdpa(), Q[:, :, :0], K, V),
    "sdpa_one_batch_axis": (sdpa(), Q[0], K[0], V[0]),
    "sdpa_two_axes": (sdpa(), Q[0, 0], K[0, 0], V[0, 0]),
    "sdpa_broadcast": (sdpa(), Q, K[:1], V[:, :1]),
    "softmax_of_no_keys": (lambda q, k, v: (q @ k.mT).softmax(-1) @ v, Q, K[:, :, :0], V[:, :, :0]),
}

ALL = {**REDUCTIONS, **NORMS, **LOSSES, **SCANS, **MOVEMENT, **CHAINS, **ATTENTION}
