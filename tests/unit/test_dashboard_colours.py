"""The contrast of the dashboard's colours, computed from its style sheets by WCAG 2.2: texts 4.5 to 1, marks 3 to 1."""

import re
from itertools import product

import pytest

from kgen.dashboard.verdicts import Verdict
from kgen.render.environment import template_source

LIGHT, DARK = 0, 1
TOKENS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", template_source("dashboard/tokens.css")
    )
}
TEXTS = ["ink", "muted", "accent", *map(str, Verdict)]
GROUNDS = ["page", "surface", "raised"]
MARKS = ["control", "measured", "predicted", "roof"]  # borders of controls, points and lines of charts


def channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def luminance(parts: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour: str, share: float, ground: str) -> list[float]:
    """Return `color-mix(in srgb, colour share, ground)`."""
    return [share * a + (1 - share) * b for a, b in zip(channels(colour), channels(ground), strict=True)]


def test_every_colour_is_a_token() -> None:
    sheets = ("page", "filters", "table", "chart", "section", "print")
    assert [
        c for s in sheets for c in re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;\s,)])", template_source(f"dashboard/{s}.css"))
    ] == []
    used = {name for s in sheets for name in re.findall(r"var\(--([\w-]+)\)", template_source(f"dashboard/{s}.css"))}
    assert used - {"c", "font", "mono", "radius", "gap"} <= set(TOKENS)
    assert set(TOKENS) == used - {"c", "font", "mono", "radius", "gap"}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_are_told_from_what_they_stand_on(theme: int) -> None:
    for text, ground in product(TEXTS, GROUNDS):
        found = contrast(channels(TOKENS[text][theme]), channels(TOKENS[ground][theme]))
        assert found >= 4.5, (text, ground, round(found, 2))
    assert contrast(channels(TOKENS["on-accent"][theme]), channels(TOKENS["accent"][theme])) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_are_told_from_tinted_grounds(theme: int) -> None:
    sheets = "".join(template_source(f"dashboard/{name}.css") for name in ("page", "filters", "table", "section"))
    tints = {
        (name, int(share) / 100)
        for name, share in re.findall(r"color-mix\(in srgb, var\(--([\w-]+)\) (\d+)%, var\(--surface\)\)", sheets)
    }
    assert tints
    for name, share in tints:
        for colour in map(str, Verdict) if name == "c" else [name]:
            ground = mixed(TOKENS[colour][theme], share, TOKENS["surface"][theme])
            texts = TEXTS if name == "accent" else [colour, "ink"]
            for text in texts:
                found = contrast(channels(TOKENS[text][theme]), ground)
                assert found >= 4.5, (text, colour, share, round(found, 2))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_and_controls_are_told_from_what_they_stand_on(theme: int) -> None:
    for mark in MARKS:
        assert contrast(channels(TOKENS[mark][theme]), channels(TOKENS["surface"][theme])) >= 3, mark


def test_no_verdict_is_told_by_colour_alone() -> None:
    icons = re.findall(r"^  (\w+): \[\"([^\"]+)\"", template_source("dashboard/dom.js"), re.MULTILINE)
    assert {name for name, _ in icons} == {str(v) for v in Verdict}
    assert len({shape for _, shape in icons}) == len(Verdict)
    styled = set(re.findall(r"\.v-(\w+) \{", template_source("dashboard/filters.css")))
    assert styled == {str(v) for v in Verdict}
