"""Makes tables side by side, each as soon as its inputs are there.

With few rows, most of a table's time is spent in one thread of Spark's that plans: so several are made at a time. One
with many rows has everything to itself, and waits until no other is left that could go before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Made = TypeVar("Made")
AGAIN_S: Final = 0.2


class Schedule:
    """Decides which of several tables may be begun now. Knows no threads and no Spark."""

    def __init__(self, needs: Mapping[str, Collection[str]], threads: int, is_alone: Callable[[str], bool]) -> None:
        """`needs`: for each, in order of preference, what must be finished first. Whatever is not in it already exists.

        `is_alone` is asked once for each, when nothing that it needs is missing any more.
        """
        self._missing = {name: {each for each in wanted if each in needs} for name, wanted in needs.items()}
        self.threads = threads
        self._is_alone = is_alone
        self._ready: dict[str, bool] = {}
        self._running: dict[str, bool] = {}
        self._look()

    @property
    def are_over(self) -> bool:
        return not self._missing and not self._ready and not self._running

    def begin(self) -> str | None:
        """One that may begin, and from now on counts as running."""
        if any(self._running.values()) or len(self._running) >= self.threads:
            return None
        name = next((name for name, alone in self._ready.items() if not alone), None)
        if name is None and not self._running:
            name = next(iter(self._ready), None)
        if name is not None:
            self._running[name] = self._ready.pop(name)
        return name

    def end(self, name: str) -> None:
        del self._running[name]
        for missing in self._missing.values():
            missing.discard(name)
        self._look()

    def _look(self) -> None:
        for name in [name for name, missing in self._missing.items() if not missing]:
            del self._missing[name]
            self._ready[name] = self._is_alone(name)


def make_all(
    spark: SparkSession, schedule: Schedule, make: Callable[[str], Made], done: Callable[[str], None]
) -> dict[str, Made]:
    """What was made for each; `done` is told of each. After the first error, or Ctrl-C, everything is given up."""
    made: dict[str, Made] = {}
    running: dict[Future[Made], str] = {}
    # Each thread has a counterpart in the JVM, which ends with it only if it was started that way.
    with ThreadPoolExecutor(schedule.threads, thread_name_prefix="table") as pool:
        try:
            while not schedule.are_over:
                while (name := schedule.begin()) is not None:
                    # Each with properties of its own: Spark sets some for every query, and resets them.
                    running[pool.submit(inheritable_thread_target(spark)(make), name)] = name
                assert running, "what is left needs each other"
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    made[name] = future.result()
                    schedule.end(name)
                    done(name)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _give_up(spark, list(running))
            raise
    return made


def _give_up(spark: SparkSession, futures: Sequence[Future[Made]]) -> None:
    """Cancels until all have noticed: a thread may still be planning, and begin its table's next job only then."""
    while running := [each for each in futures if not each.done()]:
        # A JVM that is gone has given up already.
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
        wait(running, timeout=AGAIN_S)
