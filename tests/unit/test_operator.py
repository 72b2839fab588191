"""The operator of a package: opt-in, registered once, and called by the module in place of the kernel."""

from pathlib import Path

import pytest

from kgen.api import emit
from kgen.spec.load import parse_spec

MODULE = """
name: gelu
{operator}
reference: |
  import torch
  import torch.nn.functional as F

  class Model(torch.nn.Module):
      def __init__(self):
          super().__init__()
          self.weight = torch.nn.Parameter(torch.ones(512))

      def forward(self, x):
          return F.gelu(x) * self.weight
inputs:
  x: {{shape: [64, 512], dtype: fp32}}
"""


def kernel_text(operator: str, target: str) -> str:
    """Return kernel.py of a module."""
    return emit(parse_spec(MODULE.format(operator=operator), Path("gelu.yaml")), target=target).files["kernel.py"]


@pytest.mark.parametrize("target", ["h200", "mi300x"])
def test_a_module_calls_the_operator(target: str) -> None:
    text = kernel_text("operator: mine::gelu", target)
    assert text.count('@torch.library.custom_op("mine::gelu"') == 1
    assert "return operator(" in text.partition("class Model")[2]


def test_results_are_of_the_targets_own_type() -> None:
    text = """
name: narrow
operator: mine::narrow
reference: |
  import torch

  def narrow(x):
      return x.to(torch.float8_e4m3fn)
inputs:
  x: {shape: [64, 512], dtype: fp32}
"""
    for target, dtype in (("h200", "torch.float8_e4m3fn)"), ("mi300x", "torch.float8_e4m3fnuz)")):
        kernel = emit(parse_spec(text, Path("narrow.yaml")), target=target).files["kernel.py"]
        assert dtype in kernel.partition("RESULTS = {")[2].partition("}")[0]


@pytest.mark.parametrize("target", ["h200", "mi300x"])
def test_nothing_is_registered_unasked(target: str) -> None:
    text = kernel_text("", target)
    assert "torch.library" not in text and "return kernel(" in text.partition("class Model")[2]
