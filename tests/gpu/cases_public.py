"""Public QA cases for kgen, each drawn from a public bug report on a kernel library or compiler.

A case is a dict:
  id, cls, source ("owner/repo#n"), note
  fn        callable on torch tensors: the spec's reference
  inputs    callable (device, seed) -> tuple of tensors; strides, offsets and aliasing are part of the case
  tol       None for exact, or (rtol, atol)
and, where needed:
  more_inputs  further input callables, run one after another on the SAME built kernel (cache keys, shapes)
  also         further functions to build in the same session on the same inputs (cache keys)
  oracle       "fp64": compare with fn run in float64, rounded to the eager output's dtype (default: eager)
  ref          callable giving the right answer where eager is no oracle (compared with probe(out))
  bug          the reported fault acted out on the CPU; main() checks that the case notices it
  mutates      the inputs after the call are compared too
  fresh        no output may share storage with an input
  probe        picks the part of the output to compare
  raises       fn must raise this, and so must the generated kernel or the generator
  accept       "match_or_refuse": a NotImplementedError from the generator is as good as a match
  big          inputs of 4 GB and more; skipped unless --big (eager on the CPU may need 30 GB)

Run `python cases_public.py` to run every fn on the CPU in eager torch (-v: what the acted-out fault looks like).
With a GPU:
  check(case, run=lambda fn, *a: my_built_kernel(fn)(*a), device="cuda")  ->  list of problems
The oracle always runs on the CPU, on the same bits.
"""

import math
import sys
import warnings

import torch
import torch.nn.functional as F
from case_checking import BF16, F16, F32, F64, check, desc, ex, flat, input_sets, rn
from case_functions import (
    acts,
    acts_bug,
    affine,
    affine_bug,
    aligned_down,
    args,
    args_bug,
    as_dense,
    attn64,
    bmm_bug,
    branch,
    cancel_rows,
    chunked,
    fp16_sums,
    fp16_sums_bug,
    fp32_gemm,
    geglu,
    gemm_odd,
    int_div,
    int_div_bug,
    ln_var,
    ln_var_bug,
    log_bug,
    log_then_inplace,
    mask_counts,
    masked_bug,
    masked_qkv,
    minmax,
    minmax_bug,
    ones_dim,
    qkv,
    rms769,
    rms769_bug,
    rms_last,
    scale_and_sum,
    signed_pairs,
    sliced,
    soft,
    soft_bug,
    sparse_logits,
    tf32,
    ties,
    tri,
    two_way,
    two_way_bug,
    wide_range,
    with_nan,
)

CASES = [
    # ---- shapes ----
    {
        "id": "gemm-odd-mk",
        "cls": "shape",
        "source": "NVIDIA/cutlass#49",
        "tol": (2e-3, 2e-3),
        "oracle": "fp64",
        "fn": lambda a, b: a @ b,
        "inputs": lambda d, s: gemm_odd(d, s, 2, 3, 4),
        "more_inputs": [
            lambda d, s: gemm_odd(d, s, 67, 133, 35),
            lambda d, s: gemm_odd(d, s, 129, 1, 7),
            lambda d, s: gemm_odd(d, s, 1, 257, 1),
        ],
        "bug": lambda a, b: a[:, : a.shape[1] // 8 * 8] @ b[: a.shape[1] // 8 * 8],
        "note": "odd M and K with K-minor storage: no 16-byte vector or TMA load is legal; K tail must count",
    },
    {
        "id": "rmsnorm-odd-hidden",
        "cls": "shape",
        "source": "ROCm/aiter#5044",
        "tol": (2e-3, 2e-3),
        "oracle": "fp64",
        "fn": rms769,
        "bug": rms769_bug,
        "inputs": lambda d, s: (rn(d, s, 7, 769, dt=F16), rn(d, s + 1, 769, dt=F16)),
        "more_inputs": [
            lambda d, s: (rn(d, s, 7, 768, dt=F16), rn(d, s + 1, 768, dt=F16)),
            lambda d, s: (rn(d, s, 3, 1, dt=F16), rn(d, s + 1, 1, dt=F16)),
            lambda d, s: (rn(d, s, 1, 8209, dt=F16), rn(d, s + 1, 8209, dt=F16)),
        ],
        "note": "every second row starts off an 8-byte boundary; the tail must not touch the next row",
    },
    {
        "id": "linear-k-zero",
        "cls": "shape",
        "source": "tile-ai/tilelang#1697",
        "tol": None,
        "fn": lambda x, w, b: F.linear(x, w, b),
        "inputs": lambda d, s: (rn(d, s, 5, 0), rn(d, s, 6, 0), ex(d, s, 6)),
        "more_inputs": [
            lambda d, s: (rn(d, s, 0, 8), ex(d, s, 6, 8), ex(d, s, 6)),
            lambda d, s: (ex(d, s, 5, 8), rn(d, s, 0, 8), rn(d, s, 0)),
        ],
        "bug": lambda x, w, b: torch.zeros(x.shape[0], w.shape[0]),
        "note": "K=0 gives the bias, M=0 and N=0 give empty outputs; grid 0 and the size-0 strides must not raise",
    },
    {
        "id": "size-one-axes",
        "cls": "shape",
        "source": "NVIDIA/cutlass#3031",
        "tol": (1e-6, 1e-6),
        "fn": ones_dim,
        "inputs": lambda d, s: (rn(d, s, 32, 1),),
        "more_inputs": [
            lambda d, s: (rn(d, s, 1, 32),),
            lambda d, s: (rn(d, s, 1, 1),),
            lambda d, s: (rn(d, s, 32, 7)[:, 3:4],),
            lambda d, s: (rn(d, s, 40).expand(3, 40)[:1],),
        ],
        "bug": lambda x: (x * 2, x.sum(0), x.softmax(0)),
        "note": "two axes with stride 1, or a size-1 axis with an odd stride: strides do not name the leading axis",
    },
    {
        "id": "bmm-batch-over-65535",
        "cls": "shape",
        "source": "fla-org/flash-linear-attention#172",
        "tol": (2e-3, 2e-3),
        "oracle": "fp64",
        "fn": torch.bmm,
        "bug": bmm_bug,
        "inputs": lambda d, s: (rn(d, s, 65793, 2, 8, dt=F16), rn(d, s + 1, 65793, 8, 4, dt=F16)),
        "note": "batch x heads on grid.y or grid.z passes the limit of 65535",
    },
    {
        "id": "padded-rows-in-column-sum",
        "cls": "reduction",
        "source": "pytorch/pytorch#195845",
        "tol": None,
        "fn": two_way,
        "bug": two_way_bug,
        "inputs": lambda d, s: (ex(d, s, 4099, 129, dt=BF16),),
        "more_inputs": [lambda d, s: (ex(d, s, 3, 129, dt=BF16),)],
        "note": "masked loads give 0, a fused prologue maps 0 to 0.25: mask again before reducing over rows",
    },
    # ---- strides ----
    {
        "id": "sliced-base-misaligned",
        "cls": "stride",
        "source": "pytorch/pytorch#151859",
        "tol": (1e-5, 1e-5),
        "fn": scale_and_sum,
        "bug": aligned_down,
        "inputs": sliced(1),
        "more_inputs": [sliced(0), sliced(3), sliced(4), sliced(8)],
        "note": "storage offset of 1, 3, 4, 8 bf16 elements: a 16-byte alignment claim is false but for the last",
    },
    {
        "id": "gelu-of-chunk",
        "cls": "stride",
        "source": "huggingface/kernels-community#106",
        "tol": (1e-5, 1e-6),
        "oracle": "fp64",
        "fn": geglu,
        "inputs": chunked,
        "bug": lambda a, b: geglu(as_dense(a), b),
        "note": "chunk(2, -1): unit last stride, row stride twice the row length, second half at an offset",
    },
    {
        "id": "rmsnorm-of-padded-view",
        "cls": "stride",
        "source": "Dao-AILab/quack#23",
        "tol": (1.6e-2, 1e-2),
        "oracle": "fp64",
        "fn": rms_last,
        "bug": lambda x, w: rms_last(as_dense(x), w),
        "inputs": lambda d, s: (rn(d, s, 9, 416, dt=BF16)[:, 32:192], rn(d, s + 1, 160, dt=BF16)),
        "more_inputs": [
            lambda d, s: (rn(d, s, 2, 7, 3, 4, 64, dt=BF16)[:, :, 1].transpose(1, 2), rn(d, s + 1, 64, dt=BF16)),
            lambda d, s: (rn(d, s, 50, 160, dt=BF16)[::5], rn(d, s + 1, 160, dt=BF16)),
        ],
        "note": "padded leading dimension, a permuted 4-D q out of packed qkv, every fifth row",
    },
    # ---- large ----
    {
        "id": "rmsnorm-over-2e31-elements",
        "cls": "int32",
        "source": "flashinfer-ai/flashinfer#3391",
        "tol": (2e-3, 2e-3),
        "big": True,
        "fn": rms_last,
        "probe": lambda o: (o[0], o[1], o[-2], o[-1]),
        "ref": lambda x, w: tuple(torch.full((512,), r, dtype=F16) for r in (1.0, 0.0, 0.0, 1.0)),
        "inputs": lambda d, s: (
            torch.zeros(4194305, 512, dtype=F16, device=d).index_fill_(0, torch.tensor([0, 4194304], device=d), 3.0),
            torch.ones(512, dtype=F16, device=d),
        ),
        "note": "2**31 + 512 elements, 4 GiB: int32 offsets in CuTe; in FlyDSL int32 counts and 32-bit byte offsets",
    },
    # ---- dtypes ----
    {
        "id": "bf16-cast-inside-epilogue",
        "cls": "dtype",
        "source": "pytorch/pytorch#181568",
        "tol": None,
        "fn": lambda x, w, b: (x @ w).to(BF16) + b,
        "bug": lambda x, w, b: x @ w + b,
        "inputs": lambda d, s: (ex(d, s, 15, 32), ex(d, s + 1, 32, 17), ex(d, s + 2, 17)),
        "note": "an explicit cast is a rounding step, not a hint; inputs are dyadic, so the answer is exact",
    },
    {
        "id": "bool-sum-256",
        "cls": "dtype",
        "source": "triton-lang/triton#9991",
        "tol": None,
        "fn": lambda m: (m.sum(-1), m.sum(), m.to(torch.int8).sum(-1)),
        "bug": lambda m: tuple(t.to(torch.int8).to(torch.int64) for t in (m.sum(-1), m.sum(), m.sum(-1))),
        "inputs": mask_counts,
        "note": "sum of bool and int8 is int64: 256 trues are 256, not 0",
    },
    {
        "id": "floor-div-and-mod-signs",
        "cls": "dtype",
        "source": "triton-lang/triton#619",
        "tol": None,
        "fn": int_div,
        "bug": int_div_bug,
        "inputs": signed_pairs(torch.int32),
        "more_inputs": [signed_pairs(torch.int64)],
        "note": "// floors and % follows the divisor's sign; fmod and div(trunc) do not; int / int is float32",
    },
    {
        "id": "fp32-gemm-not-tf32",
        "cls": "dtype",
        "source": "triton-lang/triton#8654",
        "tol": (0.0, 1e-6),
        "fn": lambda x, w: x @ w,
        "bug": lambda x, w: tf32(x) @ tf32(w),
        "inputs": fp32_gemm,
        "note": "float32 inputs with 13 mantissa bits: TF32 loses three of them; torch's default is IEEE float32",
    },
    {
        "id": "fp16-partial-sums",
        "cls": "dtype",
        "source": "pytorch/pytorch#74438",
        "tol": (1e-3, 1e-3),
        "fn": fp16_sums,
        "bug": fp16_sums_bug,
        "inputs": cancel_rows,
        "note": "partial sums pass 65504 though the result does not: accumulate and combine in float32",
    },
    # ---- NaN, infinity ----
    {
        "id": "nan-through-min-max",
        "cls": "nan-inf",
        "source": "pytorch/pytorch#93784",
        "tol": None,
        "fn": minmax,
        "bug": minmax_bug,
        "inputs": with_nan,
        "note": "relu, clamp, maximum, amax give NaN for NaN in either place; cute.arch.fmax and maxnumf do not",
    },
    {
        "id": "softmax-mostly-neg-inf",
        "cls": "nan-inf",
        "source": "Dao-AILab/flash-attention#1930",
        "tol": (1e-5, 1e-6),
        "fn": soft,
        "bug": soft_bug,
        "inputs": sparse_logits,
        "note": "whole blocks of -inf before the first finite logit: exp(-inf - -inf) in the rescale is NaN",
    },
    {
        "id": "attention-fully-masked-row",
        "cls": "nan-inf",
        "source": "tracel-ai/burn#4694",
        "tol": (4e-3, 4e-3),
        "fn": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        "ref": lambda q, k, v, m: attn64(q, k, v, m).half(),
        "bug": masked_bug,
        "inputs": masked_qkv,
        "note": "SDPA gives 0 for a row with nothing to attend to (softmax alone gives NaN)",
    },
    # ---- reductions ----
    {
        "id": "argmax-ties-and-nan",
        "cls": "reduction",
        "source": "pytorch/pytorch#100573",
        "tol": None,
        "fn": args,
        "bug": args_bug,
        "inputs": ties,
        "note": "first index among equals, NaN beats all (eager's behaviour on CPU and CUDA); int64 indices",
    },
    # ---- numerics ----
    {
        "id": "layernorm-large-mean",
        "cls": "numerics",
        "source": "pytorch/pytorch#55044",
        "tol": (5e-3, 5e-3),
        "oracle": "fp64",
        "fn": ln_var,
        "bug": ln_var_bug,
        "inputs": lambda d, s: (
            rn(d, s, 4, 1024) + torch.tensor([[0.0], [1e3], [1e4], [-3e4]], device=d),
            rn(d, s + 1, 1024),
            rn(d, s + 2, 1024),
        ),
        "note": "E[x^2] - E[x]^2 cancels; two passes or Welford; var is unbiased by default",
    },
    {
        "id": "tanh-forms-at-large-x",
        "cls": "numerics",
        "source": "intel/llm-scaler#484",
        "tol": (2e-3, 1e-6),
        "oracle": "fp64",
        "fn": acts,
        "bug": acts_bug,
        "inputs": wide_range(F32),
        "more_inputs": [wide_range(F16)],
        "note": "tanh through exp(2z) is inf/inf from z ~ 44: gelu(tanh) gives NaN from x ~ 11",
    },
    # ---- attention ----
    {
        "id": "causal-rectangular",
        "cls": "attention",
        "source": "Dao-AILab/flash-attention#517",
        "tol": (4e-3, 4e-3),
        "fn": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "ref": lambda q, k, v: attn64(q, k, v, tri(q.shape[2], k.shape[2], 0)).half(),
        "bug": lambda q, k, v: attn64(q, k, v, tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2])).half(),
        "inputs": qkv(1, 2, 2, 70, 133, 64),
        "more_inputs": [qkv(1, 2, 2, 133, 70, 64), qkv(1, 2, 2, 1, 9, 64)],
        "note": "torch aligns is_causal to the top left, FlashAttention to the bottom right; they agree on squares",
    },
    {
        "id": "gqa-head-map",
        "cls": "attention",
        "source": "onnx/onnx#7274",
        "tol": (4e-3, 4e-3),
        "fn": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        "ref": lambda q, k, v: attn64(q, k, v).half(),
        "bug": lambda q, k, v: attn64(q, k, v, tile=True).half(),
        "inputs": qkv(2, 6, 2, 17, 40, 64),
        "more_inputs": [qkv(1, 5, 1, 3, 70, 128), qkv(1, 4, 4, 3, 70, 128)],
        "note": "query head h reads kv head h // ratio, not h % heads; ratio 3 is no power of two",
    },
    {
        "id": "head-dim-96-192-256-40",
        "cls": "attention",
        "source": "Dao-AILab/flash-attention#1374",
        "tol": (4e-3, 4e-3),
        "fn": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        "ref": lambda q, k, v: attn64(q, k, v).half(),
        "bug": lambda q, k, v: attn64(q, k, v, scale=(2 ** math.ceil(math.log2(q.shape[-1]))) ** -0.5).half(),
        "inputs": qkv(1, 2, 2, 33, 77, 96),
        "more_inputs": [qkv(1, 1, 1, 33, 77, 192, 128), qkv(1, 1, 1, 33, 77, 256), qkv(1, 1, 1, 5, 129, 40)],
        "note": "padded head dims: the default scale uses the true d of q and k, v may have another d, pads must add 0",
    },
    # ---- tracing ----
    {
        "id": "read-before-inplace",
        "cls": "tracing",
        "source": "pytorch/pytorch#94777",
        "tol": (1e-6, 1e-6),
        "mutates": True,
        "fn": log_then_inplace,
        "bug": log_bug,
        "inputs": lambda d, s: (rn(d, s, 3, 50).abs() + 1.5,),
        "note": "the write to the input comes after the read; the caller sees it (or the generator refuses)",
        "accept": "match_or_refuse",
    },
    {
        "id": "zero-dim-f64-operand",
        "cls": "tracing",
        "source": "pytorch/pytorch#185605",
        "tol": None,
        "fn": lambda x, s: (x + s, x * s),
        "bug": lambda x, s: ((x.float() + s.float()).to(BF16), x * s),
        "inputs": lambda d, s: (
            torch.tensor([[0.0, 0.0, 0.1], [-0.2, 1.0, -1.0]], dtype=BF16, device=d),
            torch.tensor(-0.1, dtype=F64, device=d),
        ),
        "note": "a 0-dim float64 tensor does not promote bf16, and is rounded to bf16 before the add: 0.1 + -0.1 is 0",
    },
    {
        "id": "module-params-buffer-kwarg",
        "cls": "tracing",
        "source": "ROCm/aiter#5307",
        "tol": None,
        "fn": affine,
        "bug": affine_bug,
        "inputs": lambda d, s: (ex(d, s, 5, 24),),
        "note": "parameters that require grad cannot go through DLPack undetached; buffers and keywords must be kept",
    },
    {
        "id": "data-dependent-branch",
        "cls": "tracing",
        "source": "pytorch/pytorch#54602",
        "tol": None,
        "accept": "match_or_refuse",
        "fn": branch,
        "bug": lambda x: x * 2,
        "inputs": lambda d, s: (ex(d, s, 4, 5).abs(),),
        "more_inputs": [lambda d, s: (-ex(d, s, 4, 5).abs(),)],
        "note": "never bake the branch that the example took: refuse, naming the line, or guard",
    },
    # ---- broadcasting ----
    {
        "id": "square-gemm-column-bias",
        "cls": "broadcast",
        "source": "openxla/xla#46897",
        "tol": None,
        "fn": lambda a, b, c: a @ b + c,
        "bug": lambda a, b, c: a @ b + c.reshape(1, -1),
        "inputs": lambda d, s: (ex(d, s, 64, 64, dt=F32), ex(d, s + 1, 64, 64), ex(d, s + 2, 64, 1)),
        "more_inputs": [
            lambda d, s: (ex(d, s, 64, 64), ex(d, s + 1, 64, 64), ex(d, s + 2, 64)),
            lambda d, s: (ex(d, s, 64, 64), ex(d, s + 1, 64, 64), ex(d, s + 2, 1, 1)),
            lambda d, s: (ex(d, s, 64, 64), ex(d, s + 1, 64, 64), ex(d, s + 2, 64, 64).t()),
        ],
        "note": "M == N: a length test cannot tell a column bias from a row bias",
    },
    # ---- errors, cache, test oracle ----
    {
        "id": "matmul-dtype-mismatch",
        "cls": "error",
        "source": "pytorch/pytorch#177630",
        "tol": None,
        "raises": (RuntimeError, TypeError),
        "fn": lambda a, b: a @ b,
        "inputs": lambda d, s: (rn(d, s, 2, 4, 8, dt=F16), rn(d, s, 2, 8, 4)),
        "note": "fp16 @ fp32 is an error in eager: do not promote in silence; name both dtypes",
    },
    {
        "id": "one-kernel-many-shapes",
        "cls": "cache",
        "source": "ROCm/FlyDSL#317",
        "tol": None,
        "fn": lambda a, b: a + b,
        "bug": lambda a, b: torch.cat([(a + b).reshape(-1)[:512], torch.zeros(max(0, a.numel() - 512))])[
            : a.numel()
        ].reshape(a.shape),
        "inputs": lambda d, s: (ex(d, s, 512, 1), ex(d, s + 1, 512, 1)),
        "more_inputs": [
            lambda d, s: (ex(d, s, 4096, 1), ex(d, s + 1, 4096, 1)),
            lambda d, s: (ex(d, s, 1, 4096), ex(d, s + 1, 1, 4096)),
            lambda d, s: (ex(d, s, 64, 48), ex(d, s + 1, 48, 64).t()),
            lambda d, s: (ex(d, s, 64, 48), ex(d, s + 1, 1, 48).expand(64, 48)),
        ],
        "note": "same rank and dtype, other sizes and strides: what the binary baked in must be in the cache key",
    },
    {
        "id": "tolerance-that-zeros-pass",
        "cls": "oracle",
        "source": "ScalingIntelligence/KernelBench#165",
        "tol": (1e-3, 1e-9),
        "fn": lambda x: (x.softmax(-1), x / x.norm()),
        "bug": lambda x: (torch.zeros_like(x), torch.zeros_like(x)),
        "inputs": lambda d, s: (rn(d, s, 4, 8192),),
        "note": "outputs near 1e-4: with atol=1e-2 the generated test accepts a kernel that writes zeros",
    },
]


def main(argv):
    big, bad = "--big" in argv, 0
    for c in CASES:
        if c.get("big") and not big:
            print(f"SKIP  {c['id']:<30} {c['cls']:<11} (big; run with --big)")
            continue
        probs = check(c)
        caught = None
        if "bug" in c and "raises" not in c:  # the faulty kernel, acted out: the case must notice it
            caught = bool(check(c, run=lambda fn, *a, c=c: c["bug"](*a)))
        ok = not probs and caught is not False
        bad += not ok
        if "-v" in argv and "bug" in c:
            print("        acted-out fault: " + "; ".join(check(c, run=lambda fn, *a, c=c: c["bug"](*a))))
        mk = next(iter(input_sets(c)))[1]
        ins = mk()
        print(f"{'ok  ' if ok else 'FAIL'}  {c['id']:<30} {c['cls']:<11} {c['source']}")
        print(
            f"        in : {'; '.join(desc(t) for t in ins)}"
            + (f"  (+{len(c['more_inputs'])} more sets)" if c.get("more_inputs") else "")
        )
        if "raises" in c:
            print("        out: raises as it should")
        else:
            print(f"        out: {'; '.join(desc(t) for t in flat(c['fn'](*mk())))}  fault noticed: {caught}")
        for p in probs:
            print("        !! " + p)
    print(f"{len(CASES)} cases, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    sys.exit(main(sys.argv[1:]))
