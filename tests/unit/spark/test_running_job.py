"""What becomes of a worker whose Spark has ended. Nothing here is Spark."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from famulus import Worker
from famulus.errors import SparkError
from famulus.spark.running_job import RunningJobs


class Context:
    """As much of a SparkContext as a job needs; it ends with the first job."""

    def __init__(self) -> None:
        self.stopped = False
        self._jsc = self

    def sc(self) -> Context:
        return self

    def isStopped(self) -> bool:
        return self.stopped

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class OneJob:
    """A worker that runs one job and then drains, if somebody has stopped it."""

    def __init__(self, context: Context) -> None:
        self.sparkContext = context
        self.jobs = RunningJobs(cast(SparkSession, self), cast(Worker, self))
        self.is_stopped = False

    def run(self) -> bool:
        with self.jobs.running("a job", lambda: True):
            self.sparkContext.stopped = True
        return self.is_stopped

    def stop(self) -> None:
        self.is_stopped = True


def test_a_worker_without_spark_leaves() -> None:
    worker = OneJob(Context())
    with pytest.raises(SparkError, match="Spark has ended"):
        worker.jobs.run_worker()
    assert worker.is_stopped
