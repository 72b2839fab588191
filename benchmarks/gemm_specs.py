"""Random GEMM specs as YAML text: spec `index` of a seed is the same in every run.

Extents, element types, layouts and epilogues turn at different speeds, so that a few hundred specs meet most pairs; the
rest is drawn. Every spec is one that all devices of `targets/` accept.
"""

import random
from dataclasses import dataclass

TILES = (128, 256, 512, 768, 1024, 1280, 2048, 3072, 4096, 5120, 8192, 14336, 16384)
FEW = (1, 2, 4, 7, 8, 16, 24, 32, 48, 64)
KINDS = ("tiles", "few rows", "eights", "ragged", "deep", "tiles", "batched")
DTYPES = ("bf16", "fp16", "bf16", "fp8_e4m3", "int8", "bf16", "fp16", "fp32")
LAYOUTS = (("", "col"), ("", ""), ("col", ""), ("col", "col"), ("", "col"))
ACTIVATIONS = (
    "F.relu(x)",
    'F.gelu(x, approximate="tanh")',
    "F.gelu(x)",
    "F.silu(x)",
    "torch.sigmoid(x)",
    "torch.tanh(x)",
    "F.leaky_relu(x, 0.2)",
    "F.hardswish(x)",
    "x.clamp(-1, 0.5)",
    "x * torch.sigmoid(1.702 * x)",
)
EPILOGUES = ("", "bias", "activation", "bias activation", "residual", "bias residual activation", "scale", "rows bias")
WIDENED = {"fp8_e4m3": "torch.float32", "int8": "torch.int32"}  # what operands of 8 bits are cast to in the reference


@dataclass(frozen=True, slots=True)
class Problem:
    """What is drawn: the class of extents, the extents, the element type, the layouts of A and B, the epilogue."""

    name: str
    kind: str
    extents: dict[str, int]
    dtype: str
    layouts: tuple[str, str]
    steps: tuple[str, ...]
    activation: str

    @property
    def text(self) -> str:
        """The spec."""
        inputs, lines = self._operands()
        for step in self.steps:
            shape, line = self._step(step)
            lines.append(line)
            if shape:
                inputs.append((step, f"shape: [{shape}], dtype: {self.epilogue_dtype}"))
        if (self.dtype == "int8" and self.steps) or self.dtype == "fp8_e4m3":
            lines.append("x = x.to(torch.bfloat16)")
        arguments = ", ".join(name for name, _ in inputs)
        body = ["import torch", "import torch.nn.functional as F", "", "", f"def gemm({arguments}):"]
        body += [*(f"    {line}" for line in lines), "    return x"]
        return "\n".join(
            [
                f"name: {self.name}",
                "reference: |",
                *(f"  {line}".rstrip() for line in body),
                "inputs:",
                *(f"  {name}: {{{text}}}" for name, text in inputs),
                f"extents: {{{', '.join(f'{name}: {extent}' for name, extent in self.extents.items())}}}",
                "",
            ]
        )

    @property
    def epilogue_dtype(self) -> str:
        """The element type of what the epilogue reads."""
        return "fp32" if self.dtype in WIDENED else self.dtype

    def _operands(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return A and B as (name, type), and the lines of the product."""
        batch = "B, " if "B" in self.extents else ""
        layouts = [f", layout: {layout}" if layout else "" for layout in self.layouts]
        shapes = (("a", f"{batch}M, K"), ("b", f"{batch}K, N"))
        inputs = [
            (name, f"shape: [{shape}], dtype: {self.dtype}{layout}")
            for (name, shape), layout in zip(shapes, layouts, strict=True)
        ]
        if self.dtype not in WIDENED:
            return inputs, ["x = a @ b"]
        wide = WIDENED[self.dtype]
        lines = [f"x = a.to({wide}) @ b.to({wide})"]
        return inputs, lines + (["x = x.to(torch.float32)"] if self.dtype == "int8" and self.steps else [])

    def _step(self, step: str) -> tuple[str, str]:
        """Return the shape of what a step of the epilogue reads ("" for nothing), and its line."""
        batch = "B, " if "B" in self.extents else ""
        match step:
            case "activation":
                return "", f"x = {self.activation}"
            case "scale":
                return "N", "x = x * scale"
            case "bias":
                return "N", "x = x + bias"
            case "rows":
                return "M, 1", "x = x * rows"
            case _:
                return f"{batch}M, N", f"x = x + {step}"


def problem(index: int, seed: int = 0) -> Problem:
    """Return the problem of that index."""
    rng = random.Random(f"{seed}/{index}")
    kind = KINDS[index % len(KINDS)]
    return Problem(
        name=f"gemm_{index:04d}",
        kind=kind,
        extents=_extents(kind, rng),
        dtype=DTYPES[index // 2 % len(DTYPES)],
        layouts=LAYOUTS[index // 3 % len(LAYOUTS)],
        steps=tuple(EPILOGUES[index // 5 % len(EPILOGUES)].split()),
        activation=rng.choice(ACTIVATIONS),
    )


def _extents(kind: str, rng: random.Random) -> dict[str, int]:
    m, n, k = (rng.choice(TILES) for _ in range(3))
    match kind:
        case "few rows":
            m = rng.choice(FEW)
        case "eights":
            m, n, k = (8 * rng.randint(1, 1024) for _ in range(3))
        case "ragged":
            m, n, k = (rng.randint(1, 8192) for _ in range(3))
        case "deep":
            m, n, k = rng.choice(TILES[:4]), rng.choice(TILES[:4]), rng.choice((32768, 65536, 131072 - 64))
        case "batched":
            return {"B": rng.choice((2, 8, 16, 96)), "M": m // 2, "N": n // 2, "K": rng.choice((64, 128, 512, 1024))}
    return {"M": m, "N": n, "K": k}
