"""Several tables at a time: with few rows, most of a table's time is one thread of Spark's that plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from famulus.pipeline.run.turns import Turns

Made = TypeVar("Made")
AGAIN_S: Final = 0.2


def in_turns(
    spark: SparkSession,
    turns: Turns,
    make: Callable[[str], Made],
    done: Callable[[str], None],
) -> dict[str, Made]:
    """What was made in each turn; `done` is told of each. After the first error, or Ctrl-C, all is given up."""
    made: dict[str, Made] = {}
    running: dict[Future[Made], str] = {}
    # Each thread has one of its own in the JVM, which ends with it only if it was started so.
    with ThreadPoolExecutor(turns.lanes, thread_name_prefix="lane") as pool:
        try:
            while not turns.are_over:
                while (name := turns.begin()) is not None:
                    # With properties of its own each: Spark sets some for every query, and sets them back.
                    running[pool.submit(inheritable_thread_target(spark)(make), name)] = name
                assert running, "what is left needs each other"
                wait(running, return_when=FIRST_COMPLETED)
                for future in [future for future in running if future.done()]:
                    name = running.pop(future)
                    made[name] = future.result()
                    turns.end(name)
                    done(name)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _give_up(spark, list(running))
            raise
    return made


def _give_up(spark: SparkSession, futures: Sequence[Future[Made]]) -> None:
    """Until all have noticed: a lane may be planning, and begin the next job of its table only then."""
    while running := [each for each in futures if not each.done()]:
        # A JVM that is gone has given up already.
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
        wait(running, timeout=AGAIN_S)
