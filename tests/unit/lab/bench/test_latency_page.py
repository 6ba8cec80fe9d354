"""The page is whole: plots that are true to the figures, and nothing fetched from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pages import Page

from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.latency_page import distribution, over_rate, page, share_text, tail


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


@pytest.mark.parametrize("draw", [over_rate, distribution])
@pytest.mark.parametrize("rates", [RATES, RATES[:1], [rate(10.0, [])], [rate(10.0 * n, [n]) for n in range(1, 20)]])
def test_whatever_was_measured_can_be_drawn(draw: Any, rates: list[dict[str, Any]]) -> None:
    (spec,) = Page(draw(rates)).specs
    low, high = (10.0**end for end in spec["layout"]["yaxis"]["range"])
    for trace in spec["traces"]:
        assert len(trace["x"]) == len(trace["y"]) == len(trace["text"])
        assert all(low <= seconds <= high for seconds in trace["y"])


def test_a_percentile_is_a_line_over_the_rates_that_have_it() -> None:
    (spec,) = Page(over_rate(RATES)).specs
    lines = {trace["name"]: dict(zip(trace["x"], trace["y"], strict=True)) for trace in spec["traces"]}
    assert list(lines["p50"]) == [1000.0, 25_000.0]
    assert lines["p50"][25_000.0] == pytest.approx(500e-6, rel=0.01)
    assert list(lines["p99.99"]) == [25_000.0], "2,000 tasks do not tell"


def test_the_page_needs_nothing_from_elsewhere() -> None:
    result = {"cores": 2, "machine": "<some>", "saturation_per_s": 30_000.0, "rates": RATES}
    shown = Page(page(result))
    assert not shown.loads
    assert not shown.handlers
    assert len(shown.specs) == 2
    for words in ("2 cores, <some>", "A closed loop reached 30,000 tasks/s", "1 UNKNOWN", "90 ms"):
        assert words in shown.text, words


def test_the_tail_goes_to_the_slowest_task() -> None:
    points = tail(LatencyBuckets({100: 90, 200: 9, 255: 1}, 255))
    assert [round(rarity, 6) for rarity, _ in points] == [1.0, 10.0, 100.0]
    assert points[-1][1] == 255e-9


@pytest.mark.parametrize(("rarity", "text"), [(1.0, "0%"), (10.0, "90%"), (1000.0, "99.9%"), (1e5, "99.999%")])
def test_rarity_is_told_as_a_share(rarity: float, text: str) -> None:
    assert share_text(rarity) == text
