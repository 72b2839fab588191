"""The parts of the memory-bound benchmark and of the KernelBench run that need no GPU."""

import json
import sys
import threading
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import copying
import kernelbench
import kernelbench_report
import kernelbench_worker
import memory_bound
import memory_rows
import memory_worker
import report
from device_share import DeviceShare
from memory_rows import GROUPS, Row

PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, mask):
        return torch.where(mask > 0, x, x * self.slope)


def get_inputs():
    return [torch.rand(8, 16), torch.randint(0, 2, (8, 16)).bool()]


def get_init_inputs():
    return [0.25]
"""


def test_the_rows_are_those_of_the_bars():
    assert len(GROUPS["1"]) == 30 and {row.dtype for row in GROUPS["1"]} == {"bfloat16"}
    assert {row.op for row in GROUPS["3"]} == set(memory_rows.OPS)
    names = [row.name for rows in GROUPS.values() for row in rows]
    assert len(set(names)) == len(names) == 30 + 17 + 64
    assert Row("softmax", "bfloat16", (32768, 4096)).bars() == (("quack", 1.0), ("torch.compile", 1.0))
    assert Row("silu_mul", "bfloat16", (32768, 4096)).bars() == ((memory_rows.BEST, 0.99),)
    assert Row("softmax", "float16", (32768, 4096)).bars() == ((memory_rows.BEST, 1.0),)
    assert Row("softmax", "bfloat16", (65536, 256)).copy_bar(2**30) is None
    assert Row("softmax", "bfloat16", (32768, 4096)).copy_bar(2**29) == 0.93
    assert Row("column_sum", "bfloat16", (65536, 4096)).copy_bar(2**29) is None


@pytest.mark.parametrize("op", memory_rows.OPS)
def test_a_row_runs_eagerly(op):
    shape = {2: (8, 64), 4: (2, 64, 3, 5)}[len(memory_rows.OPS[op].shapes[0])]

    def make(values, shape, dtype, bound):
        return torch.zeros(shape, dtype=dtype) if values == "class" else torch.ones(shape, dtype=dtype)

    row = Row(op, "float32", shape)
    out = row.function(*row.tensors(make))
    assert out.shape in {shape, shape[:1], shape[-1:], ()}


def samples(ours, theirs):
    names = ("kgen", "twin", "copy", "quack", "eager", "torch.compile")
    return dict(zip(names, ([ours] * 8, [ours] * 8, *([t] * 8 for t in theirs)), strict=True))


def test_a_row_holds_where_every_bar_is_reached():
    row = Row("softmax", "bfloat16", (32768, 4096))
    found = memory_worker.said(samples(100.0, (95.0, 101.0, 300.0, 150.0)), 2**29)
    judged = memory_bound.judged(row, {**found, "bytes": 2**29, "faults": []})
    assert judged["holds"] and [bar["peer"] for bar in judged["bars"]] == ["quack", "torch.compile", "copy"]
    assert judged["fraction"][0] == pytest.approx(0.95) and judged["band"] == 0
    slow = memory_worker.said(samples(100.0, (92.0, 99.0, 300.0, 150.0)), 2**29)
    judged = memory_bound.judged(row, {**slow, "bytes": 2**29, "faults": []})
    assert not judged["holds"] and [bar["holds"] for bar in judged["bars"]] == [False, True, False]
    judged = memory_bound.judged(row, {**slow, "bytes": 2**29, "faults": [], "band": 0.5})
    assert [bar["holds"] for bar in judged["bars"]] == [True, True, True], "the band counts, up to 3 %"
    best = memory_bound.judged(Row("cumsum", "bfloat16", (32768, 4096)), {**slow, "bytes": 2**29, "faults": []})
    assert best["bars"][0] == {"peer": memory_rows.BEST, "bar": 1.0, "low": 1.5, "holds": True}
    assert "NOT: quack 0.990 < 1.0" in memory_bound.line_of({"label": row.name, **judged, **{"holds": False, "bars": [
        {"peer": "quack", "bar": 1.0, "low": 0.99, "holds": False}]}})  # fmt: skip


def test_a_wrong_row_has_no_speed():
    row = memory_bound.judged(Row("sum", "bfloat16", (65536, 256)), {"faults": ["rel_err 1, limit 0.01"]})
    assert not row["holds"] and memory_bound.line_of({"label": "sum", **row}) == "FAIL sum: rel_err 1, limit 0.01"


def test_the_report_shows_every_row():
    found = memory_worker.said(samples(100.0, (95.0, 101.0, 300.0, 150.0)), 2**29)
    good = memory_bound.judged(
        Row("softmax", "bfloat16", (32768, 4096)), {**found, "bytes": 2**29, "faults": [], "label": "softmax"}
    )
    bad = {"label": "sum", "faults": ["x"], "bars": [], "holds": False}
    text = report.memory_bound({"rows": [good, bad], "summary": {"rows": 2, "hold": 1}})
    assert "| softmax | 100.0 (0.0%) | 5.37 | 0.950 [0.950, 0.950] | 1.010" in text
    assert "| sum | wrong |" in text and text.endswith("1 of 2 rows hold.")


def test_a_budget_of_memory_is_never_overdrawn():
    share, held, most, lock = DeviceShare(10), 0, 0, threading.Lock()

    def work(size):
        nonlocal held, most
        with share.of(size):
            with lock:
                held += min(size, 10)
                most = max(most, held)
            with lock:
                held -= min(size, 10)

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 4, 6, 25, 10, 1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < most <= 10


def test_the_problems_of_kernelbench_are_42_and_16_products():
    memory, products = kernelbench.GROUPS["memory"], kernelbench.GROUPS["products"]
    assert len(memory) == len(set(memory)) == 42 and 95 in memory
    assert {*products, *memory} >= set(range(1, 19)) and len(products) == 16
    with pytest.raises(FileNotFoundError, match="lacks problems"):
        kernelbench.files_of(Path(__file__).parent, memory)


def test_a_problem_is_sized_and_cast_without_its_memory(tmp_path):
    path = tmp_path / "93_masked.py"
    path.write_text(PROBLEM)
    assert kernelbench_worker.number_of(str(path)) == 93
    assert kernelbench_worker.is_cast(str(path))
    assert kernelbench_worker.sizes(str(path)) == (2 * 8 * 16 * 4, 8 * 16 * 4, 0)
    assert [x.dtype for x in kernelbench_worker.drawn(str(path))] == [torch.float32] * 2
    (tmp_path / "cast.py").write_text(PROBLEM + kernelbench_worker.CAST)
    names: dict = {}
    exec((tmp_path / "cast.py").read_text(), names)
    assert [x.dtype for x in names["get_inputs"]()] == [torch.float32] * 2


def test_an_operation_of_torch_in_a_kernel_is_found():
    assert kernelbench_worker.fallbacks("out = torch.empty(3)\nprod((1, 2))\ntorch.cuda.current_stream()") == []
    assert "softmax" in kernelbench_worker.fallbacks("y = torch.softmax(x, -1)")[0]
    assert "functional" in kernelbench_worker.fallbacks("y = F.gelu(x)")[0]


def test_results_are_compared_as_the_harness_does(monkeypatch):
    monkeypatch.setattr(kernelbench_worker, "PIECE", 8)
    want = torch.linspace(0, 1, 32).reshape(4, 8)
    assert kernelbench_worker.differences(want + 5e-5, want) == []
    assert kernelbench_worker.differences(want + torch.eye(4, 8) * 1e-2, want)[0].startswith("differs by 1.00e-02")
    assert "expected" in kernelbench_worker.differences(want[:3], want)[0]
    assert "expected" in kernelbench_worker.differences(want.double(), want)[0]
    one, other = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    assert kernelbench_worker.changed_states(one, other) == []
    one.running_mean += 1
    assert [name for name, _ in kernelbench_worker.changed_states(one, other)] == ["running_mean"]


def measured(number, ratio, fraction, **more):
    times = {"kgen": [100.0] * 8, "twin": [100.0] * 8, "peer": [100 * ratio] * 8, "copy": [100 * fraction] * 8}
    found = kernelbench_worker.said(times, 10**9)
    same_copy = {"bytes": 10**9, "copy_us": 95.0}  # the report goes by the fastest copy
    row = {"number": number, "label": f"{number}_problem", "group": "memory", "faults": []}
    return {**row, **found, **same_copy, **more}


def test_the_faster_copy_counts():
    copies = {copying.COPY: [300.0] * 8, copying._BY_KERNEL: [200.0] * 8}
    assert copying.with_faster_copy({"kgen": [210.0] * 8, **copies}) == {"kgen": [210.0] * 8, "copy": [200.0] * 8}
    small = {**measured(19, 0.9, 0.95), "bytes": 10**8, "copy_us": 25.0}
    large = {**measured(20, 0.9, 1.4), "bytes": 10**9, "copy_us": 375.0}
    first, second, failed = kernelbench_report.against_fastest([small, large, {"number": 3, "faults": ["x"]}])
    assert first["fraction"] == small["fraction"] and failed == {"number": 3, "faults": ["x"]}
    assert second["fraction"] == pytest.approx([1.4 * 250 / 375] * 3)


def test_what_of_kernelbench_holds(tmp_path):
    rows = [
        measured(19, 1.2, 0.8),
        measured(20, 0.9, 0.95),
        measured(21, 1.1, 0.95),
        measured(22, 0.9, 0.8),
        {"number": 23, "label": "23_problem", "faults": ["a | b"], "refused": True},
        {"number": 24, "label": "24_problem", "faults": ["differs"], "refused": False},
    ]
    verdicts = [kernelbench_report.verdict_of(row) for row in rows]
    assert verdicts == ["faster", "at copy speed", "faster, at copy speed", "slower", "refused", "wrong"]
    assert sum(map(kernelbench_report.holds, rows)) == 3
    record = {
        "rows": rows,
        "command": "python tests/gpu/kernelbench.py --suite /somewhere/else",
        "machine": {
            "gpu": {"driver": "NVIDIA H200, 580"},
            "python": "3.12",
            "torch": "2.11",
            "nvidia-cutlass-dsl": "4.8.1",
        },
        "date": "today",
    }
    (tmp_path / "kernelbench_memory_1_of_2.json").write_text(json.dumps(record))
    products = "## Products\n\nas they stood"
    text = kernelbench_report.document(tmp_path, f"# Coverage\n\n{products}\n")
    assert text.endswith(f"\n{products}\n")
    assert "**3 of 42 hold** (36 are asked for); 1 wrong, 1 refused, 36 not run." in text
    assert "--suite KernelBench/level1`: NVIDIA H200, 580; python 3.12, torch 2.11, nvidia-cutlass-dsl 4.8.1" in text
    assert "| 23_problem | | | | | | refused: a / b |" in text


@pytest.mark.parametrize(
    ("flops", "ratio", "verdict"),
    [(1e12, 1.9, "below the bar"), (1e12, 0.9, "slower"), (1e12, 2.1, "faster"), (1e9, 1.1, "faster")],
)
def test_a_product_that_arithmetic_bounds_has_to_be_twice_as_fast(tmp_path, flops, ratio, verdict):
    row = measured(1, ratio, 0.5, group="products", flops=flops)
    assert kernelbench_report.verdict_of(row) == verdict
    assert kernelbench_report.cells_of(row).endswith(f"| {verdict} |")
