"""docs/measurements.md from the records that the GPU scripts write.

    python benchmarks/report.py RECORDS [--to docs/measurements.md]

A part without a record stays as it was, or says that it was never measured: nothing is filled in.
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))

from report_attention import attention, attention_candidates, attention_random, sanitizer, table
from sections import renewed
from shapes import is_large

Record = dict[str, Any]
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "measurements.md"
INTRODUCTION = """\
# Measurements

Written by `python benchmarks/report.py RECORDS`, but for what says that it is by hand or came since; the records are
what the scripts below write with `--out RECORDS`.
A speed counts only against another one of the same process, taken in turn: absolute times drift between machines.
`python benchmarks/chart.py RECORDS` draws the first two tables:

![cuBLAS time / kgen time](speed.svg)
"""


def shape_of(row: Record) -> str:
    """Return the extents of a row."""
    return ",".join(map(str, row["shape"]))


MEASURED = ("kgen us", "cuBLAS us", "cuBLAS / kgen", "parity band")


def measured(row: Record) -> tuple[str, ...]:
    """Return the cells under `MEASURED`."""
    ratio, low, high = row["ratio"]
    return (
        f"{row['us']:.2f} ({row['us_spread']:.1%})",
        f"{row['cublas_us']:.2f} ({row['cublas_spread']:.1%})",
        f"{ratio:.3f} [{low:.3f}, {high:.3f}]",
        f"{row['parity'][0]:.3f} to {row['parity'][2]:.3f}",
    )


def few_rows(record: Record) -> str:
    """Products of few rows beside cuBLAS and a kernel that only reads the same bytes."""
    rows = []
    for row in record["rows"]:
        if row["faults"]:
            rows.append((shape_of(row), "wrong", *("",) * 6))
            continue
        rows.append(
            (
                shape_of(row),
                *measured(row),
                f"{row['read_us'] / row['us']:.3f}",
                f"{row['predicted_us']:.1f}",
                row["tile"],
            )
        )
    head = (
        "m,n,k",
        "kgen us",
        "cuBLAS us",
        "cuBLAS / kgen",
        "parity band",
        "reading alone / kgen",
        "predicted us",
        "plan",
    )
    mean = record["summary"]["geomean_few_rows"]
    return f"{table(head, rows)}\n\nGeometric mean of cuBLAS / kgen: **{mean:.3f}**."


def comparison(record: Record) -> str:
    """Kernel and cuBLAS, shape by shape."""
    rows = []
    for row in record["rows"]:
        if row["faults"]:
            rows.append((shape_of(row), "wrong", *("",) * 7))
            continue
        rows.append(
            (
                f"{shape_of(row)}{' *' if is_large(tuple(row['shape'])) else ''}",
                *measured(row),
                f"{row['predicted_us']:.1f}",
                f"{row['tflops']:.0f}",
                f"{row['rel_err']:.1e}",
                row["tile"],
            )
        )
    head = (
        "m,n,k",
        *MEASURED,
        "predicted us",
        "TFLOP/s",
        "rel_err",
        "plan",
    )
    summary = record["summary"]
    words = "No large shape was measured."
    if mean := summary.get("geomean_ratio"):
        words = (
            f"Geometric mean of cuBLAS / kgen over the {summary['large_shapes']} shapes marked *: "
            f"**{mean[0]:.3f}** (from the ends of the intervals: {mean[1]:.3f} to {mean[2]:.3f})."
        )
    method = (
        "The first plan of each shape, chosen with no measurement. A (m, k) and B (n, k) are row-major, random normal; "
        "CUDA-graph replays over buffers that pass the L2 cache three times, in the order A B B A. Times are medians "
        "with the spread between the 10th and 90th percentile; intervals are 95 % order statistics of the median; the "
        "parity band is what two builds of the same kernel showed in the same way. rel_err is against float64 on 128 "
        "rows."
    )
    return f"{method}\n\n{table(head, rows)}\n\n{words}"


def candidates(record: Record) -> str:
    """Predicted and measured times of the best candidates."""
    rows = []
    for row in (row for row in record["rows"] if not row["faults"]):
        best = min(row["candidates"], key=lambda candidate: candidate["us"])
        first = row["candidates"][0]
        rows.append(
            (
                shape_of(row),
                f"{first['predicted_us']:.1f} / {first['us']:.2f}",
                f"{best['predicted_us']:.1f} / {best['us']:.2f}",
                f"{first['us'] / best['us']:.3f}",
                best["tile"],
            )
        )
    head = (
        "m,n,k",
        "first plan, predicted / measured us",
        "best, predicted / measured us",
        "first / best",
        "best plan",
    )
    return f"{table(head, rows)}\n\nGeometric mean of first / best: {record['summary']['loss_of_first_plan']:.3f}."


def host(record: Record) -> str:
    """Host time per call."""
    rows = [(f"`{name}`", f"{us:.2f}") for name, us in record["summary"]["host_us"].items()]
    return "64 x 64 x 64 in bf16, two tensor arguments, the result allocated by the call.\n\n" + table(
        ("call", "us"), rows
    )


def gated(record: Record) -> str:
    """A gate in one kernel, torch's arms and the plain product, an arm a row."""
    words = ", ".join(map(str, record["shape"]))
    head = ("arm", "us", "TFLOP/s", "rel_err", *record["rows"][0]["ratios"])
    rows = []
    for row in record["rows"]:
        ratios = (f"{median:.3f} [{low:.3f}, {high:.3f}]" for median, low, high in row["ratios"].values())
        error = "" if row["rel_err"] is None else f"{row['rel_err']:.1e}"
        rows.append((row["arm"], f"{row['us']:.1f}", f"{row['tflops']:.0f}", error, *ratios))
    return f"m, n of both products, k: {words}; bf16.\n\n" + table(head, rows)


def grouped(record: Record) -> str:
    """Products of rows in groups against torch's kernel, a shape a row."""
    head = ("product", "rows, groups, n, k", "kgen us", "torch us", "torch / kgen", "TFLOP/s", "rel_err")
    rows = []
    for row in record["rows"]:
        kind, *extents = row["shape"].split("_")
        ratio = "{:.3f} [{:.3f}, {:.3f}]".format(*row["torch / kgen"])
        figures = (f"{row['us']:.1f}", f"{row['torch_us']:.1f}", ratio, f"{row['tflops']:.0f}", f"{row['rel_err']:.1e}")
        rows.append((kind, ", ".join(extents), *figures))
    words = (
        "Each row takes a group by chance. rel_err is the distance to torch's result, which rounds a gate's product."
    )
    return f"{words}\n\n{table(head, rows)}"


def random_gemms(record: Record) -> str:
    """Random products and behaviours."""
    problems = [row for row in record["rows"] if "paths" in row]
    worst = max((row.get("rel_err", 0.0) for row in problems), default=0.0)
    behaviours = [
        f"- {row['label']}: {'wrong' if row['faults'] else 'right'}" for row in record["rows"] if row not in problems
    ]
    words = f"{record['summary']['jobs']} jobs, {record['summary']['wrong']} wrong; largest rel_err {worst:.1e}."
    return "\n".join([words, "", *behaviours])


def random_programs(record: Record) -> str:
    """Random pointwise and reduction programs."""
    right = [row for row in record["rows"] if not row["faults"]]
    worst = max((row["rel_err"] for row in right), default=0.0)
    summary = record["summary"]
    words = f"{summary['programs']} programs, {summary['wrong']} wrong, {summary['refused']} of them refused"
    return f"{words}; largest rel_err {worst:.1e}."


def memory_bound(record: Record) -> str:
    """Memory-bound kernels, row by row."""
    names = ("quack", "eager", "torch.compile")
    rows = []
    for row in record["rows"]:
        if row["faults"]:
            rows.append((row["label"], "wrong", *("",) * 7))
            continue
        ratios = (row["peers"].get(name, {}).get("ratio") for name in names)
        rows.append(
            (
                row["label"],
                f"{row['us']:.1f} ({row['us_spread']:.1%})",
                f"{row['tb_s']:.2f}",
                f"{row['fraction'][0]:.3f} [{row['fraction'][1]:.3f}, {row['fraction'][2]:.3f}]",
                *(f"{r[0]:.3f} [{r[1]:.3f}, {r[2]:.3f}]" if r else "" for r in ratios),
                f"{row['band']:.3f}",
                "yes" if row["holds"] else "no",
            )
        )
    head = ("row", "kgen us", "TB/s", "of the copy", *(f"{name} / kgen" for name in names), "band", "holds")
    method = (
        "Bytes are those of the arguments and results, once each. All arms of a row and a copy of as many bytes ran in "
        "one process in one round robin, as CUDA-graph replays over buffers that pass the L2 cache three times; "
        "torch.compile with max-autotune. Times are medians with the spread between the 10th and 90th percentile, "
        "intervals 95 % order statistics of the median of turns; the band is how far that of the same kernel loaded "
        "twice reaches from 1. A row holds where the lower end of each ratio that is asked for reaches its bar, less "
        "the band (3 % at most)."
    )
    summary = record["summary"]
    return f"{method}\n\n{table(head, rows)}\n\n{summary['hold']} of {summary['rows']} rows hold."


def public_cases(record: Record) -> str:
    """Public bug reports as cases."""
    rows = [
        (row["label"], row["source"], "wrong" if row["faults"] else "right")
        for row in record["rows"]
        if "refused" not in row
    ]
    refused = record["summary"].get("refused", 0)  # in records from before attention had kernels
    note = f"\n\n{refused} attention cases are refused by name." if refused else ""
    return table(("case", "report", "result"), rows) + note


def soundness(record: Record) -> str:
    """Sampled legal candidates."""
    keys = dict.fromkeys((row["product"], row["dtype"]) for row in record["rows"])
    rows = []
    for product, dtype in keys:
        here = [row for row in record["rows"] if (row["product"], row["dtype"]) == (product, dtype)]
        failing = sum(bool(row["findings"]) for row in here)
        ran = record["summary"]["run"]
        wrong = sum(bool(row.get("faults")) for row in here) if ran else "not run"
        worst = f"{max(row.get('rel_err', 0.0) for row in here):.1e}" if ran else "not run"
        rows.append((product, dtype, len(here), failing, wrong, worst))
    return table(("product", "dtype", "candidates", "spill or fail to compile", "wrong", "largest rel_err"), rows)


def converse(record: Record) -> str:
    """Points outside of the rules."""
    rows = []
    for row in record["rows"]:
        finding = row["findings"][0].split(": ", 1)[1] if row["findings"] else "compiles with no spill"
        what = textwrap.shorten(finding, 120, placeholder=" ...")
        rows.append((row["rule"], row["product"], row["dtype"], row["point"], what.replace("|", "/")))
    tight = ", ".join(record["summary"]["too_tight"]) or "none"
    implied = ", ".join(record["summary"]["implied_by_other_rules"]) or "none"
    words = f"Rules that no sampled product needs: {tight}. Rules that others imply: {implied}."
    return f"{table(('rule', 'product', 'dtype', 'nearest point outside', 'what happened'), rows)}\n\n{words}"


# Record -> heading, command, and what is said of it.
PARTS: dict[str, tuple[str, str, Callable[[Record], str]]] = {
    "gemm_bfloat16": ("Matrix products against cuBLAS, bf16", "benchmarks/gemm.py", comparison),
    "gemm_float16": ("Matrix products against cuBLAS, fp16", "benchmarks/gemm.py --dtype float16", comparison),
    "gemm_decode_bfloat16": ("Products of few rows, bf16", "benchmarks/gemm.py --decode", few_rows),
    "gemm_float8_e4m3fn": (
        "fp8 products against torch._scaled_mm without fast accumulation",
        "benchmarks/gemm.py --dtype float8_e4m3fn",
        comparison,
    ),
    "gemm_int8": ("int8 products against torch._int_mm", "benchmarks/gemm.py --dtype int8", comparison),
    "gated_bfloat16": ("A gate in one kernel, bf16", "benchmarks/gated.py --packages FOLDER", gated),
    "grouped_bfloat16": ("Rows in groups, bf16", "benchmarks/grouped.py --packages FOLDER", grouped),
    "gemm_candidates_bfloat16": ("Predicted and measured times", "benchmarks/gemm.py --candidates 8", candidates),
    "gemm_host": ("Host time per call", "benchmarks/gemm.py --host", host),
    "memory_bound": ("Memory-bound kernels", "benchmarks/memory_bound.py", memory_bound),
    "memory_bound_wide": (
        "Memory-bound kernels, other types and shapes",
        "benchmarks/memory_bound.py --group wide",
        memory_bound,
    ),
    "attention": ("Attention, prefill", "benchmarks/attention.py", attention),
    "attention_decode": ("Attention, one query per sequence", "benchmarks/attention.py --decode", attention),
    "attention_paged": ("Attention, K and V in pages", "benchmarks/attention.py --paged", attention),
    "attention_candidates": ("Attention, candidates", "benchmarks/attention_candidates.py", attention_candidates),
    "attention_random": ("Random attention problems", "tests/gpu/attention_random.py", attention_random),
    "random_programs": ("Random programs", "tests/gpu/random_programs.py", random_programs),
    "random_gemms": ("Random products", "tests/gpu/random_gemms.py", random_gemms),
    "random_gemms_types": (
        "Random products of fp8, int8, tf32 and fp32",
        "tests/gpu/random_gemms.py --types",
        random_gemms,
    ),
    "public_cases": ("Public bug reports", "tests/gpu/public_cases.py", public_cases),
    "sanitizer": ("Packages under compute-sanitizer", "tests/gpu/sanitizer.py", sanitizer),
    "soundness": ("Legal candidates", "tests/gpu/soundness.py", soundness),
    "soundness_converse": ("Outside of the rules", "tests/gpu/soundness.py --converse", converse),
}


def made_on(record: Record) -> str:
    """Return the command, the machine and the date of a record in one line."""
    machine, gpu = record["machine"], record["machine"]["gpu"]
    device = (
        "no GPU"
        if gpu is None
        else f"{gpu['name']} ({gpu['multiprocessors']} SMs), {gpu['driver'] or 'driver unknown'}"
    )
    versions = ", ".join(f"{name} {machine[name]}" for name in machine if name not in ("gpu",))
    return f"`{record['command']}`: {device}; {versions}; {record['date']}."


def document(folder: Path, before: str) -> str:
    """Return the whole text: the parts that the folder has records of anew, the others as they were `before`."""
    written, lacking = {}, {}
    for name, (heading, command, text) in PARTS.items():
        lacking[heading] = f"## {heading}\n\nNot measured yet: `python {command} --out RECORDS`.\n"
        path = folder / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
            written[heading] = f"## {heading}\n\n{made_on(record)}\n\n{text(record)}\n"
    return renewed(INTRODUCTION, before, written, lacking)


def main() -> int:
    """Write the document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("records", type=Path, help="folder of the records")
    parser.add_argument("--to", type=Path, default=DOCUMENT)
    arguments = parser.parse_args()
    before = arguments.to.read_text(encoding="utf-8") if arguments.to.exists() else ""
    arguments.to.write_text(document(arguments.records, before), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
