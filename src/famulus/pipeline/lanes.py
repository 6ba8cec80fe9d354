"""Several tables at a time: with few rows, most of a table's time is one thread of Spark's that plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Made = TypeVar("Made")


def at_once(spark: SparkSession, calls: Sequence[Callable[[], Made]], lanes: int) -> list[Made]:
    """What they return, in their order. After the first error nothing is begun any more, and it is raised."""
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
            raise
