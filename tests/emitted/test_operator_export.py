"""A package whose spec names an operator: torch.export keeps it whole, and knows its results without running it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.api import emit
from kgen.spec.load import parse_spec

pytestmark = pytest.mark.emitted
SPEC = """
name: {name}
operator: kgen_tests::{name}
reference: |
  import torch
  {reference}
inputs:
  x: {{shape: [64, 512], dtype: bf16}}
  y: {{shape: [64, 512], dtype: bf16}}
"""
REFERENCES = {
    "one": "def f(x, y): return torch.softmax(x + y, -1)",
    "two": "def f(x, y): return x + y, (x + y).float().amax(-1)",
    "written": "def f(x, y): y.add_(x); return y * 2",
    "product": "def f(x, y): return x @ y.t()",
}
WHOLE = "((64, 512), 'torch.bfloat16')"
# Exports a function around the operator; argv: kernel.py, name. Prints what it calls and the results it knows of.
EXPORT = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("emitted", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["emitted"] = module
spec.loader.exec_module(module)

class Caller(torch.nn.Module):
    def forward(self, x, y):
        return module.operator(x, y.clone())

x, y = torch.zeros(64, 512, dtype=torch.bfloat16), torch.zeros(64, 512, dtype=torch.bfloat16)
program = torch.export.export(Caller(), (x, y))
print([str(n.target) for n in program.graph.nodes if n.op == "call_function" and "kgen_tests" in str(n.target)])
outputs = program.graph.output_node().args[0]
print([(tuple(o.meta["val"].shape), str(o.meta["val"].dtype)) for o in outputs])
print(getattr(torch.ops.kgen_tests, sys.argv[2]).default._schema)
try:
    torch.export.export(Caller(), (x[:32], y[:32]))
except Exception as error:
    print("takes CUDA tensors" in str(error))
"""


@pytest.mark.parametrize(
    ("name", "schema", "results"),
    [
        ("one", "(Tensor x, Tensor y) -> Tensor", f"[{WHOLE}]"),
        (
            "two",
            "(Tensor x, Tensor y) -> (Tensor, Tensor)",
            "[((64, 512), 'torch.bfloat16'), ((64,), 'torch.float32')]",
        ),
        ("written", "(Tensor x, Tensor(a0!) y) -> Tensor", f"[{WHOLE}]"),
        ("product", "(Tensor x, Tensor y) -> Tensor", "[((64, 64), 'torch.bfloat16')]"),
    ],
)
def test_export_keeps_the_operator_and_knows_its_results(tmp_path: Path, name: str, schema: str, results: str) -> None:
    spec = parse_spec(SPEC.format(name=name, reference=REFERENCES[name]), tmp_path / "spec.yaml")
    emit(spec, target="h200", folder=tmp_path / name)
    command = [sys.executable, "-c", EXPORT, str(tmp_path / name / "kernel.py"), name]
    environment = os.environ | {"CUTE_DSL_ARCH": "sm_90a"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    called, known, stated, refused = done.stdout.splitlines()
    assert called == f"['kgen_tests.{name}.default']" or "auto_functionalized" in called
    assert (known, refused) == (results, "True")
    assert stated == f"kgen_tests::{name}{schema}"
