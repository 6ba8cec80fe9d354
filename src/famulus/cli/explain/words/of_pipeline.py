"""Words of the pipeline: kinds of the audit and of findings."""

from __future__ import annotations

from typing import Final

from famulus.cli.explain.words.entry import Kind, entry

_DECIDED: Final = "tables.md#how-it-is-decided"
_FINDINGS: Final = "tables.md#findings"

AUDIT: Final = Kind(
    "kind of the audit",
    "Kinds of the audit",
    "The column `kind` of the table `audit`: what a careful reader would ask about. All is well if every row is "
    "explained.",
    (
        entry(
            "no_outcome",
            "A task was open at a checkpoint and has no outcome in the journal.",
            why="Explained by the death or loss of its broker, which took its row along, or by a gap of that boot, for "
            "as many tasks as the gap counts.",
            remedy="famulus trace with its id tells what is known.",
            again="Only if running it twice does no harm.",
            page=_DECIDED,
        ),
        entry(
            "retry_without_end",
            "After an attempt another one was to follow, and none did.",
            why="Explained as no_outcome is.",
            remedy="famulus trace with its id tells what is known.",
            again="Only if running it twice does no harm.",
            page=_DECIDED,
        ),
        entry(
            "rejected_but_ran",
            "A broker said REJECTED, though a worker had the task.",
            remedy="famulus trace shows both. It is a mistake in Famulus.",
            page=_DECIDED,
        ),
        entry(
            "half_missing",
            "A task was handed over, and only one of the two brokers knows of it, though both have journals here.",
            why="Explained if the other one died, stopped or was lost about then, or has a gap.",
            remedy="See whether files of the other broker's journal were removed.",
            page=_DECIDED,
        ),
        entry(
            "missing_rows",
            "Rows of tasks were told and are not there, and no gap owns up to them.",
            remedy="Somebody removed files or rows of the journal, or the disk lost them: famulus journal verify.",
            page=_DECIDED,
        ),
        entry(
            "duplicate_row",
            "The same row is there more than once, so sums count it more than once.",
            remedy="See whether a file was copied within the journal.",
            page=_DECIDED,
        ),
        entry(
            "ticket_twice",
            "Two attempts of one boot have the same ticket.",
            remedy="famulus trace shows both. It is a mistake in Famulus, or the journal was changed.",
            page=_DECIDED,
        ),
        entry(
            "no_such_outcome",
            "A row has an outcome that does not exist.",
            remedy="It is a mistake in Famulus, or the journal was changed.",
            page=_DECIDED,
        ),
        entry(
            "ended_before_arrived",
            "The instants of a row are not in the order arrived, assigned, ended.",
            remedy="It is a mistake in Famulus, or the journal was changed.",
            page=_DECIDED,
        ),
        entry(
            "negative_duration",
            "A duration in a row is less than nothing.",
            remedy="It is a mistake in Famulus, or the journal was changed.",
            page=_DECIDED,
        ),
        entry(
            "two_outcomes",
            "One message_id has two outcomes.",
            why="Explained if its client asked again after the first.",
            remedy="famulus trace shows both. Without an explanation it is a mistake in Famulus.",
            page=_DECIDED,
        ),
        entry(
            "at_most_once",
            "A second worker had a task that may run once.",
            why="Explained if its client asked again after the first had ended.",
            remedy="famulus trace shows both. Without an explanation it is a mistake in Famulus.",
            page=_DECIDED,
        ),
        entry(
            "late_answer",
            "An answer came after the outcome, and was dropped.",
            remedy="If it happens often, the time-out of the service is too short.",
            page=_DECIDED,
        ),
        entry(
            "gap",
            "Rows are missing in the journal, and it says so.",
            remedy="See to the disk of that broker.",
            page=_DECIDED,
        ),
        entry(
            "crash_window",
            "A dispatcher died, and what it had in hand and had not told is in no row; untold says up to about "
            "how many tasks that is.",
            remedy="Look at the log of that broker. What became of those tasks, only their clients know.",
            page=_DECIDED,
        ),
    ),
    brief=True,
)

FINDINGS: Final = Kind(
    "kind of a finding",
    "Kinds of findings",
    "What `famulus findings` lists. `famulus findings show` tells the figures, `apply` makes the edit where there is "
    "one.",
    (
        entry(
            "bad_worker",
            "A worker does badly: it fails more, is slower or is lost more often than the others of its service.",
            remedy="Look at it and its machine; stop it until it is well.",
            page=_DECIDED,
        ),
        entry(
            "too_few_slots",
            "A service needs more slots at some hour of the day.",
            remedy="Start more workers before that hour.",
            page="tables.md#capacity",
        ),
        entry(
            "backlog_full",
            "A service turns tasks away with overload.",
            remedy="A longer backlog against bursts; more slots if they are short all the time.",
            page=_FINDINGS,
        ),
        entry(
            "time_out_short",
            "Tasks of a service run out of time, and their answers come after that.",
            remedy="A longer timeout_ms, or faster functions.",
            page=_FINDINGS,
        ),
        entry(
            "no_worker",
            "Nobody serves a service that clients ask for.",
            remedy="Start workers, or tell its clients that it is gone.",
            page=_FINDINGS,
        ),
        entry(
            "broker_unstable",
            "The dispatcher of a broker keeps dying.",
            remedy="Drain it, so that others take over, and look at its log and its machine.",
            page=_FINDINGS,
        ),
        entry(
            "slow_recovery",
            "After the loss of a worker or broker its services were not normal for long.",
            remedy="See whether the others have slots enough.",
            page="tables.md#failovers",
        ),
        entry(
            "config_conflict",
            "Two admins changed the same key at the same time.",
            remedy="famulus config resolve.",
            page="administration.md#conflicts-and-how-to-end-them",
        ),
        entry(
            "edits_missing",
            "A broker has not all edits of the config.",
            remedy="See whether the other brokers reach its peer port.",
            page="tables.md#config_convergence",
        ),
        entry(
            "edits_late",
            "Edits of the config took minutes to come to a broker that was up.",
            remedy="See whether the other brokers reach its peer port all the time.",
            page="tables.md#config_convergence",
        ),
        entry(
            "journal_gaps",
            "The journal of a broker lacks rows.",
            remedy="See whether its disk is full or too slow.",
            page="journal.md#what-holds",
        ),
        entry(
            "crash_lost_tasks",
            "A broker crashed, and nobody can say from the journal what became of all its tasks.",
            remedy="See in its log why it died; ask the clients about the tasks.",
            page="journal.md#what-a-journal-cannot-know",
        ),
        entry(
            "audit",
            "Rows of the audit are not explained. This should never happen.",
            remedy="famulus trace with the task's id, and the log of that broker.",
            page="tables.md#audit",
        ),
        entry(
            "unusual",
            "A figure of a service was far from what is usual at that hour.",
            remedy="See what else happened then: failovers, edits of the config, new clients.",
            page="tables.md#anomalies",
        ),
    ),
    brief=True,
)
