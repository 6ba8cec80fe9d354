"""One Spark job for the tasks of a batch: a DataFrame for the function, and an answer for each task in any case."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from famulus.errors import SparkError
from famulus.spark.rows import Form, Outcome, parts_of
from famulus.spark.running_job import RunningJobs
from famulus.worker.calls import PlainError
from famulus.worker.task import Task

log = logging.getLogger("famulus.spark")

#: From `message_id`, the body, `headers`, `attempt` and `deadline` to `message_id` and the answer, or `error`, or both.
Function: TypeAlias = Callable[[DataFrame], DataFrame]


class BatchJob:
    """The function of a service with batches that is a Spark job."""

    def __init__(
        self,
        spark: SparkSession,
        service: str,
        function: Function,
        form: Form,
        jobs: RunningJobs,
        time_limit_s: float,
    ) -> None:
        self._spark = spark
        self._service = service
        self._function = function
        self._form = form
        self._jobs = jobs
        self._time_limit_s = time_limit_s

    def __call__(self, bodies: list[bytes], tasks: list[Task]) -> list[Outcome]:
        return [answer for part in parts_of(tasks) for answer in self._answers(part)]

    def _answers(self, tasks: Sequence[Task]) -> list[Outcome]:
        until = monotonic() + self._time_limit_s

        def is_wanted() -> bool:
            now = monotonic()
            return now < until and any(now < task.deadline and not task.cancelled for task in tasks)

        about = f"{self._service}: {len(tasks)} tasks, the first of them {tasks[0].message_id}"
        try:
            with self._jobs.running(about, is_wanted):
                rows, known = self._form.read(tasks)
                if not rows.num_rows:
                    return [known[task.message_id] for task in tasks]
                result = self._function(self._spark.createDataFrame(rows))
                if not isinstance(result, DataFrame):
                    raise SparkError(f"the function returns a DataFrame, not {type(result).__name__}")
                found = result.select(*self._form.wanted_of(result.columns)).toArrow()
                return self._form.answers(tasks, found, known)
        except Exception as error:
            log.exception("the job failed: %s", about)
            # The same for all of them, and it is in the log once.
            return [PlainError(reason_of(error))] * len(tasks)


#: What a Python worker of Spark says: the last line is the one that has no indentation.
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(?P<last>\S.*)")


def reason_of(error: Exception) -> str:
    """What the client is told: what failed in the function, wherever it ran, without the plan and the stack of Java."""
    text = str(error)
    if (inner := _TRACEBACK.search(text)) is not None:
        return inner["last"]
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    first = re.sub(r"^(: )?(\[[\w.]+\] )?", "", told[0]).partition(" SQLSTATE:")[0] if told else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
