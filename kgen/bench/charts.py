"""Two charts of a report as SVG: the roofline, and kgen's time over the incumbent's with the parity band of each case.

Colours follow the reader's light or dark theme, texts stay texts, and the same report gives the same bytes. Needs
matplotlib, which is imported where a chart is drawn.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from kgen.bench.chart_labels import Box, Point, places, text_box
from kgen.bench.report import Case, Comparison, Peak, Report
from kgen.bench.report_words import micros
from kgen.errors.bench import ChartsMissingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Role -> colour on a light and on a dark page. The light one is drawn; a style rule exchanges it. Each is told apart
# from its page by 3 to 1 and texts by 4.5 to 1, which a test holds.
INK, MUTED, KGEN, INCUMBENT = "#1f2328", "#59636e", "#0a5fb4", "#a04100"
BAND, GRID = "#8c959f", "#d0d7de"
DARK = {INK: "#e6edf3", MUTED: "#9198a1", KGEN: "#6cb6ff", INCUMBENT: "#f0a35e", BAND: "#7d8590", GRID: "#30363d"}

POINTS = 72  # per inch; one unit of the picture
FONT, SMALL = 11.0, 9.5
DIRECT_LABELS = 8  # cases; more are numbered, with a key beside the chart
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kgen",
    "font.family": "sans-serif",
    "font.size": FONT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def has_speed(report: Report) -> bool:
    """Whether there is a comparison to draw."""
    return bool(report.compared)


def has_roofline(report: Report) -> bool:
    """Whether there are both peaks and a case whose work and time are known."""
    return all(_peaks(report)) and any(_measured(case) for case in report.cases)


def speed_svg(report: Report) -> str | None:
    """Return kgen / incumbent of each case with its interval and its band; None where nothing was compared."""
    if not has_speed(report):
        return None
    title = f"{report.name} on {report.machine.gpu.name}: kgen's time over the incumbent's"
    return _svg(title, lambda: _speed_figure(report, title))


def roofline_svg(report: Report) -> str | None:
    """Return where each case stands under the memory bandwidth and the dense peak; None where nothing was measured."""
    if not has_roofline(report):
        return None
    title = f"{report.name} on {report.machine.gpu.name}: roofline"
    return _svg(title, lambda: _roofline_figure(report, title))


def _svg(title: str, draw: Callable[[], "Figure"]) -> str:
    """Return a figure as SVG with a title for readers that see none, and with the dark theme's colours."""
    try:
        import matplotlib as mpl
        import matplotlib.figure
    except ImportError as missing:
        raise ChartsMissingError(reason=missing) from missing
    text = StringIO()
    with mpl.rc_context():
        mpl.rcdefaults()  # of matplotlib, not of the user: the bytes depend on the report alone
        mpl.rcParams.update(_STYLE)
        draw().savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    rules = [
        f'[style*="{side}: {light}"]{{{side}:{dark} !important}}' for light, dark in DARK.items() for side in _SIDES
    ]
    theme = f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"
    drawn = re.sub(r'font-family: [^;"]*', "font-family: sans-serif", text.getvalue())
    head, tag, tail = drawn.partition("<defs>")
    return f"{head}<title>{escape(title)}</title>{theme}{tag}{tail}"


_SIDES = ("fill", "stroke")


def _new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure whose pixels are points."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / POINTS, height / POINTS), dpi=POINTS)


def _axes(figure: "Figure", left: float, bottom: float, width: float, height: float) -> "Axes":
    """Return axes at a fixed place, in points: so that texts can be placed without drawing first."""
    whole_width, whole_height = (POINTS * size for size in figure.get_size_inches())
    return figure.add_axes((left / whole_width, bottom / whole_height, width / whole_width, height / whole_height))


# --- kgen / incumbent -------------------------------------------------------------------------------------------------

_ROW, _HEAD, _FOOT = 34.0, 62.0, 52.0
_PLOT_WIDTH = 330.0


def _speed_figure(report: Report, title: str) -> "Figure":
    """Draw a row per case: band, interval, median; both times beside it."""
    compared = report.compared
    beside = [(f"{micros(c.kgen.device_us.median)} / {micros(c.incumbent.device_us.median)}", c) for _, c in compared]
    left = 20 + max(text_box(case.id, FONT).width for case, _ in compared)
    right = 20 + max(text_box(f"{text} us, {found.verdict}", SMALL).width for text, found in beside)
    height = _ROW * len(compared)
    right = max(right, text_box(title, FONT).width - left - _PLOT_WIDTH + 20)
    figure = _new_figure(left + _PLOT_WIDTH + right, _HEAD + height + _FOOT)
    axes = _axes(figure, left, _FOOT, _PLOT_WIDTH, height)
    axes.set_xlim(*_speed_limits(compared))
    axes.set_ylim(len(compared) - 0.5, -0.5)
    axes.set_yticks(range(len(compared)), [_literal(case.id) for case, _ in compared])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.axvline(1.0, color=INK, linewidth=1.2)
    for row, (text, found) in enumerate(beside):
        _speed_row(axes, row, found)
        words = f"{text} us, {found.verdict}"
        axes.annotate(words, (1, row), (8, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=SMALL)
    _speed_words(figure, axes, title)
    return figure


def _speed_limits(compared: tuple[tuple[Case, Comparison], ...]) -> tuple[float, float]:
    """Return the range of ratios that holds every interval, every band and 1."""
    ends = [end for _, c in compared for end in (c.ratio.low, c.ratio.high)]
    ends += [end for _, c in compared for end in (1 - c.band.half_width, 1 + c.band.half_width)]
    margin = 0.06 * (max(ends) - min(ends))
    return max(0.0, min(ends) - margin), max(ends) + margin


def _speed_row(axes: "Axes", row: int, found: Comparison) -> None:
    band, ratio = found.band.half_width, found.ratio
    axes.fill_betweenx((row - 0.32, row + 0.32), 1 - band, 1 + band, color=BAND, alpha=0.35, linewidth=0)
    axes.plot((ratio.low, ratio.high), (row, row), color=KGEN, linewidth=2)
    for end in (ratio.low, ratio.high):
        axes.plot((end, end), (row - 0.12, row + 0.12), color=KGEN, linewidth=2)
    axes.plot(ratio.median, row, "o", color=KGEN, markersize=7)


def _speed_words(figure: "Figure", axes: "Axes", title: str) -> None:
    """Write what the chart shows: above it the direction, below it the marks."""
    width, height = (POINTS * size for size in figure.get_size_inches())
    axes.set_xlabel("kgen / incumbent (median, 95 % interval); shaded: parity band of the case", fontsize=SMALL)
    figure.text(10 / width, 1 - 20 / height, _literal(title), va="center", weight="bold")
    head = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom", "fontsize": SMALL}
    axes.annotate("left of 1: kgen is faster", (0, 1), (0, 6), **head)  # type: ignore[arg-type]
    axes.annotate("kgen / incumbent", (1, 1), (8, 6), **head, color=MUTED)  # type: ignore[arg-type]


# --- roofline ---------------------------------------------------------------------------------------------------------

_ROOF_LEFT, _ROOF_BOTTOM, _ROOF_WIDTH, _ROOF_HEIGHT, _ROOF_HEAD = 58.0, 50.0, 470.0, 330.0, 62.0
_KEY_ROW = 14.0


def _roofline_figure(report: Report, title: str) -> "Figure":
    """Draw with the cases' names in the chart where all find room, else with numbers and a key beside it."""
    compute, memory = _peaks(report)
    assert compute is not None and memory is not None
    roofs, cases = (compute, memory), [case for case in report.cases if _measured(case)]
    if len(cases) <= DIRECT_LABELS:
        figure, fits = _roofline(title, roofs, cases, [case.id for case in cases], [])
        if fits:
            return figure
    numbers = [str(place) for place in range(1, len(cases) + 1)]
    key = [f"{number}  {case.id}" for number, case in zip(numbers, cases, strict=True)]
    return _roofline(title, roofs, cases, numbers, key)[0]


def _roofline(
    title: str, roofs: tuple[Peak, Peak], cases: list[Case], names: list[str], key: list[str]
) -> tuple["Figure", bool]:
    """Draw the roofs, then a marker per case and arm, then the names; return whether none of them covers anything."""
    beside = 24 + max((text_box(line, SMALL).width for line in key), default=0)
    height = max(_ROOF_BOTTOM + _ROOF_HEIGHT + _ROOF_HEAD, _KEY_ROW * len(key) + 90)
    figure = _new_figure(_ROOF_LEFT + _ROOF_WIDTH + beside, height)
    extents = Box(0, 0, _ROOF_WIDTH, height - _ROOF_BOTTOM - _ROOF_HEAD)
    axes = _axes(figure, _ROOF_LEFT, _ROOF_BOTTOM, extents.width, extents.height)
    points = [(case.flops / _bytes(case), dict(_rates(case))) for case in cases]
    _roofline_scales(axes, *roofs, points)
    taken = _roofs(axes, *roofs)
    for intensity, rates in points:
        taken += [_marker(axes, arm, intensity, rate) for arm, rate in rates.items()]
    anchors = [_at(axes, intensity, max(rates.values())) for intensity, rates in points]
    found, fits = places(names, anchors, taken, extents, SMALL)
    _labels(axes, found)
    _roofline_words(figure, axes, title, key, any("incumbent" in rates for _, rates in points))
    return figure, fits


def _roofline_scales(axes: "Axes", compute: Peak, memory: Peak, points: list[tuple[float, dict[str, float]]]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ridge = compute.value / memory.value
    intensities = [intensity for intensity, _ in points] + [ridge]
    low = min(rate for _, rates in points for rate in rates.values())
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(intensities) / 4, max(intensities) * 4)
    axes.set_ylim(min(low / 3, compute.value / 20), compute.value * 1.8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _roofs(axes: "Axes", compute: Peak, memory: Peak) -> list[Box]:
    """Draw both limits with their figures and sources; return what they cover."""
    (left, right), ridge = axes.get_xlim(), compute.value / memory.value
    bottom = axes.get_ylim()[0]
    start = max(left, bottom / memory.value)
    axes.plot((start, ridge, right), (start * memory.value, compute.value, compute.value), color=INK, linewidth=1.6)
    (x0, y0), (x1, y1), (x2, _) = (_at(axes, x, min(x * memory.value, compute.value)) for x in (start, ridge, right))
    ceiling, slope = (f"{peak.value:g} {peak.unit} [{peak.source}]" for peak in (compute, memory))
    angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
    marks = {"xycoords": "axes points", "fontsize": SMALL, "color": MUTED}
    axes.annotate(_literal(ceiling), (x2 - 4, y1 + 5), ha="right", va="bottom", **marks)  # type: ignore[arg-type]
    middle = ((x0 + x1) / 2 - 7, (y0 + y1) / 2 + 7)
    turned = {"rotation": angle, "rotation_mode": "anchor", "ha": "center", "va": "bottom"}
    axes.annotate(_literal(slope), middle, **marks, **turned)  # type: ignore[arg-type]
    steps = range(0, 101, 2)
    line = [Box(x0 + (x1 - x0) * s / 100 - 2, y0 + (y1 - y0) * s / 100 - 2, 4, 4) for s in steps]
    words = text_box(ceiling, SMALL)
    above = [Box(b.left - 16 * math.sin(math.radians(angle)), b.bottom + 14, 4, 4) for b in line]
    return [*line, *above, Box(x1, y1 - 2, x2 - x1, 4), Box(x2 - 4 - words.width, y1 + 5, words.width, words.height)]


def _marker(axes: "Axes", arm: str, intensity: float, rate: float) -> Box:
    """Draw one arm of a case, kgen filled and the incumbent as a ring around it; return what it covers."""
    if arm == "kgen":
        axes.plot(intensity, rate, "o", color=KGEN, markersize=6, zorder=4)
    else:
        axes.plot(intensity, rate, "o", color=INCUMBENT, markersize=11, fillstyle="none", markeredgewidth=1.6, zorder=3)
    x, y = _at(axes, intensity, rate)
    return Box(x - 6, y - 6, 12, 12)


def _labels(axes: "Axes", found: Sequence[tuple[str, Point, Box]]) -> None:
    """Write the name of each case near its marker, with a line to it where it had to move away."""
    for name, anchor, place in found:
        middle = (place.left + place.width / 2, place.bottom + place.height / 2)
        axes.annotate(_literal(name), middle, xycoords="axes points", ha="center", va="center", fontsize=SMALL)
        if (end := place.leader(anchor)) is not None:
            line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", anchor, end, "axes points", "axes points", arrowprops=line)


def _roofline_words(figure: "Figure", axes: "Axes", title: str, key: list[str], compared: bool) -> None:
    """Write title, axes, the key of numbered cases, and what the markers are."""
    width, height = (POINTS * size for size in figure.get_size_inches())
    axes.set_xlabel("work per byte of memory traffic (FLOP/byte), whole problem")
    axes.set_ylabel("TFLOP/s")
    figure.text(10 / width, 1 - 18 / height, _literal(title), va="center", weight="bold")
    top = 1 - 38 / height
    marks = (("● kgen", KGEN), ("○ incumbent", INCUMBENT))[: 1 + compared]
    for place, (words, colour) in enumerate(marks):
        figure.text((_ROOF_LEFT + 70 * place) / width, top, words, color=colour, va="center", fontsize=SMALL)
    for place, line in enumerate(key):
        y = 1 - (_ROOF_HEAD + _KEY_ROW * (place + 0.5)) / height
        figure.text((_ROOF_LEFT + _ROOF_WIDTH + 12) / width, y, _literal(line), va="center", fontsize=SMALL)


def _at(axes: "Axes", x: float, y: float) -> tuple[float, float]:
    """Return where a point of the data is, in points from the lower left corner of the axes."""
    corner = axes.transAxes.transform((0, 0))
    found = axes.transData.transform((x, y)) - corner
    return float(found[0]), float(found[1])


def _literal(text: str) -> str:
    """Return a text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _peaks(report: Report) -> tuple[Peak | None, Peak | None]:
    """Return the dense peak and the memory bandwidth: the first of their units."""
    compute = next((peak for peak in report.peaks if peak.unit in ("TFLOP/s", "TOP/s")), None)
    return compute, next((peak for peak in report.peaks if peak.unit == "TB/s"), None)


def _bytes(case: Case) -> int:
    return case.bytes_read + case.bytes_written


def _measured(case: Case) -> bool:
    return case.flops > 0 and _bytes(case) > 0 and any(_rates(case))


def _rates(case: Case) -> Iterator[tuple[str, float]]:
    """Yield the arms of a case with their TFLOP/s: of the comparison, else of test_kernel.py."""
    times = {}
    if case.comparison is not None:
        found = case.comparison
        times = {"incumbent": found.incumbent.device_us.median, "kgen": found.kgen.device_us.median}
    elif case.speed is not None:
        times = {"kgen": case.speed.latency_us}
    for arm, time_us in times.items():
        yield arm, case.flops / time_us * 1e-6
