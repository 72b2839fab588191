"""The reference of module_bf16_silu_scale.yaml."""

import torch
from torch import nn


class ScaledLinear(nn.Module):
    """A linear layer, SiLU, and a learned scale per output feature."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, dtype=torch.bfloat16)
        self.scale = nn.Parameter(torch.ones(out_features, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.linear(x)) * self.scale


Model = ScaledLinear
