"""Several tables at a time: each is told of when it is made, and an error ends what has not begun."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.run.schedule import Schedule, make_all

WAIT_S = 30


def all_made(spark: SparkSession, calls: dict[str, Callable[[], int]], threads: int) -> dict[str, int]:
    schedule = Schedule(dict.fromkeys(calls, ()), threads, lambda _: False)
    return make_all(spark, schedule, lambda name: calls[name](), lambda _: None)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_has_its_result_and_is_told_of(spark: SparkSession, threads: int) -> None:
    rows = {"a": 3, "b": 1, "c": 2}
    told: list[str] = []
    schedule = Schedule({"a": ["b"], "b": [], "c": []}, threads, lambda _: False)
    assert make_all(spark, schedule, lambda name: spark.range(rows[name]).count(), told.append) == rows
    assert sorted(told) == ["a", "b", "c"]
    assert told.index("b") < told.index("a")


def test_two_threads_are_two(spark: SparkSession) -> None:
    both = threading.Barrier(2, timeout=WAIT_S)
    assert sorted(all_made(spark, {"a": both.wait, "b": both.wait}, 2).values()) == [0, 1]


def test_those_that_need_each_other_are_no_endless_wait(spark: SparkSession) -> None:
    schedule = Schedule({"a": ["b"], "b": ["a"]}, 2, lambda _: False)
    with pytest.raises(AssertionError, match="needs each other"):
        make_all(spark, schedule, lambda _: 0, lambda _: None)


def test_after_an_error_nothing_is_begun(spark: SparkSession) -> None:
    failed = threading.Event()
    begun: list[int] = []

    def fail() -> int:
        failed.set()
        raise ZeroDivisionError

    def late() -> int:
        begun.append(1)
        failed.wait(WAIT_S)
        return 0

    calls: dict[str, Callable[[], int]] = {"fails": fail, **{str(number): late for number in range(1000)}}
    with pytest.raises(ZeroDivisionError):
        all_made(spark, calls, 2)
    assert len(begun) < 1000


def test_after_an_error_what_is_under_way_is_given_up(spark: SparkSession) -> None:
    def endless() -> int:
        return counted_again_and_again(spark)

    def fail() -> int:
        wait_until_busy(spark)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        all_made(spark, {"fails": fail, "endless": endless}, 2)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def counted_again_and_again(spark: SparkSession) -> int:
    """Would take days."""
    return int(spark.range(10**15).selectExpr("sum(id % 7)").collect()[0][0])


def wait_until_busy(spark: SparkSession) -> None:
    until = time.monotonic() + WAIT_S
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < until
        time.sleep(0.01)
