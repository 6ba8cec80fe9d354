"""Outcomes of tasks, and of attempts that were not their end."""

from __future__ import annotations

from typing import Final

from famulus.cli.explain.words.entry import Kind, entry

_TASKS: Final = "tasks.md#what-the-outcomes-mean"

OUTCOMES: Final = Kind(
    "outcome",
    "Outcomes",
    "Every accepted task ends with exactly one of `OK`, `ERROR`, `REJECTED` and `UNKNOWN`. `RETRY` and `LATE` are in "
    "the journal only.",
    (
        entry(
            "OK",
            "The task ran, and its client got the answer. Where the service is at-most-once, it ran once.",
            again="There is no need.",
            page=_TASKS,
        ),
        entry(
            "ERROR",
            "A worker answered so: its function raised an exception, or could not be called.",
            why="The reason is the worker's own. Some of the work may be done.",
            remedy="Look at the worker's log: it has the traceback with the task's id.",
            again="Your decision: Famulus never tries such a task again by itself. With the reasons expired and "
            "no_service the function was not called, and it is safe.",
            page=_TASKS,
        ),
        entry(
            "REJECTED",
            "The task provably did not run.",
            why="No such service, no free slot in time, overload, or a broker that is shutting down. The reason tells.",
            remedy="See the reason.",
            again="Safe.",
            page=_TASKS,
        ),
        entry(
            "UNKNOWN",
            "The task may have run, and may be running still.",
            why="Its worker or its broker was lost, or no answer came in time. The reason tells.",
            remedy="famulus trace tells what is known: an answer that came too late means that it most likely ran.",
            again="Only if running it twice does no harm.",
            page=_TASKS,
        ),
        entry(
            "RETRY",
            "This attempt ended, and another one follows.",
            why="The worker or the broker that had the task was lost, and its service is at-least-once.",
            again="The broker does. What the lost attempt did, nobody knows.",
            page="journal.md#what-holds",
        ),
        entry(
            "LATE",
            "An answer came to an attempt that had ended before. It was dropped.",
            why="The function took longer than the time-out, or the worker was taken for lost and was not.",
            remedy="If it happens often, the time-out is too short: work is done and thrown away.",
            again="Only if running it twice does no harm: the task most likely ran.",
            page="journal.md#what-holds",
        ),
    ),
)
