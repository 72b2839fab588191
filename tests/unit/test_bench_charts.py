"""The charts: well-formed, complete, readable on light and dark pages, the same bytes every time."""

import itertools
import re
import sys
from xml.etree import ElementTree

import pytest
from bench_reports import BYTES_READ, FLOPS, case, comparison, failed, full, report, speed

from kgen.bench.chart_labels import Box, places, text_box
from kgen.bench.charts import BAND, DARK, GRID, has_roofline, has_speed, roofline_svg, speed_svg
from kgen.errors.bench import ChartsMissingError

CHARTS = pytest.mark.parametrize("chart", [roofline_svg, speed_svg])
PAGES = {"light": "#ffffff", "dark": "#0d1117"}


def many(count):
    """Return a report of cases of growing size, some of them faster."""
    cases = []
    for place in range(count):
        compared = comparison(0.94 + 0.03 * (place % 5), kgen_us=180.0 * (place + 1) ** 1.1)
        work = {"flops": FLOPS * (place + 1), "bytes_read": BYTES_READ}
        cases.append(case(f"case_{place}", comparison=compared, speed=None, **work))
    return report(*cases)


def texts(svg):
    """Return all texts of a picture; parsing fails on what is not XML."""
    root = ElementTree.fromstring(svg)
    return [" ".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


def contrast(one, other):
    """Return the contrast ratio of two colours as WCAG 2 defines it."""
    light, dark = sorted(map(luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@CHARTS
@pytest.mark.parametrize("count", [1, 3, 10])
def test_every_case_is_there(chart, count):
    found = "\n".join(texts(chart(many(count))))
    for place in range(count):
        assert re.search(rf"\bcase_{place}\b", found)


@CHARTS
def test_the_same_report_gives_the_same_bytes(chart):
    assert chart(full()) == chart(full())


@CHARTS
def test_the_user_s_own_matplotlib_settings_change_nothing(chart):
    import matplotlib

    before = chart(full())
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert chart(full()) == before
        assert matplotlib.rcParams["font.size"] == 30


@CHARTS
@pytest.mark.parametrize("found", [report(failed()), report(case(speed=None, comparison=None))], ids=["failed", "none"])
def test_nothing_measured_is_no_chart(chart, found):
    assert chart(found) is None


def test_which_charts_there_are():
    assert has_speed(full()) and has_roofline(full())
    alone = report(case(comparison=None))
    assert not has_speed(alone) and has_roofline(alone)  # the time of test_kernel.py is enough for the roofline
    assert not has_roofline(report(peaks=())) and roofline_svg(report(peaks=())) is None


def test_the_roofs_carry_their_figures_and_sources():
    found = texts(roofline_svg(full()))
    assert "1000 TFLOP/s [made_up_sheet]" in found and "4 TB/s [made_up_page]" in found
    assert "○ incumbent" in found
    assert "○ incumbent" not in texts(roofline_svg(report(case(comparison=None, speed=speed()))))


def test_the_speed_chart_says_which_side_is_faster():
    found = texts(speed_svg(full()))
    assert "left of 1: kgen is faster" in found and "180.00 / 183.67 us, faster" in found


def test_a_failed_case_is_in_no_chart():
    found = report(case("good"), failed("broken"))
    assert not any("broken" in text for chart in (roofline_svg, speed_svg) for text in texts(chart(found)))


@CHARTS
def test_names_are_not_read_as_mathematics(chart):
    assert any("m$a_b$" in text for text in texts(chart(report(case("m$a_b$")))))


@CHARTS
def test_texts_are_texts_in_a_generic_font(chart):
    svg = chart(full())
    assert set(re.findall(r'font-family: ([^;"]*)', svg)) == {"sans-serif"}
    assert "dc:date" not in svg and "<title>gemm_bf16 on Made-up GPU" in svg


@CHARTS
def test_no_colour_stays_behind_on_a_dark_page(chart):
    svg = chart(full())
    drawn, rules = svg.partition("<style>")[2].partition("</style>")[::2]
    assert "@media (prefers-color-scheme: dark)" in drawn
    used = {colour for colour in re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", rules) if colour not in ("#ffffff",)}
    assert used <= set(DARK), used - set(DARK)
    assert not re.search(r"<text(?![^>]*fill: #)", svg)  # every text names its colour


def test_colours_stand_out_on_both_pages():
    for light, dark in DARK.items():
        if light not in (BAND, GRID):
            assert contrast(light, PAGES["light"]) >= 4.5 and contrast(dark, PAGES["dark"]) >= 4.5


def test_labels_cover_nothing():
    anchors = [(60.0 + 40 * i, 150.0 + 3 * i) for i in range(8)]
    markers = [Box(x - 6, y - 6, 12, 12) for x, y in anchors]
    found, clean = places([f"case_{i}" for i in range(8)], anchors, markers, Box(0, 0, 470, 330), 9.5)
    boxes = [place for _, _, place in found] + markers
    assert clean and not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(place.inside(Box(0, 0, 470, 330)) for _, _, place in found)


def test_labels_without_room_are_told():
    crowd = [(100.0, 100.0)] * 40
    assert not places(["a long name"] * 40, crowd, [], Box(0, 0, 470, 330), 9.5)[1]
    assert text_box("abcd", 10).width == 24


def test_numbers_where_names_find_no_room():
    cases = [
        case(f"a_long_name_of_a_case_{i}", flops=FLOPS + i, comparison=comparison(0.98 + 0.001 * i)) for i in range(6)
    ]
    found = texts(roofline_svg(report(*cases)))
    assert any(re.fullmatch(r"6\s+a_long_name_of_a_case_5", text) for text in found) and "6" in found


@CHARTS
def test_matplotlib_is_asked_for(chart, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ChartsMissingError, match=r"need matplotlib(.|\n)*pip install 'kgen\[bench\]'"):
        chart(full())
