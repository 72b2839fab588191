"""Where the labels of a chart go so that none covers another, a marker or a line: plain geometry, in points."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
_CHARACTER, _LINE = 0.6, 1.25  # width of a character and height of a line, in font sizes: sans-serifs are narrower
_GAP = 11.0  # from an anchor to its label
_MARKER, _STEP = (
    10.0,
    3.0,
)  # what a marker covers around its anchor; distance of the points of a line that are looked at
_SIDES: tuple[Point, ...] = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
_SIDES += ((0.4, -1), (-0.4, -1), (0.4, 1), (-0.4, 1))
_RINGS = (1.0, 2.0, 3.2)  # distances that are tried, in gaps


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that is taken."""

    left: float
    bottom: float
    width: float
    height: float

    def overlaps(self, other: "Box") -> bool:
        """Whether the two have a point in common."""
        across = self.left < other.left + other.width and other.left < self.left + self.width
        return across and self.bottom < other.bottom + other.height and other.bottom < self.bottom + self.height

    def inside(self, other: "Box") -> bool:
        """Whether no part of this one lies outside of the other."""
        right, top = self.left + self.width, self.bottom + self.height
        within = other.left <= self.left and right <= other.left + other.width
        return within and other.bottom <= self.bottom and top <= other.bottom + other.height

    def leader(self, anchor: Point) -> Point | None:
        """Return where a line from an anchor to this label ends, or None where the label is near enough without."""
        x = min(max(anchor[0], self.left), self.left + self.width)
        end = (x, min(max(anchor[1], self.bottom), self.bottom + self.height))
        return end if math.dist(end, anchor) > 1.2 * _GAP else None


def text_box(text: str, size: float) -> Box:
    """Return how much room a text takes, at the origin."""
    return Box(0, 0, _CHARACTER * size * len(text), _LINE * size)


def places(
    names: Sequence[str], anchors: Sequence[Point], taken: Sequence[Box], extents: Box, size: float
) -> tuple[tuple[tuple[str, Point, Box], ...], bool]:
    """Return each name with its anchor and its place, chosen from right to left, and whether nothing is covered."""
    boxes, found, clean = list(taken), [], True
    for name, anchor in sorted(zip(names, anchors, strict=True), key=lambda pair: -pair[1][0]):
        tried = list(_places(anchor, text_box(name, size)))
        inside = [place for place in tried if place.inside(extents)] or tried
        best = min(inside, key=lambda place: _harm(place, anchor, boxes))
        clean = clean and best.inside(extents) and _harm(best, anchor, boxes) == (0, 0)
        boxes += [best, *_line(anchor, best)]
        found.append((name, anchor, best))
    return tuple(found), clean


def _harm(place: Box, anchor: Point, boxes: Sequence[Box]) -> tuple[int, int]:
    """Return how much a label covers, then how much the line to it crosses."""
    crossed = sum(part.overlaps(box) for part in _line(anchor, place) for box in boxes)
    return sum(place.overlaps(box) for box in boxes), crossed


def _line(anchor: Point, place: Box) -> Iterator[Box]:
    """Yield the line from an anchor to its label as small rectangles, from outside of the anchor's own marker."""
    if (end := place.leader(anchor)) is None:
        return
    length = math.dist(end, anchor)
    for step in range(int(length // _STEP)):
        if (done := step * _STEP) > _MARKER:
            x, y = (a + (e - a) * done / length for a, e in zip(anchor, end, strict=True))
            yield Box(x - 1, y - 1, 2, 2)


def _places(anchor: Point, text: Box) -> Iterator[Box]:
    """Yield where a text may go around its anchor."""
    for ring in _RINGS:
        for right, up in _SIDES:
            x = anchor[0] + right * ring * _GAP - (text.width / 2) * (1 - right)
            y = anchor[1] + up * ring * _GAP - (text.height / 2) * (1 - up)
            yield Box(x, y, text.width, text.height)
