"""The worker of `famulus pipeline serve`: the services `famulus.query` and `famulus.report`."""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from famulus.errors import QueryError
from famulus.pipeline.io.place import Place
from famulus.pipeline.report.page import page
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.sections.verdict import entries
from famulus.pipeline.serve.queries import Queries, query_of
from famulus.spark.running_job import RunningJobs
from famulus.worker.calls import BadArguments
from famulus.worker.task import Task
from famulus.worker.worker import Worker

QUERY: Final = "famulus.query"
REPORT: Final = "famulus.report"
#: Half of what a broker takes by default.
BYTES_MAX: Final = 8 * 1024 * 1024
#: Of all that the tasks of a job send to the driver: more memory than an answer has bytes.
SETTINGS: Final = {"spark.driver.maxResultSize": str(8 * BYTES_MAX), "spark.scheduler.mode": "FAIR"}


class PipelineService:
    def __init__(
        self, spark: SparkSession, place: Place, *, rows_max: int, time_limit_s: float, **settings: Any
    ) -> None:
        self._place = place
        self._time_limit_s = time_limit_s
        self.worker = Worker(**settings)
        self._jobs = RunningJobs(spark, self.worker)
        self._queries = Queries(spark, place, self._jobs, rows_max, BYTES_MAX)
        self.worker.service(QUERY, time_limit_s=time_limit_s)(self._query)
        self.worker.service(REPORT, time_limit_s=time_limit_s)(self._report)

    def run(self) -> bool:
        return self._jobs.run_worker()

    def _query(self, body: bytes, task: Task) -> bytes:
        until = min(task.deadline, monotonic() + self._time_limit_s)
        try:
            return self._queries.answer(query_of(body), lambda: monotonic() < until and not task.cancelled)
        except QueryError as error:
            raise BadArguments(str(error)) from None

    def _report(self, body: bytes) -> bytes:
        tables = Tables(self._place.full("") if self._place.is_local else self._place.name)
        form = body.decode("utf-8", "replace").strip() or "html"
        if form == "html":
            return page(tables).encode()
        if form == "json":
            return _in_short(tables)
        raise BadArguments(f"the body is html or json, or empty, not {form[:40]!r}")


def _in_short(tables: Tables) -> bytes:
    """What the page says first: whether all tasks are accounted for, and what an admin should do."""
    unexplained, explained = entries(tables)
    told = {
        "accounted": not unexplained,
        "unexplained": dict(unexplained),
        "explained": dict(explained),
        "findings": sorted(tables.rows("findings"), key=lambda row: row["rank"]),
    }
    return msgspec.json.encode(told, enc_hook=str)
