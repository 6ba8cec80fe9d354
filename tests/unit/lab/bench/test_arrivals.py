"""The measurement of thousands who come with keys: its arithmetic."""

from __future__ import annotations

import pytest

from famulus.lab.bench.arrivals import KEYS, PLAIN, Plan, latencies, summary
from famulus.lab.bench.buckets import LatencyBuckets
from famulus.lab.bench.load import Seen
from famulus.net.handshake_rate import AT_ONCE, PER_SECOND

MS = 1_000_000


def test_the_other_client_asks_no_longer_than_they_take_to_come() -> None:
    assert Plan(connections=AT_ONCE + 10 * PER_SECOND).seconds == 10.0
    assert Plan(connections=10).seconds == 1.0, "but long enough to see something"


def test_what_counts_is_how_fast_they_come_with_keys_and_what_others_notice() -> None:
    def figures(per_s: float, kib: float, before: float, meanwhile: float) -> dict[str, float]:
        return {"per_s": per_s, "kib": kib, "p99_ms_before": before, "p99_ms_meanwhile": meanwhile}

    result = summary({"medians": {PLAIN: figures(2000, 4, 1, 9), KEYS: figures(400, 5, 2, 3)}, "rounds": {}})
    assert result["handshakes_per_s"] == 400
    assert result["p99_ratio"] == 1.5
    assert (result["kib_with_keys"], result["kib_plain"]) == (5, 4)


def test_a_task_that_did_not_end_well_has_no_latency_and_is_counted() -> None:
    ok, expired = LatencyBuckets(), LatencyBuckets()
    for _ in range(98):
        ok.add(1 * MS)
    ok.add(5 * MS)
    expired.add(900 * MS)
    found = latencies(Seen(100, {"OK": 99, "EXPIRED": 1}, {"OK": ok, "EXPIRED": expired}, 0), "before")
    assert found["not_ok_before"] == 1
    assert found["p50_ms_before"] == pytest.approx(1.0, rel=0.01)
    assert found["p99.9_ms_before"] == pytest.approx(5.0, rel=0.01)
