"""The references of the public cases, and the reported faults acted out on the CPU."""

import math

import torch
import torch.nn.functional as F
from case_checking import BF16, F16, F32, INF, NAN, ex, ri, rn


# ============================ shapes ============================
def gemm_odd(dev, seed, m, k, n):
    # both operands stored column-major, so the odd sizes are the leading dimensions
    return (rn(dev, seed, k, m, dt=F16).t(), rn(dev, seed + 1, n, k, dt=F16).t())


def rms769(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def rms769_bug(x, w):  # the vector tail of one row lands on the first element of the next
    y = rms769(x, w).clone()
    y[1:, 0] = 0
    return y


def ones_dim(x):
    return x * 2, x.sum(-1), x.softmax(-1)


def bmm_bug(a, b):  # batch on grid.y, cut at its limit
    o = torch.bmm(a, b)
    o[65535:] = 0
    return o


def two_way(x):
    y = x * 2 + 0.25
    return y.amax(-1), y.float().sum(0)


def two_way_bug(x):  # rows padded to a multiple of 8 load 0, the prologue turns 0 into 0.25
    y = x * 2 + 0.25
    return y.amax(-1), y.float().sum(0) + 0.25 * (-x.shape[0] % 8)


# ============================ strides ============================
def sliced(off):
    return lambda dev, seed: (rn(dev, seed, 1 + 24 * 72 + 8, dt=BF16)[off : off + 24 * 72].view(24, 72),)


def scale_and_sum(x):
    return x * 3, x.float().sum(-1)


def aligned_down(x):  # base pointer taken as 16-byte aligned
    off = x.storage_offset() // 8 * 8
    return scale_and_sum(torch.as_strided(x, x.shape, x.stride(), off))


def geglu(a, b):
    return F.gelu(a) * b


def chunked(dev, seed):
    return rn(dev, seed, 6, 2 * 96).chunk(2, -1)


def as_dense(t):
    st, n = [], 1
    for s in reversed(t.shape):
        st.insert(0, n)
        n *= s
    return torch.as_strided(t, t.shape, st, t.storage_offset())


def rms_last(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


# ============================ integers, dtypes ============================
def mask_counts(dev, seed):
    m = torch.zeros(4, 300, dtype=torch.bool)
    m[0, :256] = True
    m[1] = True
    m[2, ::2] = True
    return (m.to(dev),)


def int_div(a, b):
    return a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.fmod(a, b), a / b


def int_div_bug(a, b):
    t = torch.div(a, b, rounding_mode="trunc")
    return t, a - t * b, t, a - t * b, a / b


def signed_pairs(dt):
    def mk(dev, seed):
        a = torch.arange(-12, 13, dtype=dt).repeat_interleave(6)
        b = torch.tensor([-5, -3, -1, 1, 2, 7], dtype=dt).repeat(25)
        return a.to(dev), b.to(dev)

    return mk


def tf32(t):
    return (t.view(torch.int32) + 0x1000 & -0x2000).view(F32)


def fp32_gemm(dev, seed):
    x = 1 + ri("cpu", seed, 0, 16, 48, 64, dt=F32) * 2.0**-12
    w = ri("cpu", seed + 1, 0, 2, 64, 40, dt=F32) * 2 - 1
    return x.to(dev), w.to(dev)


def cancel_rows(dev, seed):
    r = torch.cat([torch.full((16384,), 8.0), torch.full((16384,), -8.0)])
    big = torch.full((32768,), 60000.0)
    big[1::2] = -60000.0
    return (torch.stack([r, big, big.abs()]).to(F16).to(dev),)


def fp16_sums(x):
    return x[:2].sum(-1), x.mean(-1)


def fp16_sums_bug(x):
    half = x.shape[-1] // 2
    s = x[:, :half].sum(-1, dtype=F32).half() + x[:, half:].sum(-1, dtype=F32).half()
    return s[:2], s / x.shape[-1]


# ============================ NaN and infinity ============================
def minmax(x, y):
    return (
        torch.relu(x),
        torch.clamp_min(x, 0.5),
        torch.clamp(x, -1, 1),
        torch.maximum(x, y),
        torch.minimum(x, y),
        x.amax(-1),
        x.amin(-1),
    )


def minmax_bug(x, y):  # the quiet maximumNumber that fmax / max.f32 / v_max_f32 give
    def c(t, v):
        return torch.full_like(t, v)

    def fill(t, v):
        return torch.where(torch.isnan(t), c(t, v), t)

    return (
        torch.fmax(x, c(x, 0)),
        torch.fmax(x, c(x, 0.5)),
        torch.fmin(torch.fmax(x, c(x, -1)), c(x, 1)),
        torch.fmax(x, y),
        torch.fmin(x, y),
        fill(x, -INF).amax(-1),
        fill(x, INF).amin(-1),
    )


def with_nan(dev, seed):
    x, y = rn("cpu", seed, 5, 300), rn("cpu", seed + 1, 5, 300)
    x[0, 7] = x[1, 299] = x[3, 0] = NAN
    y[2, 5] = y[0, 7] = NAN
    x[4, 1], x[4, 2] = INF, -INF
    return x.to(dev), y.to(dev)


def sparse_logits(dev, seed):
    x = torch.full((4, 5000), -INF)
    x[0, 0] = x[1, 2500] = x[2, 4999] = 10.0
    x[3, 1024:1030] = torch.arange(6.0)
    return (x.to(dev),)


def soft(x):
    return x.softmax(-1), torch.logsumexp(x, -1), x.log_softmax(-1)


def soft_bug(x):  # online rescale with no guard for a block whose maximum is still -inf
    m = torch.full(x.shape[:1], -INF)
    s = torch.zeros(x.shape[:1])
    for c in x.split(1024, -1):
        n = torch.maximum(m, c.amax(-1))
        s = s * (m - n).exp() + (c - n[:, None]).exp().sum(-1)
        m = n
    return (x - m[:, None]).exp() / s[:, None], m + s.log(), x - (m + s.log())[:, None]


# ============================ attention ============================
def qkv(b, hq, hk, lq, lk, d, dv=None, dt=F16, scale=1.0):
    def mk(dev, seed):
        return (
            rn(dev, seed, b, hq, lq, d, dt=dt, scale=scale),
            rn(dev, seed + 1, b, hk, lk, d, dt=dt, scale=scale),
            rn(dev, seed + 2, b, hk, lk, dv or d, dt=dt),
        )

    return mk


def attn64(q, k, v, keep=None, scale=None, tile=False):
    """Plain attention in float64; keep: boolean mask; a row with nothing to see gives 0."""
    q, k, v = (t.cpu().double() for t in (q, k, v))
    r = q.shape[1] // k.shape[1]
    if r > 1:
        k, v = (t.repeat(1, r, 1, 1) if tile else t.repeat_interleave(r, 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if keep is not None:
        s = s.masked_fill(~keep, -INF)
    p = torch.nan_to_num(s.softmax(-1)) if s.shape[-1] else s
    return p @ v


def masked_qkv(dev, seed):
    keep = ri("cpu", seed + 3, 0, 2, 7, 33, dt=torch.bool)
    keep[1] = keep[6] = False
    keep[0] = True
    return (*qkv(2, 2, 2, 7, 33, 64)(dev, seed), keep.to(dev))


def masked_bug(q, k, v, keep):
    s = (q.float() @ k.float().transpose(-1, -2)) * q.shape[-1] ** -0.5
    return (s.masked_fill(~keep, -INF).softmax(-1) @ v.float()).half()


def tri(lq, lk, shift):
    return torch.ones(lq, lk, dtype=torch.bool).tril(shift)


# ============================ reductions, numerics ============================
def ties(dev, seed):
    x = ri("cpu", seed, 0, 4, 6, 1028, dt=F32)
    x[4, 700] = NAN
    x[5, 3] = x[5, 1000] = NAN
    return (x.to(dev),)


def args(x):
    return x.argmax(-1), x.argmin(-1), x.max(-1).values, x.argmax(0, keepdim=True)


def args_bug(x):  # ties go to the last index
    n, m = x.shape[-1], x.shape[0]
    return (
        n - 1 - x.flip(-1).argmax(-1),
        n - 1 - x.flip(-1).argmin(-1),
        x.max(-1).values,
        m - 1 - x.flip(0).argmax(0, keepdim=True),
    )


def ln_var(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b, 1e-5), x.var(-1), x.std(-1, correction=0)


def ln_var_bug(x, w, b):
    n, m = x.shape[-1], x.mean(-1, keepdim=True)
    v = ((x * x).mean(-1, keepdim=True) - m * m).clamp_min(0)
    return (x - m) * torch.rsqrt(v + 1e-5) * w + b, v[:, 0] * n / (n - 1), v[:, 0].sqrt()


def wide_range(dt):
    def mk(dev, seed):
        hi = 3e4 if dt == F16 else 1e5
        t = torch.cat(
            [
                torch.linspace(-12, 12, 241),
                torch.logspace(0, math.log10(hi), 60),
                -torch.logspace(0, math.log10(hi), 60),
                torch.zeros(1),
            ]
        )
        return (t.to(dt).to(dev),)

    return mk


def acts(x):
    return F.gelu(x, approximate="tanh"), torch.tanh(x), torch.sigmoid(x), F.silu(x)


def acts_bug(x):
    def e(t):
        return t.float().exp()

    def th(t):
        return ((e(2 * t) - 1) / (e(2 * t) + 1)).to(x.dtype)

    f = x.float()
    g = 0.5 * f * (1 + th(0.7978845608 * (f + 0.044715 * f**3)).float())
    return g.to(x.dtype), th(x), torch.sigmoid(x), F.silu(x)


# ============================ tracing ============================
def log_then_inplace(x):
    y = x.log()
    x.log_()
    return y


def log_bug(x):
    x.log_()
    return x.log()


class Affine(torch.nn.Module):
    """Parameters that require grad, a non-persistent buffer, a keyword with a default."""

    def __init__(self, dev, seed):
        super().__init__()
        self.lin = torch.nn.Linear(24, 40, device=dev)
        with torch.no_grad():
            self.lin.weight.copy_(ex(dev, seed, 40, 24))
            self.lin.bias.copy_(ex(dev, seed + 1, 40))
        self.register_buffer("gate", (torch.arange(40) % 3 - 1.0).to(dev), persistent=False)

    def forward(self, x, *, slope=0.25):
        return F.leaky_relu(self.lin(x), slope) * self.gate


MODS = {d: Affine(torch.device(d), 11) for d in ("cpu", *(["cuda"] if torch.cuda.is_available() else []))}


def affine(x):
    return MODS[x.device.type](x, slope=0.5)


def affine_bug(x):
    return MODS[x.device.type](x)  # the keyword is lost


def branch(x):
    if x.sum() > 0:
        return x * 2
    return x - 1
