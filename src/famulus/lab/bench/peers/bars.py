"""Bar charts as SVG, on the same terms as the line plots: colours and fonts come from the page by class.

A name stands above its bar and not beside it, so that bars have the whole width of a phone. There is no axis: each bar
says its value itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from famulus.lab.bench.plot import drawing, words

WIDTH = 360
ROW, THICK, CAP = 36, 11, 3.0
#: From the top of a row: the feet of its letters, and its bar.
LETTERS, BAR = 12, 17
#: Bars that are longer than our shortest by more than this are cut: else nothing is left of the others.
CUT = 8.0


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    #: What is written for the value.
    text: str
    #: The least and the largest of the values whose median this is.
    low: float
    high: float
    #: How much of it is marked: the rest is drawn pale.
    marked: float
    is_ours: bool = False


def bars(title: str, rows: Sequence[Bar]) -> str:
    longest = scale(rows)
    parts = [part for number, row in enumerate(rows) for part in _row(number * ROW, row, longest)]
    return drawing(title, WIDTH, len(rows) * ROW, parts)


def scale(rows: Sequence[Bar]) -> float:
    """The value that is as long as the drawing is wide."""
    longest = max((row.high for row in rows), default=0.0)
    bound = CUT * min((row.value for row in rows if row.is_ours), default=longest)
    # Nothing but zeros needs a width too.
    return min(longest, bound) or 1.0


def _row(top: int, row: Bar, longest: float) -> list[str]:
    def across(value: float) -> float:
        # A hair's breadth from the edges, where a cap would be cut in half.
        return 1 + (WIDTH - 2) * min(value / longest, 1.0)

    kind, name = ("ours", "name ours") if row.is_ours else ("theirs", "name")
    parts = [
        words(0, top + LETTERS, row.name, name, "start"),
        words(WIDTH, top + LETTERS, row.text, "value", "end"),
        _box("track", 1, WIDTH - 1, top),
        _box(f"{kind} rest", across(row.marked), across(row.value), top),
        _box(f"{kind} bar", 1, across(row.marked), top),
    ]
    if row.value > longest:
        parts.append(_cut(top))
    # One round has no spread.
    elif row.low < row.high:
        parts.append(_whisker(across(row.low), across(row.high), top + BAR + THICK / 2))
    return ["<g>", f"<title>{escape(f'{row.name}: {row.text}')}</title>", *parts, "</g>"]


def _box(kind: str, left: float, right: float, top: int) -> str:
    width = max(0.0, right - left)
    return f'<rect class="{kind}" x="{left:.1f}" y="{top + BAR}" width="{width:.1f}" height="{THICK}"/>'


def _cut(top: int) -> str:
    """Two gaps across a bar that goes on."""
    lines = "".join(f"M{WIDTH - back} {top + BAR + THICK + 2}l7 -{THICK + 4}" for back in (30, 23))
    return f'<path class="cut" d="{lines}"/>'


def _whisker(left: float, right: float, middle: float) -> str:
    caps = "".join(f"M{at:.1f} {middle - CAP:.1f}V{middle + CAP:.1f}" for at in (left, right))
    path = f"M{left:.1f} {middle:.1f}H{right:.1f}{caps}"
    # Twice: a wide one in the colour of the paper below, so that it is seen on dark bars too.
    return f'<path class="halo" d="{path}"/><path class="whisker" d="{path}"/>'
