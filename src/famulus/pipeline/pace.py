"""How Spark goes about its work: for few rows, planning and compiling take longer than the work itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Up to so many rows of tasks, code for them is not worth compiling.
FEW_ROWS: Final = 50_000
#: So many tables are made at a time then; with many rows each one keeps all cores busy, and wants the memory.
LANES_MAX: Final = 4
#: Files that are not larger than this, all together, have few of them.
FEW_BYTES: Final = 16 * 1024 * 1024
_FEW: Final = "spark.famulus.few"
_FOR_FEW: Final = {
    _FEW: "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


def is_paced_for_few(spark: SparkSession) -> bool:
    return spark.conf.get(_FEW, "false") == "true"


@contextmanager
def paced(spark: SparkSession, *, few: bool) -> Iterator[int]:
    """While this lasts, Spark is set for few rows or for many. Gives the number of tables to make at a time."""
    if not few:
        yield 1
        return
    before = {name: spark.conf.get(name, None) for name in _FOR_FEW}
    for name, value in _FOR_FEW.items():
        spark.conf.set(name, value)
    try:
        yield min(LANES_MAX, spark.sparkContext.defaultParallelism)
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)
