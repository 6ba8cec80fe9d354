"""Figures as one would say them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

NS_PER_S = 1_000_000_000


def count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def duration_ns(value: float | None) -> str:
    """Three digits and a unit that fits."""
    if value is None or math.isnan(value):
        return "–"
    for unit, size in (("h", 3600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} ns"


def duration_s(value: float | None) -> str:
    return "–" if value is None else ("0 s" if value == 0 else duration_ns(value * NS_PER_S))


def share(value: float | None, digits: int = 1) -> str:
    """Of 1, as a percentage; what is not all never reads as 100 %, and what is not nothing never as 0 %."""
    if value is None:
        return "–"
    shown = f"{100 * value:.{digits}f}"
    if float(shown) == 100 and value < 1:
        return f">{100 - 10**-digits:.{digits}f} %"
    if float(shown) == 0 and value > 0:
        return f"<{10**-digits:.{digits}f} %"
    return f"{float(shown):g} %"


def instant(at: datetime | None) -> str:
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def minute(at: datetime | None) -> str:
    return "–" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def span(start: datetime, end: datetime) -> str:
    if start.date() == end.date():
        return f"{start:%Y-%m-%d %H:%M} to {end:%H:%M} UTC"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def rate(value: float) -> str:
    """Per second."""
    return f"{value:,.0f}/s" if value >= 10 else f"{value:.2g}/s"


def plural(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
