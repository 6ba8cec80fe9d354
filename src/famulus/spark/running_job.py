"""The jobs that a thread of a worker runs: in a pool of their own, and cancelled when nobody waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from pyspark.sql import SparkSession

from famulus.errors import SparkError
from famulus.worker.worker import Worker

#: How often somebody looks whether a job is still wanted.
LOOK_S: Final = 0.2


class RunningJobs:
    """Those of a worker whose functions use Spark."""

    def __init__(self, spark: SparkSession, worker: Worker) -> None:
        self._context = spark.sparkContext
        self._worker = worker
        self._numbers = count()
        self._closed = False

    def run_worker(self) -> bool:
        """True if no task was given up. Raises a SparkError if there is no Spark any more."""
        try:
            drained = self._worker.run()
        finally:
            # Whatever still runs is not wanted.
            self._closed = True
        if not self._are_possible:
            raise SparkError("Spark has ended, and no job can run any more")
        return drained

    @contextmanager
    def running(self, about: str, is_wanted: Callable[[], bool]) -> Iterator[None]:
        """All jobs that this thread starts inside of `with` are cancelled once they are not wanted.

        `about`: what Spark's pages call them.
        """
        tag = f"famulus-{id(self)}-{next(self._numbers)}"
        ended = threading.Event()
        watch = threading.Thread(
            target=self._watch, args=(tag, is_wanted, ended), name="famulus-spark-watch", daemon=True
        )
        # Where Spark schedules fairly, no thread's job waits for that of another.
        self._context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
        self._context.setJobDescription(about)
        self._context.addJobTag(tag)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()
            if self._are_possible:
                self._context.removeJobTag(tag)
            else:
                # A worker without Spark would answer ERROR only, and do that quickly.
                self._worker.stop()

    @property
    def _are_possible(self) -> bool:
        """Whether Spark is still there."""
        try:
            return not self._context._jsc.sc().isStopped()
        except Exception:
            return False

    def _watch(self, tag: str, is_wanted: Callable[[], bool], ended: threading.Event) -> None:
        while not ended.wait(LOOK_S):
            # Again and again: it may not have come to its first job yet.
            if (self._closed or not is_wanted()) and self._are_possible:
                self._context.cancelJobsWithTag(tag)
