"""What `famulus bench policy` offers, and what it makes of what it saw."""

from __future__ import annotations

import pytest

from famulus.lab.bench.policy import Plan, summary


def test_the_load_is_a_share_of_what_all_workers_can_do() -> None:
    # Seven workers do 100 tasks a second each, and the eighth does 10.
    assert Plan(work_ms=10, slower=10, load=0.5).per_s == pytest.approx(355)
    assert Plan(work_ms=10, slower=10, load=0.5, slots=4, one_by_one=False).per_s == pytest.approx(4 * 355)


def test_one_of_them_is_slower() -> None:
    plan = Plan(slower=7.0)
    assert plan.crowd(range(8), work_ms=1.0).slower == 7.0
    assert plan.crowd(range(1, 8), work_ms=1.0).slower == 1.0
    assert plan.crowd(range(8), work_ms=1.0).names[0] == "worker-0"


def test_ratios_are_those_of_the_medians_to_lru() -> None:
    seen = {"medians": {"lru": {"p99_ms": 200.0}, "ewma": {"p99_ms": 50.0}}, "rounds": {}}
    assert summary(seen)["p99_ratios"] == {"lru": 1.0, "ewma": 0.25}
