"""Rows of tasks that cannot be right, each judged by itself; and answers that came too late."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.columnar.rows import FINAL
from famulus.pipeline.tables.auditing.entry import entries, info_if
from famulus.pipeline.tables.words import said

_OUTCOMES: Final = (*FINAL, "RETRY", "LATE")
_LATE: Final = "late_answer"
_INSTANTS: Final = ("arrived", "assigned", "ended")


def odd_rows(tasks: DataFrame) -> DataFrame:
    """None of them is of a plain task."""
    rules = _rules()
    kinds = F.array_compact(F.array(*[F.when(holds, name) for name, (holds, _) in rules.items()]))
    told = {name: F.coalesce(F.date_format(name, "HH:mm:ss.SSSSSS"), F.lit("no time")) for name in _INSTANTS}
    told |= {"by": F.coalesce("worker", F.lit("unknown")), "ms": F.floor(F.col("total_ns") / 1_000_000)}
    kind = F.col("kind")
    words = F.coalesce(*[F.when(kind == name, said(sentence, **told)) for name, (_, sentence) in rules.items()])
    # They are few, so copies can be left out here.
    rows = tasks.select("*", F.explode(kinds).alias("kind")).dropDuplicates()
    is_late = kind == _LATE
    return entries(rows, kind, words, severity=info_if(is_late), explained=is_late, at="ended")


def _rules() -> dict[str, tuple[Column, str]]:
    """By kind: when a row is one, and what to say about it."""
    outcome, (arrived, assigned, ended) = F.col("outcome"), map(F.col, _INSTANTS)
    negative = F.coalesce(F.least("queue_ns", "service_ns", "total_ns") < 0, F.lit(False))
    backwards = F.coalesce((ended < arrived) | (assigned < arrived) | (ended < assigned), ended < arrived)
    unheard_of = ~F.coalesce(outcome.isin(*_OUTCOMES), F.lit(False))
    disorder = "it arrived at {arrived}, was assigned at {assigned} and ended at {ended}"
    dropped = "an answer of worker {by} after {ms} ms; the task had its outcome, so it was dropped"
    return {
        _LATE: (outcome == "LATE", dropped),
        "no_such_outcome": (unheard_of, "there is no outcome {outcome}"),
        "ended_before_arrived": (backwards, disorder),
        "negative_duration": (negative, "queue_ns is {queue_ns}, service_ns {service_ns}, total_ns {total_ns}"),
    }
