"""What the measurement of batches asks for."""

from __future__ import annotations

import pytest

from famulus.lab.bench.batch import BATCHES, SINGLE, Plan


def test_both_sides_do_the_same_work_with_as_many_threads() -> None:
    plan = Plan(threads=3)
    single, batches = plan.work(SINGLE), plan.work(BATCHES)
    assert (single.batch, batches.batch) == (0, 64)
    assert single.threads == batches.threads == 3
    assert single.lasts_s(10) == batches.lasts_s(10) == pytest.approx(0.006)


def test_the_best_ratio_is_that_of_the_function_alone() -> None:
    assert Plan().best_ratio == pytest.approx(64 * 5.1 / 11.4)
    assert Plan(batch=1).best_ratio == 1.0


def test_twice_as_many_tasks_are_open_as_the_slots_hold() -> None:
    assert Plan(threads=1).window == 4 * 64
    assert Plan(threads=3).window == 8 * 64
