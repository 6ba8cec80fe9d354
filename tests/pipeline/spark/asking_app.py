"""A Spark application that asks a service for 400 rows, and writes down what it was told.

python asking_app.py MASTER FRONTEND FOLDER [WORD...]

WORD is `speculate` or `checkpoint`. Rows take 20 ms each; with `speculate`, those of the first partition five times as
long, and Spark tries it twice. Each attempt at a partition leaves a file in FOLDER/attempts; the answers are in
FOLDER/answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F

from famulus.pipeline.run.session import session
from famulus.spark import ask

ROWS = 400
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def main(master: str, frontend: str, folder: str, *words: str) -> None:
    attempts = Path(folder) / "attempts"
    attempts.mkdir(exist_ok=True)

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        (attempts / f"{context.partitionId()}-{context.taskAttemptId()}-{os.getpid()}").touch()
        yield from batches

    more = SPECULATION if "speculate" in words else {}
    # Small batches, so that there is something to lose in the middle of a partition.
    more |= {"spark.sql.execution.arrow.maxRecordsPerBatch": "20", "spark.task.maxFailures": "4"}
    with session(master, heap_mib=512, archive=False, brief=True, more=more) as spark:
        slow = F.when((F.col("id") < ROWS // 4) & ("speculate" in words), "0.1").otherwise("0.02")
        body = F.concat(F.lit("sleep "), slow, F.format_string(" of row %d", "id"))
        df = spark.range(0, ROWS, 1, 4).select("id", body.alias("text")).mapInArrow(noted, "id bigint, text string")
        checkpoint = str(Path(folder) / "checkpoint") if "checkpoint" in words else None
        options = {"broker": frontend, "window": 8, "returns": "answer string", "checkpoint": checkpoint}
        answers = ask(df, "once", body="text", key="id", **options)  # type: ignore[arg-type]
        answers.write.mode("overwrite").parquet(str(Path(folder) / "answers"))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
