"""What makes compiling fast keeps what is compiled: one trace for all devices, and never another spec's."""

import gc
import sys
from dataclasses import replace
from pathlib import Path

import kgen.frontend.trace as frontend
from kgen.frontend.trace import trace
from kgen.package.plan_json import json_text
from kgen.spec.load import parse_spec

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from compile_speed import compile_share, table
from gemm_specs import KINDS, problem

MODULE = """
name: scaled
reference:
  source: |
    import torch


    class Scaled(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x * self.by
  init_args: [{by}]
inputs:
  x: {{shape: [64, 64], dtype: fp32}}
"""


def _spec(text: str):
    return parse_spec(text, Path("given.yaml"))


def test_a_spec_is_traced_once_for_all_its_devices(monkeypatch):
    spec, count = _spec(problem(3).text), []
    live = frontend.trace_live
    monkeypatch.setattr(frontend, "trace_live", lambda *given: count.append(given) or live(*given))
    frontend._kept_graph.cache_clear()
    assert trace(spec, spec.cases[0]) is trace(_spec(problem(3).text), spec.cases[0])
    assert len(count) == 1
    other = replace(spec, name="other")
    assert trace(other, other.cases[0]).name == "other" and len(count) == 2


def test_constants_that_are_equal_and_of_two_types_are_traced_apart():
    graphs = [trace(spec, spec.cases[0]) for spec in (_spec(MODULE.format(by=by)) for by in ("1", "1.0", "1"))]
    assert graphs[0] is graphs[2] and str(graphs[0]) != str(graphs[1])


def test_a_random_spec_is_the_same_in_every_run_and_loads():
    assert problem(17) == problem(17) and problem(17) != problem(17, seed=1)
    specs = [_spec(problem(index).text) for index in range(120)]
    assert len({spec.inputs for spec in specs}) > 40
    assert {problem(index).kind for index in range(120)} == set(KINDS)


def test_the_benchmark_times_every_stage(tmp_path):
    share = compile_share(range(2), 0, ("h200", "mi300x"), tmp_path)
    gc.unfreeze()
    assert [p.error for p in share.packages] == [None] * 4 and share.peak_mib > 0
    assert set(share.packages[0].seconds) == {*share.packages[1].seconds, "load"}
    assert (tmp_path / "mi300x" / "gemm_0001" / "kernel.py").is_file()
    quantiles = {"sum": 2.0, "mean": 1.0, "p50": 1.0, "p99": 1.0}
    found = {"stages": {"plan": quantiles}, "package_s": quantiles, "packages": 2, "refused": [], "wall_s": 1.0}
    text = table({**found, "processes": 1, "cpu_s": 2.0, "start_s": [0.5], "rss_mib": [[1.0, 2.0, 3.0]]})
    assert "| plan | 2.0 | 100% | 1000.0 | 1000.0 |" in text


def test_json_puts_a_value_on_one_line_where_it_fits():
    long = ["x" * 60, "y" * 60]
    listed = ",\n".join(f'    "{text}"' for text in long)
    expected = f'{{\n  "a": {{"b": [1, 2.5, null, true]}},\n  "c": [\n{listed}\n  ]\n}}\n'
    assert json_text({"a": {"b": [1, 2.5, None, True]}, "c": long}) == expected
    assert json_text({"empty": {}, "none": ()}) == '{\n  "empty": {},\n  "none": []\n}\n'
