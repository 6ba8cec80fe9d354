"""Rows of tasks that cannot be as they are, each by itself; and answers that came too late."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries, info_if, text
from famulus.pipeline.tables.columns import FINAL

_OUTCOMES: Final = (*FINAL, "RETRY", "LATE")
_LATE: Final = "late_answer"


def odd_rows(tasks: DataFrame) -> DataFrame:
    """All in one reading of the tasks."""
    rules = _rules()
    kinds = F.array_compact(F.array(*[F.when(holds, name) for name, (holds, _) in rules.items()]))
    kind, words = F.col("kind"), F.lit(None).cast("string")
    for name, (_, sentence) in rules.items():
        words = F.when(kind == name, sentence).otherwise(words)
    # They are few, so that copies can be left out here.
    rows = tasks.select("*", F.explode(kinds).alias("kind")).dropDuplicates()
    is_late = kind == _LATE
    return entries(rows, kind, words, severity=info_if(is_late), explained=is_late, at="ended")


def _rules() -> dict[str, tuple[Column, Column]]:
    """By the kind: when a row is one, and what to say of it."""
    outcome, arrived, assigned, ended = (F.col(name) for name in ("outcome", "arrived", "assigned", "ended"))
    durations = ("queue_ns", "service_ns", "total_ns")
    negative = F.coalesce(F.least(*durations) < 0, F.lit(False))
    backwards = F.coalesce((ended < arrived) | (assigned < arrived) | (ended < assigned), ended < arrived)
    return {
        _LATE: (
            outcome == "LATE",
            F.format_string(
                "an answer of worker %s after %s ms; the task had its outcome, so it was dropped",
                F.coalesce("worker", F.lit("unknown")),
                text(F.floor(F.col("total_ns") / 1_000_000)),
            ),
        ),
        "no_such_outcome": (
            ~F.coalesce(outcome.isin(*_OUTCOMES), F.lit(False)),
            F.format_string("there is no outcome %s", F.coalesce(outcome, F.lit("null"))),
        ),
        "ended_before_arrived": (
            backwards,
            F.format_string(
                "it arrived at %s, was assigned at %s and ended at %s",
                *[_told(at) for at in (arrived, assigned, ended)],
            ),
        ),
        "negative_duration": (
            negative,
            F.format_string(
                "queue_ns is %s, service_ns %s, total_ns %s",
                *[F.coalesce(text(name), F.lit("null")) for name in durations],
            ),
        ),
    }


def _told(at: Column) -> Column:
    return F.coalesce(F.date_format(at, "HH:mm:ss.SSSSSS"), F.lit("no time"))
