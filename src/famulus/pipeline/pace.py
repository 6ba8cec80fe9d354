"""How Spark goes about its work: for few rows, planning and compiling take longer than the work itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Up to so many rows of tasks, code for them is not worth compiling.
FEW_ROWS: Final = 50_000
#: Up to so many, it is not worth planning anew after each stage.
SOME_ROWS: Final = 2_000_000
#: Files that are not larger than this, all together, have few of them.
FEW_BYTES: Final = 16 * 1024 * 1024
#: So many tables are made at a time; with many rows each one keeps all cores busy, and wants the memory.
LANES_MAX: Final = 4


class Pace(Enum):
    FEW = "few"
    SOME = "some"
    MANY = "many"


_PACE: Final = "spark.famulus.pace"


def pace_for(rows: int) -> Pace:
    if rows <= FEW_ROWS:
        return Pace.FEW
    return Pace.SOME if rows <= SOME_ROWS else Pace.MANY


def is_paced_for_few(spark: SparkSession) -> bool:
    return spark.conf.get(_PACE, "") == Pace.FEW.value


@contextmanager
def paced(spark: SparkSession, pace: Pace) -> Iterator[int]:
    """While this lasts, Spark is set for so many rows. Gives the number of tables to make at a time."""
    cores = spark.sparkContext.defaultParallelism
    settings = _settings(pace, cores)
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield 1 if pace is Pace.MANY else min(LANES_MAX, cores)
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


def _settings(pace: Pace, cores: int) -> dict[str, str]:
    if pace is Pace.MANY:
        return {}
    settings = {_PACE: pace.value, "spark.sql.adaptive.enabled": "false"}
    if pace is Pace.SOME:
        return settings | {"spark.sql.shuffle.partitions": str(min(LANES_MAX, cores))}
    return settings | {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
