"""How Spark is configured for the rows at hand: with few, planning and compiling take longer than the work itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Up to this many rows of tasks, code for them is not worth compiling.
SMALL_ROWS: Final = 50_000
#: Up to this many, Arrow brings the files to Spark; see `famulus.pipeline.io.small_batch`.
BATCH_ROWS: Final = 100_000
#: An hourly table that is made from up to this many is written without Spark.
COUNTED_ROWS: Final = 200_000
#: Up to this many, it is not worth planning anew after each stage.
MEDIUM_ROWS: Final = 2_000_000
#: Files that are not larger than this, all together, have few rows.
SMALL_BYTES: Final = 16 * 1024 * 1024
#: And up to this many bytes of the journal, the better one of Java's compilers costs more than it saves: Spark itself
#: reads little of them.
BRIEF_BYTES: Final = 512 * 1024 * 1024
#: At most this many tables are made at a time; with many rows each one keeps all cores busy, and needs the memory.
THREADS_MAX: Final = 4


class Scale(Enum):
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


_SCALE: Final = "spark.famulus.scale"
#: Where a session notes the names of the settings that its user gave: they win at every scale.
GIVEN: Final = "spark.famulus.given"
_sessions: WeakKeyDictionary[SparkSession, dict[Scale, SparkSession]] = WeakKeyDictionary()


def scale_for(rows: int) -> Scale:
    if rows <= SMALL_ROWS:
        return Scale.SMALL
    return Scale.MEDIUM if rows <= MEDIUM_ROWS else Scale.LARGE


def scale_of(spark: SparkSession) -> Scale:
    return Scale(spark.conf.get(_SCALE, Scale.LARGE.value))


def session_for(spark: SparkSession, scale: Scale) -> SparkSession:
    """A session configured for this scale, and otherwise like the given one now. It lasts as long as that one."""
    if scale is Scale.LARGE:
        return spark
    known = _sessions.setdefault(spark, {})
    if scale not in known:
        known[scale] = spark.newSession()
    conf, there = known[scale].conf, known[scale].conf.getAll
    given = (spark.conf.get(GIVEN, "") or "").split()
    ours = _settings(scale, spark.sparkContext.defaultParallelism)
    # A new session has what Spark was started with, and not what was set since.
    for name, value in (spark.conf.getAll | {name: ours[name] for name in ours if name not in given}).items():
        if there.get(name) != value:
            conf.set(name, value)
    return known[scale]


def threads_for(spark: SparkSession) -> int:
    """How many tables are made at a time."""
    return min(THREADS_MAX, spark.sparkContext.defaultParallelism)


def _settings(scale: Scale, cores: int) -> dict[str, str]:
    settings = {
        _SCALE: scale.value,
        "spark.sql.adaptive.enabled": "false",
        # Nearly all that is joined is in one partition: see `pipeline.io.small_batch`. Broadcasting it takes longer.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # Spark does not know how large the rows are. If they might be large, it moves both sides of a join for nothing.
        "spark.sql.defaultSizeInBytes": "1",
        # Rows that come with the plan itself are looked at by every rule of the optimizer.
        "spark.sql.execution.arrow.localRelationThreshold": "0",
    }
    if scale is Scale.MEDIUM:
        return settings | {"spark.sql.shuffle.partitions": str(min(THREADS_MAX, cores))}
    return settings | {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
