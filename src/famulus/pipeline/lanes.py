"""Several tables at a time: with few rows, most of a table's time is one thread of Spark's that plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Made = TypeVar("Made")
AGAIN_S: Final = 0.2


def at_once(spark: SparkSession, calls: Sequence[Callable[[], Made]], lanes: int) -> list[Made]:
    """What they return, in their order. After the first error, or Ctrl-C, all is given up, and it is raised."""
    if lanes == 1 or len(calls) < 2:
        return [call() for call in calls]
    inherits = inheritable_thread_target(spark)
    # Each thread has one of its own in the JVM, which ends with it only if it was started so.
    with ThreadPoolExecutor(lanes, thread_name_prefix="lane") as pool:
        futures = [pool.submit(inherits(call)) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _give_up(spark, futures)
            raise


def _give_up(spark: SparkSession, futures: Sequence[Future[Made]]) -> None:
    """Until all have noticed: a lane may be planning, and begin the next job of its table only then."""
    while running := [each for each in futures if not each.done()]:
        # A JVM that is gone has given up already.
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
        wait(running, timeout=AGAIN_S)
