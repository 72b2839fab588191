"""`kgen memory` and `kgen utilization`: what the commands answer."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from kgen.cli_bench import memory, utilization
from kgen.errors.base import KgenError
from kgen.show.answer import Answer

GEMM = ["--dtype", "bf16", "--flops-expr", "2*4096**3", "--bytes-expr", "3*4096*4096*2"]


def answer(*arguments: str) -> Answer:
    app = typer.Typer()
    app.add_typer(memory, name="memory")
    app.command()(utilization)
    found = typer.main.get_command(app).main(list(arguments), prog_name="kgen", standalone_mode=False)
    assert isinstance(found, Answer)
    json.dumps(found.to_json(), allow_nan=False)
    return found


def text(found: Answer) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(found.shown)
    return console.file.getvalue()


def fields(*arguments: str) -> Any:
    return answer(*arguments).fields


def test_a_baseline_is_recorded_and_read(tmp_path: Path) -> None:
    place = ["--workspace", str(tmp_path)]
    assert text(answer("memory", "create", *place, "--version", "v0")).endswith("v0.json\n")
    values = ["performance.latency_us=200.5", "optimization.action_category=baseline", "correctness.status=PASS"]
    values.append("quality_gate.result=PASS")
    settings = [part for value in values for part in ("--set", value)]
    reference = '{"source_type": "register", "path_or_url": "uw_h200", "description": null}'
    fields("memory", "update", *place, "--version", "v0", *settings, "--append", f"references={reference}")
    assert fields("memory", "read", *place, "--field", "performance.latency_us")["value"] == 200.5
    document = json.loads(text(answer("memory", "read", *place, "--version", "v0")))
    assert document["references"][0]["path_or_url"] == "uw_h200"
    (row,) = fields("memory", "summary", *place)["results"]
    assert row["version"] == "v0" and row["quality_gate.result"] == "PASS" and row["performance.tflops"] is None
    assert "200.5" in text(answer("memory", "summary", *place))


def test_mask_and_unmask(tmp_path: Path) -> None:
    place = ["--workspace", str(tmp_path)]
    fields("memory", "create", *place, "--version", "v0")
    assert fields("memory", "mask", *place, "--version", "v0")["masked"] is True
    assert fields("memory", "summary", *place)["results"] == []
    assert "v0 (masked)" in text(answer("memory", "summary", *place, "--include-masked"))
    with pytest.raises(KgenError, match="1 masked"):
        answer("memory", "read", *place)
    assert fields("memory", "unmask", *place, "--version", "v0")["masked"] is False


def test_update_wants_something_to_do(tmp_path: Path) -> None:
    with pytest.raises(KgenError, match="at least one --set or --append"):
        answer("memory", "update", "--workspace", str(tmp_path), "--version", "v0")


def test_the_schema_is_printed() -> None:
    assert json.loads(text(answer("memory", "schema")))["additionalProperties"] is False


def test_utilization_states_the_same_for_both_units_of_time() -> None:
    found = fields("utilization", "--gpu", "h200", *GEMM, "--time-ms", "0.2", "--grid-blocks", "512")
    assert found == fields("utilization", "--gpu", "H200", *GEMM, "--time-us", "200", "--blocks", "512")
    assert found["tflops_peak_utilization_pct"] == pytest.approx(69.48, abs=0.01) and found["grid"]["waves"] == 4
    shown = text(answer("utilization", "--gpu", "h200", *GEMM, "--time-us", "200", "--blocks", "512"))
    assert "687.2 TFLOPS" in shown and "989 TFLOP/s [uw_h200, medium]" in shown and "4 grid waves" in shown
    for times in ([], ["--time-us", "1", "--time-ms", "1"]):
        with pytest.raises(KgenError, match="--time-us or --time-ms, one of the two"):
            answer("utilization", "--gpu", "h200", *GEMM, *times)


def test_a_measurement_error_fails_and_shows_no_speed() -> None:
    found = answer("utilization", "--gpu", "h200", *GEMM, "--time-us", "20")
    assert found.exit_code == 1 and found.fields["tflops"] is None
    assert "MEASUREMENT ERROR" in text(found) and "TFLOPS " not in text(found)


def test_low_confidence_is_said() -> None:
    shown = text(answer("utilization", "--gpu", "h20", *GEMM, "--time-us", "2000"))
    assert "bound: not decided, a peak is of low confidence; compute_bound if both hold" in shown and "low]" in shown
