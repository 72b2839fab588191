"""baseline_report.md and the terminal's table: made from the report alone, and silent about what was not measured."""

import re
from io import StringIO

import pytest
from bench_reports import arm, case, comparison, failed, full, report
from rich.console import Console

from kgen.bench.report import Constraint, Incumbent, Profile
from kgen.bench.report_table import report_view
from kgen.bench.report_text import report_markdown
from kgen.bench.report_view import ReportView
from kgen.render.fields import unread_fields
from kgen.render.lint import lint

TEMPLATE = "package/baseline_report.md.j2"
ORDER = (
    "# Baseline report",
    "Correct in 2 of 2 cases: gate PASS.",
    "- kernel: `kernel.py`",
    "| device |",
    "## Configuration",
    "## Correctness",
    "## Order of the measurement",
    "### (a) Parity band",
    "### (b) Comparison",
    "### (c) Launch geometry",
    "### (d) Instructions",
    "### (e) Release build",
    "## Performance",
    "## Variants tried",
    "Runners-up",
    "## Constraints of the port",
    "## Profile",
    "## Control",
    "## Integration",
    "## Peaks and sources",
    "## Notes",
    "## Logs",
)
HEADER = (
    "| case | latency (us) | TFLOPS | bandwidth (GB/s) | TFLOPS peak utilization (%) | "
    "bandwidth peak utilization (%) | bound | roofline (us) |"
)


def verdict(*cases, **fields):
    """Return the sentences below the title."""
    return report_markdown(report(*cases, **fields)).splitlines()[2]


def rows(text, start):
    """Return the cells of every table row that starts with a cell."""
    found = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found]


def terminal(found):
    console = Console(width=200, record=True, file=StringIO())
    console.print(report_view(found))
    return console.export_text()


def test_no_field_is_unread():
    assert unread_fields(TEMPLATE, ReportView) == () == lint(TEMPLATE)


def test_the_same_report_gives_the_same_bytes():
    assert report_markdown(full()) == report_markdown(full())


def test_the_order():
    text = report_markdown(full())
    places = [text.index(part) for part in ORDER]
    assert places == sorted(places) and HEADER in text


def test_the_text_is_clean():
    for found in (full(), report(), report(failed()), report(case(comparison=None, speed=None), peaks=())):
        text = report_markdown(found)
        assert "\n\n\n" not in text and text.endswith("\n") and not text.endswith("\n\n")
        assert not re.search(r"\b(None|nan|inf|True|False)\b", text) and not re.search(r"[ \t]\n", text)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_faster():
    found = verdict(case(comparison=comparison(0.9)))
    assert "is 0.900, the geometric mean over 1 of 1 cases: faster, 10.00 % less time" in found
    assert "the incumbent ours.py::gemm" in found and "±1.20 %" in found


def test_parity():
    assert "parity, inside the band of ±1.20 %" in verdict(case(comparison=comparison(1.01)))


def test_slower_tells_the_gap():
    found = verdict(case(comparison=comparison(1.05)))
    assert "slower, outside the parity band of ±1.20 %; the remaining gap is 5.00 %" in found


def test_an_unstable_band_decides_nothing():
    found = verdict(case(comparison=comparison(0.5, 0.04)))
    assert "unstable, for a parity band of ±4.00 % is wider than ±3.00 %; nothing is decided" in found
    assert "faster" not in found


def test_a_case_that_stands_otherwise_is_named():
    text = report_markdown(report(case("a", comparison=comparison(0.9)), case("b", comparison=comparison(1.02))))
    assert "- b alone is slower: 1.020 [1.016, 1.024], parity band ±1.20 %" in text


@pytest.mark.parametrize("status", ["FAIL", "TIMEOUT_FAIL"])
def test_a_failed_case_has_no_speed_anywhere(status):
    text = report_markdown(report(failed("broken", status)))
    assert f"Not correct (broken: {status}): gate {status}. No speed: a kernel that is wrong" in text
    assert "- broken, seed 0: rel_err 0.75 is above 0.01" in text and "- broken: it failed" in text
    performance, (_, *correctness) = reversed(rows(text, "`broken`")), rows(text, "`broken`")[0]
    assert next(performance)[1:] == ["-"] * 7 and correctness[0] == status
    for mean in ("geometric mean", "arithmetic mean"):
        assert rows(text, mean)[0][1:] == ["-"] * 7
    assert "Launches: not measured." in text and ".svg" not in text
    assert not re.search(r"\d us|\| 0(\.0+)? \|", text)


def test_one_failed_case_leaves_no_mean():
    text = report_markdown(report(case("good"), failed()))
    assert rows(text, "geometric mean")[0][1:] == ["-"] * 7
    assert "faster" not in text.splitlines()[2]


def test_the_means_are_over_the_cases_that_have_a_speed():
    text = report_markdown(report(case("a"), case("b", speed=None, comparison=None, note="no time left")))
    assert rows(text, "geometric mean, 1 of 2 cases")[0][1] == "180.00"
    assert "- b: no time left" in text


def test_a_measurement_error_is_told_and_is_no_speed():
    found = report(case(speed=None, comparison=None, measurement_error="10 us is above the roofline"))
    text = report_markdown(found)
    assert "- default: 10 us is above the roofline" in text and "gate FAIL, for the device cannot reach" in text
    assert rows(text, "geometric mean")[0][1] == "-"


def test_a_finding_fails_the_gate():
    text = report_markdown(report(code_findings=("default_tma: no HGMMA",)))
    assert "gate FAIL, for the machine code is not the planned one" in text
    assert "- finding: default_tma: no HGMMA" in text


def test_nothing_measured_is_said_in_words():
    text = report_markdown(report(case(speed=None, comparison=None, geometry=None), peaks=(), sources=()))
    assert text.count("Not measured.") == 2 and text.count("Not run.") == 3
    for words in ("No variant was tried.", "The machine code was not read.", "Not examined.", "not committed"):
        assert words in text
    assert "No peak is known" in text and "Constraints" not in text and "## Notes" not in text


def test_a_reference_stands_in_for_an_incumbent():
    stand_in = Incumbent(origin="reference.py", entry="reference", sha256=None, is_reference=True)
    assert "the PyTorch reference, run eagerly (no incumbent was given)" in verdict(incumbent=stand_in)


def test_constraints_of_a_port():
    text = report_markdown(full())
    assert rows(text, "output dtype") == [["output dtype", "bf16", "the caller reads it"]]
    assert text.index("Fixed:") < text.index("| output dtype |") < text.index("Free:") < text.index("| tile |")
    free = Constraint(name="tile", value="any", fixed=False, because="no contract names it")
    only = report_markdown(report(constraints=(free,)))
    assert "## Constraints of the port" in only and "Fixed:" not in only


def test_bars_do_not_end_a_cell():
    text = report_markdown(full())
    assert "`gemm<bf16\\|bf16>`" in text and "a note with a \\| bar" in text
    assert "`make it | tee log`" in text  # a code span of a line, where a backslash would be printed
    assert rows(text, "1 of 3")[0][2] == r"stages 4 -> 3 \| smem"


def test_launches_that_no_tracing_showed():
    hidden = comparison(kgen=arm(180.0, launches=None), incumbent=arm(184.0, launches=()))
    text = report_markdown(report(case(comparison=hidden)))
    assert [row[2] for row in rows(text, "`default`") if len(row) == 8 and row[1] in ("kgen", "incumbent")] == [
        "not shown by the driver",
        "none",
    ]


def test_a_profile_that_failed_has_no_figures():
    profile = Profile(tool="ncu", case="default", kernel=None, metrics=(), failure="ncu is not on PATH")
    assert "ncu, case default: no figures. ncu is not on PATH" in report_markdown(report(profile=profile))


def test_the_terminal_shows_every_case_and_the_verdict():
    text = terminal(report(case("good"), failed(), notes=("warm [box]",)))
    assert re.search(r"good .*PASS .*2\.10e-03 .*180\.00 .*183\.67 .*0\.980 \[0\.976, 0\.984\] .*faster", text)
    assert re.search(r"broken .*FAIL .*7\.50e-01 (│\s+-\s+){6}│", text.replace("┃", "│"))
    assert "No speed" in text and "note: warm [box]" in text and "rel_err 0.75 is above" in text


def test_the_terminal_says_parity():
    assert "parity, inside the band" in terminal(report(case(comparison=comparison(1.0))))
