"""Tasks that were open, or were to be tried again, and never ended."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing.entry import entries
from famulus.pipeline.tables.auditing.gaps import with_gap

#: What became of a broker with an open task, and whether that accounts for it.
FATES: Final = {
    "died": (True, "its dispatcher died: it was open then, or its row was lost, and its outcome is not known"),
    "restarted": (True, "its broker was gone and came back: its row was lost, and its outcome is not known"),
    "lost": (True, "its broker was lost to the others: its outcome is not known"),
    "stopped": (False, "its broker stopped in good order, and should have ended it"),
    "overdue": (False, "its broker went on for longer than such a task may take, and never ended it"),
}


def unfinished(lost: DataFrame, events: DataFrame) -> DataFrame:
    fate = F.col("fate")
    accounts = fate.isin(*[name for name, (explains, _) in FATES.items() if explains])
    words = F.coalesce(*[F.when(fate == name, sentence) for name, (_, sentence) in FATES.items()])
    rows = lost.withColumn("accounts", accounts).transform(with_gap, events, ~F.col("accounts"))
    said = F.when(F.col("in_gap"), "its row may be in a gap of the journal").otherwise(words)
    explained = F.col("accounts") | F.col("in_gap")
    to_be_tried_again = F.col("state") == "retry"
    kind = F.when(to_be_tried_again, "retry_without_end").otherwise("no_outcome")
    what = F.when(to_be_tried_again, "no attempt after a RETRY: ").otherwise("no outcome: ")
    return entries(rows, kind, F.concat(what, said), explained=explained)
