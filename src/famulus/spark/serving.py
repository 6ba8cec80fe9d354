"""`serve`: a service whose function is a Spark job."""

from __future__ import annotations

import math
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from famulus.errors import SettingsError
from famulus.spark.batch_job import BatchJob, Function
from famulus.spark.codecs import Codec, CodecName
from famulus.spark.codecs import codec as codec_of
from famulus.spark.options import arrow_schema, spark_schema
from famulus.spark.rows import Form
from famulus.spark.running_job import RunningJobs
from famulus.worker.worker import Worker

ROWS_PER_BATCH: Final = 5_000
MAX_WAIT_MS: Final = 200.0
#: Jobs at the same time, unless somebody chose the slots: while one ends on few cores, the other one has the rest.
JOBS: Final = 2


def serve(
    spark: SparkSession,
    service: str,
    function: Function,
    *,
    takes: StructType | str | None = None,
    returns: StructType | str | None = None,
    codec: CodecName = "json",
    rows_per_batch: int = ROWS_PER_BATCH,
    max_wait_ms: float = MAX_WAIT_MS,
    slots: int | None = None,
    time_limit_s: float | None = None,
    **settings: Any,
) -> bool:
    """Serve until SIGTERM or Ctrl-C; then let the running jobs finish. True if no task was given up.

        from famulus.spark import serve

        def score(tasks: DataFrame) -> DataFrame:
            return tasks.select("message_id", F.upper(F.decode("body", "UTF-8")).alias("answer"))

        serve(spark, "score", score)

    The tasks that came within `max_wait_ms`, or fill `rows_per_batch`, are one DataFrame and one Spark job. It has the
    columns message_id, body, headers, attempt and deadline, and a row for each task. The result has a row for each
    task, too: its message_id, and what becomes of it, as `answer` (binary or string) or as `error` (string). A task
    without a row, or with two, is an ERROR; a job that fails fails its tasks, and the next job is another chance.

    With `takes="a double, b double"` it has these columns instead of the body, and with `returns="score double"` the
    result has those instead of the answer: bodies and answers are JSON then, or what `codec` says. A body that does
    not fit is an ERROR (`bad_arguments`), and not in the DataFrame.

    takes, returns  columns of the bodies and of the answers; without them both are as they are
    codec           of these: json or arrow
    rows_per_batch  the most tasks of a job
    max_wait_ms     how long the first of them waits for others
    slots           tasks at once; default: enough for two jobs, while the next one fills
    time_limit_s    how long a job may take; then it is cancelled
    settings        everything else that a `Worker` has: broker, brokers, pass_file, identity, drain_s and so on
    """
    return SparkService(
        spark,
        service,
        function,
        takes=takes,
        returns=returns,
        codec=codec,
        rows_per_batch=rows_per_batch,
        max_wait_ms=max_wait_ms,
        slots=slots,
        time_limit_s=time_limit_s,
        **settings,
    ).run()


class SparkService:
    def __init__(
        self,
        spark: SparkSession,
        service: str,
        function: Function,
        *,
        takes: StructType | str | None = None,
        returns: StructType | str | None = None,
        codec: CodecName = "json",
        rows_per_batch: int = ROWS_PER_BATCH,
        max_wait_ms: float = MAX_WAIT_MS,
        slots: int | None = None,
        time_limit_s: float | None = None,
        **settings: Any,
    ) -> None:
        if settings.get("processes"):
            raise SettingsError("processes: the work is done by Spark, and not in child processes")
        # A worker has other names for these, which nobody here has used.
        if rows_per_batch < 1:
            raise SettingsError(f"rows_per_batch: at least 1, not {rows_per_batch!r}")
        if max_wait_ms < 0:
            raise SettingsError(f"max_wait_ms: at least 0, not {max_wait_ms!r}")
        self.worker = Worker(slots=rows_per_batch * (JOBS + 1) if slots is None else slots, **settings)
        self._jobs = RunningJobs(spark, self.worker)
        limit_s = math.inf if time_limit_s is None else time_limit_s
        form = Form(_codec(codec, takes, "takes"), _codec(codec, returns, "returns"))
        job = BatchJob(spark, service, function, form, self._jobs, limit_s)
        self.worker.service(service, batch=rows_per_batch, wait_ms=max_wait_ms, time_limit_s=time_limit_s)(job)

    def run(self) -> bool:
        return self._jobs.run_worker()


def _codec(name: CodecName, said: StructType | str | None, whose: str) -> Codec | None:
    return None if said is None else codec_of(name, arrow_schema(spark_schema(said, whose)))
