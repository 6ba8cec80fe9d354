"""The worker process of the measurement of `serve`: Spark, and a function that has next to nothing to do.

python -m famulus.lab.bench spark_worker ADDRESS WORK

WORK is a `SparkWork` in JSON. It ends on SIGTERM.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.run.session import session
from famulus.spark import serve

SERVICE = "score"


class SparkWork(msgspec.Struct, frozen=True):
    rows_per_batch: int
    max_wait_ms: float
    slots: int | None
    master: str | None
    #: The rows go through Python on the executors; otherwise an expression of Spark is all.
    python: bool


def lengths(tasks: DataFrame) -> DataFrame:
    return tasks.select("message_id", F.length("body").cast("string").alias("answer"))


def same(tasks: DataFrame) -> DataFrame:
    return tasks.select("message_id", F.col("body").alias("answer")).mapInArrow(
        _as_they_are, "message_id string, answer binary"
    )


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main(address: str, text: str) -> None:
    logging.basicConfig(level="INFO")  # it says when it is ready
    work = msgspec.json.decode(text, type=SparkWork)
    with session(work.master, more={"spark.scheduler.mode": "FAIR"}) as spark:
        serve(
            spark,
            SERVICE,
            same if work.python else lengths,
            rows_per_batch=work.rows_per_batch,
            max_wait_ms=work.max_wait_ms,
            slots=work.slots,
            broker=address,
        )
