"""Whatever a careful reader of the journal would ask about: the audit passes if every row is explained.

| kind                   | what                                                   | explained if                       |
|------------------------|--------------------------------------------------------|------------------------------------|
| `no_outcome`           | a task that was open and never ended                   | its broker died, or there is a gap |
| `retry_without_end`    | a task that was to be tried again, and never was       | its broker died, or there is a gap |
| `two_outcomes`         | a second outcome for one message_id                    | its client asked again afterwards  |
| `at_most_once`         | a second worker had a task that may run once           | its client asked again afterwards  |
| `rejected_but_ran`     | REJECTED, though a worker had it                       | never                              |
| `half_missing`         | one half of a task that was handed over, and no other  | that one ended, or has a gap       |
| `missing_rows`         | rows that were told and are not there                  | never; what a gap has is not one   |
| `duplicate_row`        | the same row twice                                     | never                              |
| `ticket_twice`         | two attempts with one ticket                           | never                              |
| `no_such_outcome`      | an outcome that does not exist                         | never                              |
| `ended_before_arrived` | instants that are not in order                         | never                              |
| `negative_duration`    | a duration of less than nothing                        | never                              |
| `late_answer`          | an answer after the outcome; it was dropped            | always                             |
| `gap`                  | rows that the journal lacks, and says so               | always                             |
| `crash_window`         | a dispatcher died, and took along what it had not told | always                             |
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from famulus.pipeline.tables.auditing import crashes, gaps, halves, nonsense, repeated, unfinished
from famulus.pipeline.tables.column_types import union_all
from famulus.pipeline.tables.lives import broker_events
from famulus.pipeline.tables.remarkable import remarkable
from famulus.pipeline.tables.unsettled import unsettled


def audit(tasks: DataFrame, open_tasks: DataFrame, brokers: DataFrame, peers: DataFrame) -> DataFrame:
    events, odd = broker_events(brokers), remarkable(tasks, open_tasks).tasks
    lost = unsettled(tasks, open_tasks, brokers, peers).where(F.col("fate").isin(*unfinished.FATES))
    parts = [
        unfinished.unfinished(lost, events),
        *repeated.repeated(odd),
        nonsense.odd_rows(odd),
        halves.missing(odd, tasks, brokers, peers),
        gaps.missing_rows(tasks, odd, events),
        gaps.gaps(events),
        crashes.crash_windows(lost, tasks, brokers, peers),
    ]
    return union_all(parts)
