"""The page is whole: well-formed drawings, all within their frame, nothing fetched from elsewhere."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.latency_page import distribution, over_rate, page, share_text, short, tail, time_text
from famulus.lab.bench.plot import HEIGHT, LABEL_GAP, WIDTH, Axis, Line, apart, linear_axis, log_axis, plot

SVG = "{http://www.w3.org/2000/svg}"


def rate(per_s: float, latencies_us: list[int]) -> dict[str, Any]:
    buckets = LatencyBuckets()
    for latency_us in latencies_us:
        buckets.add(latency_us * 1000)
    return {
        "rate": per_s,
        "offered": len(latencies_us) + 1,
        "outcomes": {"OK": len(latencies_us), "UNKNOWN": 1},
        "latency_ns": {**buckets.percentiles(), "max": buckets.highest},
        "buckets": buckets.written(),
    }


RATES = [rate(1000.0, list(range(80, 2080))), rate(25_000.0, [500] * 19_999 + [90_000])]


def numbers(drawing: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(drawing)
    points = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter(f"{SVG}circle")]
    for path in root.iter(f"{SVG}path"):
        points += [(float(x), float(y)) for x, y in re.findall(r"([\d.-]+) ([\d.-]+)", path.attrib["d"])]
    return points


@pytest.mark.parametrize("draw", [over_rate, distribution])
@pytest.mark.parametrize("rates", [RATES, RATES[:1], [rate(10.0, [])], [rate(10.0 * n, [n]) for n in range(1, 20)]])
def test_drawings_are_xml_and_stay_within_their_frame(draw: Any, rates: list[dict[str, Any]]) -> None:
    points = numbers(draw(rates))
    assert points
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


def test_names_and_titles_are_escaped() -> None:
    axis = Axis("a < b & c", 0.0, 1.0, [(0.0, "<0>")])
    root = ElementTree.fromstring(plot('"quoted" <title>', axis, axis, [Line("<&>", [(0.5, 0.5)])]))
    assert root.attrib["aria-label"] == '"quoted" <title>'
    assert {text.text for text in root.iter(f"{SVG}text")} == {"a < b & c", "<0>", "<&>"}


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = page({"cores": 2, "machine": "<some>", "saturation_per_s": 30_000.0, "rates": RATES})
    assert text.count("<svg") == text.count("</svg>") == 2
    assert not re.search(r"<script|<link|<img|@import|url\(|\bsrc=|\bhref=", text)
    assert "&lt;some&gt;" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text
    assert "1 UNKNOWN" in text


def test_the_tail_goes_to_the_slowest_task() -> None:
    points = tail(LatencyBuckets({100: 90, 200: 9, 255: 1}, 255))
    assert [round(rarity, 6) for rarity, _ in points] == [1.0, 10.0, 100.0]
    assert points[-1][1] == 0.255


@given(st.lists(st.floats(min_value=0, max_value=300), max_size=6))
def test_names_do_not_run_into_each_other(places: list[float]) -> None:
    moved = apart(places, LABEL_GAP, 10.0, 290.0)
    assert all(10.0 - 1e-6 <= place <= 290.0 + 1e-6 for place in moved)
    ordered = sorted(moved)
    assert all(b - a >= LABEL_GAP - 1e-6 for a, b in pairwise(ordered))


def test_names_that_are_far_apart_stay_where_they_are() -> None:
    assert apart([200.0, 50.0], LABEL_GAP, 10.0, 290.0) == [200.0, 50.0]


@given(st.floats(min_value=1, max_value=1e7))
def test_a_linear_axis_holds_its_highest_value_with_a_few_ticks(highest: float) -> None:
    axis = linear_axis("x", highest, short)
    assert axis.high >= highest
    assert 3 <= len(axis.ticks) <= 8


@given(st.floats(min_value=1e-3, max_value=1e7), st.floats(min_value=1, max_value=1e4))
def test_a_log_axis_holds_both_ends(lowest: float, factor: float) -> None:
    axis = log_axis("y", lowest, lowest * factor, time_text)
    assert axis.low <= lowest * 1.000001
    assert axis.high >= lowest * factor * 0.999999
    assert 0.0 <= axis.share(lowest) <= axis.share(lowest * factor) <= 1.0


@pytest.mark.parametrize(
    ("microseconds", "text"), [(0.5, "0.5 µs"), (100, "100 µs"), (1500, "1.5 ms"), (10_000, "10 ms"), (2e6, "2 s")]
)
def test_times_have_their_units(microseconds: float, text: str) -> None:
    assert time_text(microseconds) == text


@pytest.mark.parametrize(("rarity", "text"), [(1.0, "0%"), (10.0, "90%"), (1000.0, "99.9%"), (1e5, "99.999%")])
def test_rarity_is_told_as_a_share(rarity: float, text: str) -> None:
    assert share_text(rarity) == text
