"""Several calls at a time: results in order, and an error ends what has not begun."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.lanes import at_once

WAIT_S = 30


def counted(spark: SparkSession, rows: int) -> int:
    return spark.range(rows).count()


@pytest.mark.parametrize("lanes", [1, 2])
def test_results_are_in_the_order_of_the_calls(spark: SparkSession, lanes: int) -> None:
    assert at_once(spark, [partial(counted, spark, rows) for rows in (3, 1, 2)], lanes) == [3, 1, 2]


def test_two_lanes_are_two(spark: SparkSession) -> None:
    both = threading.Barrier(2, timeout=WAIT_S)
    assert sorted(at_once(spark, [both.wait, both.wait], 2)) == [0, 1]


def test_after_an_error_nothing_is_begun(spark: SparkSession) -> None:
    failed = threading.Event()
    begun: list[int] = []

    def fail() -> None:
        failed.set()
        raise ZeroDivisionError

    def late(number: int) -> None:
        begun.append(number)
        failed.wait(WAIT_S)

    calls: list[Callable[[], None]] = [fail, *(partial(late, number) for number in range(1000))]
    with pytest.raises(ZeroDivisionError):
        at_once(spark, calls, 2)
    assert len(begun) < 1000


def test_after_an_error_what_is_under_way_is_given_up(spark: SparkSession) -> None:
    def endless() -> int:
        return counted_again_and_again(spark)

    def fail() -> int:
        wait_until_busy(spark)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        at_once(spark, [fail, endless], 2)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def counted_again_and_again(spark: SparkSession) -> int:
    """Would take days."""
    return int(spark.range(10**15).selectExpr("sum(id % 7)").collect()[0][0])


def wait_until_busy(spark: SparkSession) -> None:
    until = time.monotonic() + WAIT_S
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < until
        time.sleep(0.01)
