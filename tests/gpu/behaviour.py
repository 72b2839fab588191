"""How a built kernel behaves as a callable: in CUDA graphs, on streams, on views, and on parameters.

Each check returns what is wrong, and nothing when all is right.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from compare import compare, expected

import kgen

Tensors = tuple[torch.Tensor, ...]
SLEEP_CYCLES = 40_000_000  # about 20 ms: long enough that a launch on another stream runs first


def reference(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """A product with a fused epilogue."""
    return F.gelu(a @ b + c)


def draw(seed: int, m: int = 384, n: int = 520, k: int = 640) -> Tensors:
    """Return random operands of the reference, in bf16."""
    generator = torch.Generator("cuda").manual_seed(seed)

    def one(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device="cuda").to(torch.bfloat16)

    return one(m, k), one(k, n) / math.sqrt(k), one(n)


def faults_of(out: torch.Tensor, tensors: Tensors, what: str) -> list[str]:
    """Compare a result with the reference in float64."""
    found = compare(out, expected(reference, tensors), reference(*tensors))
    return [f"{what}: {fault}" for fault in found.faults]


def graph_replays(target: str) -> list[str]:
    """A CUDA graph captures the kernel and computes on whatever its inputs hold at each replay."""
    tensors = draw(1)
    kernel = kgen.build(reference, tensors, target=target)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernel(*tensors)
    faults = []
    for seed in (2, 3, 4):
        fresh = draw(seed)
        for tensor, value in zip(tensors, fresh, strict=True):
            tensor.copy_(value)
        out.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        faults += faults_of(out, fresh, f"replay with inputs {seed}")
    return faults


def current_stream(target: str) -> list[str]:
    """A launch follows the current stream: inputs that are still being written there are waited for."""
    tensors, late = draw(5), draw(6)
    kernel = kgen.build(reference, tensors, target=target)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP_CYCLES)
        for tensor, value in zip(tensors, late, strict=True):
            tensor.copy_(value)
        out = kernel(*tensors)
    if stream.query():
        return ["the stream was idle right after the launch, so that nothing was proven"]
    torch.cuda.synchronize()
    return faults_of(out, late, "after inputs that came late")


def two_streams(target: str) -> list[str]:
    """One built kernel runs on two streams at once, on different inputs."""
    sets = [draw(7, 2048, 2048, 2048), draw(8, 2048, 2048, 2048)]
    kernel = kgen.build(reference, sets[0], target=target)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    outs: list[list[torch.Tensor]] = [[], []]
    for _ in range(20):
        for place, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                outs[place].append(kernel(*sets[place]))
    torch.cuda.synchronize()
    faults = []
    for place, tensors in enumerate(sets):
        faults += faults_of(outs[place][0], tensors, f"stream {place}")
        if not all(torch.equal(outs[place][0], other) for other in outs[place]):
            faults.append(f"stream {place}: 20 launches gave different results")
    return faults


def unaligned_after_aligned(target: str) -> list[str]:
    """A kernel built on aligned tensors takes views of the same strides on any address, by turns."""
    tensors = draw(9)
    kernel = kgen.build(reference, tensors, target=target)
    count, faults = len(kernel.folders), []
    for offset in (0, 1, 3, 0, 8, 5, 0):
        moved = []
        for tensor in tensors:
            base = torch.full((tensor.numel() + 8,), math.nan, dtype=tensor.dtype, device="cuda")
            moved.append(base[offset : offset + tensor.numel()].view(tensor.shape).copy_(tensor))
        faults += faults_of(kernel(*moved), tensors, f"{offset} elements off an aligned address")
    if len(kernel.folders) != count:
        faults.append(f"{len(kernel.folders)} packages where {count} should serve")
    return faults


def parameters(target: str) -> list[str]:
    """A module whose parameters require gradients runs, and an update of them is seen."""
    module = torch.nn.Linear(640, 520, device="cuda", dtype=torch.bfloat16)
    x = draw(10)[0]
    kernel = kgen.build(module, (x,), target=target)
    faults = []
    for turn in range(3):
        with torch.no_grad():
            module.weight.mul_(1.5).add_(0.01 * turn)
        out = kernel(x)
        wide = F.linear(x.double(), module.weight.double(), module.bias.double()).detach()
        faults += [f"update {turn}: {fault}" for fault in compare(out, wide, module(x).detach()).faults]
        if out.requires_grad:
            faults.append("the result requires a gradient")
    return faults


def other_shapes(target: str) -> list[str]:
    """Other shapes and strides at the same callable get kernels of their own."""
    kernel = kgen.build(reference, draw(11), target=target)
    faults = []
    for seed, extents in ((12, (64, 64, 64)), (13, (384, 520, 640)), (14, (100, 30, 7))):
        tensors = draw(seed, *extents)
        faults += faults_of(kernel(*tensors), tensors, f"extents {extents}")
    return faults


BEHAVIOURS: dict[str, Callable[[str], list[str]]] = {
    "a CUDA graph replays with changed inputs": graph_replays,
    "launches follow the current stream": current_stream,
    "two streams at once": two_streams,
    "unaligned views after aligned tensors": unaligned_after_aligned,
    "parameters that require gradients, updated": parameters,
    "other shapes at the same callable": other_shapes,
}
