"""Line plots as SVG, small enough to be read. Knows no measurements and no pages.

Colours and fonts come from the page's style sheet by class (`line-0`, `axis`, `label`), so that one drawing serves
light and dark screens and paper. Lines are named at their ends and differ in their dashes too: colour is never all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 62, 14, 42
#: Names closer than this would run into each other.
LABEL_GAP = 12.0
LINES_MAX = 6


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value is between the low and the high end: 0 to 1."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return (value - low) / (high - low)


def linear_axis(title: str, highest: float, text: Callable[[float], str]) -> Axis:
    """From 0 to a round number, with four to eight ticks."""
    highest = max(highest, 1.0)
    unit: float = 10.0 ** math.floor(math.log10(highest))
    step = next(unit * factor for factor in (0.2, 0.25, 0.5, 1.0, 2.0) if highest / (unit * factor) <= 6)
    count = math.ceil(highest / step)
    return Axis(title, 0.0, count * step, [(number * step, text(number * step)) for number in range(count + 1)])


def log_axis(title: str, lowest: float, highest: float, text: Callable[[float], str]) -> Axis:
    """Whole decades that hold both ends, a tick for each."""
    first = math.floor(math.log10(max(lowest, 1e-12)))
    last = max(first + 1, math.ceil(math.log10(max(highest, 1e-12))))
    ticks = [10.0**decade for decade in range(first, last + 1)]
    return Axis(title, ticks[0], ticks[-1], [(tick, text(tick)) for tick in ticks], log=True)


def plot(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> str:
    """The whole drawing, with a title for those who hear it instead."""
    assert len(lines) <= LINES_MAX
    parts = _grid(x, y)
    drawn = [line for line in lines if line.points]
    for number, line in enumerate(lines):
        if line.points:
            parts += _line(number, [(_x(x, a), _y(y, b)) for a, b in line.points])
    ends = [_y(y, line.points[-1][1]) for line in drawn]
    for line, at in zip(drawn, apart(ends, LABEL_GAP, TOP + 4.0, HEIGHT - BOTTOM - 2.0), strict=True):
        name = f"label name-{lines.index(line)}"
        parts.append(words(WIDTH - RIGHT + 6, at + 3.5, line.name, name, "start"))
    return drawing(title, WIDTH, HEIGHT, parts)


def drawing(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    """The frame of any drawing."""
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    return "\n".join([f"{opening}aria-label={quoteattr(title)}>", f"<title>{escape(title)}</title>", *parts, "</svg>"])


def words(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places, moved as little as need be for all of them to be `gap` apart; in the order given."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    at = low - gap
    for number in order:
        at = moved[number] = max(places[number], at + gap)
    at = high + gap
    for number in reversed(order):
        at = moved[number] = min(moved[number], at - gap)
    return moved


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _grid(x: Axis, y: Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value, text in y.ticks:
        at = _y(y, value)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>')
        parts.append(words(LEFT - 6, at + 3.5, text, "tick", "end"))
    for value, text in x.ticks:
        at = _x(x, value)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/>')
        parts.append(words(at, bottom + 14, text, "tick", "middle"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    parts.append(words((LEFT + right) / 2, HEIGHT - 8, x.title, "label", "middle"))
    middle = (TOP + bottom) / 2
    turned = f'<g transform="translate(11 {middle:.1f}) rotate(-90)">{words(0, 0, y.title, "label", "middle")}</g>'
    return [*parts, turned]


def _line(number: int, points: list[tuple[float, float]]) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [f'<path class="line line-{number}" d="M{path}"/>']
    # A dot for each point where there are few; where there are many the line says it all.
    if len(points) <= 12:
        parts += [f'<circle class="dot dot-{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points]
    return parts
