"""How Spark goes about its work: for few rows, planning and compiling take longer than the work itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Up to so many rows of tasks, code for them is not worth compiling.
FEW_ROWS: Final = 50_000
#: Of up to so many, Arrow brings the files to Spark; see `famulus.pipeline.io.handful`.
HANDFUL_ROWS: Final = 100_000
#: What is counted of up to so many is written without Spark.
COUNTED_ROWS: Final = 200_000
#: Up to so many, it is not worth planning anew after each stage.
SOME_ROWS: Final = 2_000_000
#: Files that are not larger than this, all together, have few of them.
FEW_BYTES: Final = 16 * 1024 * 1024
#: So many tables are made at a time, at most; with many rows each one keeps all cores busy, and wants the memory.
LANES_MAX: Final = 4


class Pace(Enum):
    FEW = "few"
    SOME = "some"
    MANY = "many"


_PACE: Final = "spark.famulus.pace"
#: Where a session notes the names of the settings that its user gave: they win at every pace.
GIVEN: Final = "spark.famulus.given"
_sessions: WeakKeyDictionary[SparkSession, dict[Pace, SparkSession]] = WeakKeyDictionary()


def pace_for(rows: int) -> Pace:
    if rows <= FEW_ROWS:
        return Pace.FEW
    return Pace.SOME if rows <= SOME_ROWS else Pace.MANY


def pace_of(spark: SparkSession) -> Pace:
    return Pace(spark.conf.get(_PACE, Pace.MANY.value))


def session_for(spark: SparkSession, pace: Pace) -> SparkSession:
    """A session that is set for so many rows, and otherwise as the given one is now. It lasts as long as that one."""
    if pace is Pace.MANY:
        return spark
    known = _sessions.setdefault(spark, {})
    if pace not in known:
        known[pace] = spark.newSession()
    conf, there = known[pace].conf, known[pace].conf.getAll
    given = (spark.conf.get(GIVEN, "") or "").split()
    ours = _settings(pace, spark.sparkContext.defaultParallelism)
    # A new session has what Spark was started with, and not what was set since.
    for name, value in (spark.conf.getAll | {name: ours[name] for name in ours if name not in given}).items():
        if there.get(name) != value:
            conf.set(name, value)
    return known[pace]


def lanes_for(spark: SparkSession) -> int:
    """So many tables are made at a time."""
    return min(LANES_MAX, spark.sparkContext.defaultParallelism)


def _settings(pace: Pace, cores: int) -> dict[str, str]:
    settings = {
        _PACE: pace.value,
        "spark.sql.adaptive.enabled": "false",
        # Nearly all that is joined is in one piece: see `famulus.pipeline.io.handful`. To send it about takes longer.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # Spark does not know how large they are. Of what may be large it would move each side of a join, whatever for.
        "spark.sql.defaultSizeInBytes": "1",
        # Rows that come with the plan itself are looked at by every rule of the optimizer.
        "spark.sql.execution.arrow.localRelationThreshold": "0",
    }
    if pace is Pace.SOME:
        return settings | {"spark.sql.shuffle.partitions": str(min(LANES_MAX, cores))}
    return settings | {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
