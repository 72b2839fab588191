"""FlyDSL's own kernels on small problems in kgen's simulator: the program of a subprocess of cdna_evidence.py.

    python -P -m cdna_peers CHECKOUT PROBLEM DEVICE HIP_STUB

Prints one JSON object: static evidence and dynamic counts of each kernel, what the simulator found, and the error
against PyTorch. The checkout of ROCm/FlyDSL is only imported from.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from cdna_problems import PROBLEMS, Problem

from kgen.check.flydsl.capture import captured
from kgen.check.flydsl.counts import kernel_of
from kgen.check.flydsl.device import DEVICE, SimulatedDevice
from kgen.check.flydsl.evidence import evidence_of
from kgen.check.flydsl.executor import Choice, Executor
from kgen.check.flydsl.hip import HipStub
from kgen.target import load_device

SEED = 0


def main() -> None:
    """Run one problem."""
    checkout, name, device_name, stub = sys.argv[1:]
    sys.path.insert(0, checkout)
    problem = next(problem for problem in PROBLEMS if problem.name == name)
    device = load_device(device_name)
    with captured() as compiles:
        executor = Executor(lambda on_launch: HipStub(Path(stub), on_launch), compiles)
        torch = import_module("torch")
        torch.manual_seed(SEED)
        simulated = SimulatedDevice(device)
        peer: Callable[..., Any] = globals()[problem.peer]
        with executor.on(simulated, Choice()):
            out, expected = peer(problem, device.arch.isa)
        executions = executor.take_executions()
        static = [k for made in compiles for k in evidence_of(made.code_object, made.assembly, device.arch)]
    error = float((out.double() - expected.double()).norm() / expected.double().norm())
    result = {
        "kernels": [kernel_of(name, execution).to_json() for execution in executions if execution.report],
        "static": [asdict(kernel) for kernel in static],
        "findings": [str(f) for execution in executions if execution.report for f in execution.report.findings],
        "rel_err": error,
    }
    print(json.dumps(result))


def on_device(tensor: Any) -> Any:
    """Return a copy of a tensor in the simulated device's memory."""
    torch = import_module("torch")
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=DEVICE)
    copy.copy_(tensor)
    return copy


def operands(problem: Problem, isa: str) -> tuple[Any, Any, Any]:
    """Return A (M, K), B (N, K) and their product in fp32 or int32."""
    torch = import_module("torch")
    m, n, k = (problem.extents[name] for name in "MNK")
    if problem.dtype == "int8":
        a, b = (torch.randint(-8, 8, (rows, k), dtype=torch.int8) for rows in (m, n))
        return a, b, (a.int() @ b.int().T).float()
    fp8 = torch.float8_e4m3fn if isa == "gfx950" else torch.float8_e4m3fnuz
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8_e4m3": fp8}[problem.dtype]
    a, b = ((torch.randn(rows, k) * 0.5).to(dtype) for rows in (m, n))
    return a, b, a.float() @ b.float().T


def preshuffle(problem: Problem, isa: str) -> tuple[Any, Any]:
    """kernels/gemm/preshuffle_gemm.py: B lies in memory as MFMA takes it."""
    torch, flyc, fx = (import_module(name) for name in ("torch", "flydsl.compiler", "flydsl.expr"))
    build = import_module("kernels.gemm.preshuffle_gemm").compile_preshuffle_gemm
    m, n, k = (problem.extents[name] for name in "MNK")
    tile_m, tile_n, tile_k = problem.peer_tile
    name = problem.dtype.partition("_")[0]
    launch = build(N=n, K=k, tile_m=tile_m, tile_n=tile_n, tile_k=tile_k, in_dtype=name, out_dtype="bf16")
    a, b, expected = operands(problem, isa)
    eight_bit = a.element_size() == 1
    vector = 16 // b.element_size()
    pieces = b.view(torch.int8 if eight_bit else b.dtype).view(n // 16, 16, k // (4 * vector), 4, vector)
    shuffled = pieces.permute(0, 2, 3, 1, 4).contiguous().view(-1)
    ones = [on_device(torch.ones(rows if eight_bit else 0)) for rows in (m, n)]
    bytes_of_a = a.view(torch.int8) if eight_bit else a
    out = on_device(torch.full((m, n), float("nan"), dtype=torch.bfloat16))
    bias = on_device(torch.zeros(0, dtype=torch.bfloat16))
    given = (out.view(-1), on_device(bytes_of_a).view(-1), on_device(shuffled), *ones, bias)
    flyc.compile(launch, *given, m, n, fx.Stream(0))  # with tensors of the device it is launched, too
    return out, expected


def a16w16(problem: Problem, isa: str) -> tuple[Any, Any]:
    """kernels/gemm/gemm_a16w16_gfx950.py: B as it is, both operands loaded into LDS asynchronously."""
    torch = import_module("torch")
    gemm = import_module("kernels.gemm.gemm_a16w16_gfx950").gemm_a16w16
    a, b, expected = operands(problem, isa)
    tile_m, tile_n, tile_k = problem.peer_tile
    is_large = tile_m * tile_n > 128 * 128
    choices = {
        "block_m": tile_m,
        "block_n": tile_n,
        "block_k": tile_k,
        "stages": 2,
        "split_k": 1,
        "m_waves": 2,
        "n_waves": 4 if is_large else 2,
        "k_waves": 1,
        "group_m": 0,
        "use_half_tile_interleaved": is_large,
    }
    out = on_device(torch.full(expected.shape, float("nan"), dtype=a.dtype))
    given = on_device(a), on_device(b).T
    for _ in range(2):  # the first call compiles and launches nothing, as DLPack says that the memory is a CPU's
        gemm(*given, out=out, user_kwargs=choices, layout="nt")
    return out, expected


def _row_inputs(problem: Problem) -> tuple[Any, Any, Any]:
    torch = import_module("torch")
    m, n = problem.extents["M"], problem.extents["N"]
    x, weight, bias = (torch.randn(shape).to(torch.bfloat16) for shape in ((m, n), (n,), (n,)))
    return x, weight, bias


def softmax(problem: Problem, isa: str) -> tuple[Any, Any]:
    """kernels/norm/softmax_kernel.py."""
    torch, flyc, fx = (import_module(name) for name in ("torch", "flydsl.compiler", "flydsl.expr"))
    x, _, _ = _row_inputs(problem)
    m, n = x.shape
    out = on_device(torch.empty_like(x))
    launch = import_module("kernels.norm.softmax_kernel").build_softmax_module(m, n, "bf16")
    flyc.compile(launch, on_device(x), out, m, fx.Stream(0))
    return out, torch.softmax(x.float(), dim=-1)


def rmsnorm(problem: Problem, isa: str) -> tuple[Any, Any]:
    """kernels/norm/rmsnorm_kernel.py."""
    torch, flyc, fx = (import_module(name) for name in ("torch", "flydsl.compiler", "flydsl.expr"))
    x, weight, _ = _row_inputs(problem)
    m, n = x.shape
    out = on_device(torch.empty_like(x))
    launch = import_module("kernels.norm.rmsnorm_kernel").build_rmsnorm_module(n, "bf16")
    flyc.compile(launch, on_device(x), on_device(weight), out, m, fx.Stream(0))
    return out, torch.nn.functional.rms_norm(x.float(), (n,), weight.float(), 1e-5)


def layernorm(problem: Problem, isa: str) -> tuple[Any, Any]:
    """kernels/norm/layernorm_kernel.py."""
    torch, flyc, fx = (import_module(name) for name in ("torch", "flydsl.compiler", "flydsl.expr"))
    x, weight, bias = _row_inputs(problem)
    m, n = x.shape
    out = on_device(torch.empty_like(x))
    launch = import_module("kernels.norm.layernorm_kernel").build_layernorm_module(n, "bf16")
    tensors = (on_device(x), on_device(weight), on_device(bias), out)
    pointers = [flyc.from_c_void_p(fx.BFloat16, tensor.data_ptr()) for tensor in tensors]
    flyc.compile(launch, *pointers, m, fx.Stream(0))
    return out, torch.nn.functional.layer_norm(x.float(), (n,), weight.float(), bias.float(), 1e-5)


if __name__ == "__main__":
    main()
