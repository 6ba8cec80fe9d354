"""Words of the journal: events of its tables, states of open tasks, and what became of tasks that never ended."""

from __future__ import annotations

from typing import Final

from famulus.cli.explain.words.entry import Kind, entry

_WORKERS: Final = "journal.md#workers"
_BROKERS: Final = "journal.md#brokers"
_PEERS: Final = "journal.md#peers"
_CONFIG: Final = "journal.md#config"
_OPEN: Final = "journal.md#open_tasks"
_FATES: Final = "tasks.md#tasks-that-never-ended"
_TWICE: Final = "Only if running it twice does no harm."

EVENTS: Final = Kind(
    "event of the journal",
    "Events of the journal",
    "The column `event` of the tables `workers`, `brokers`, `peers` and `config`, and `state` of `open_tasks`.",
    (
        entry("connect", "A worker said who it is and what it offers.", when="of a worker", page=_WORKERS),
        entry("ready", "A worker may get tasks.", when="of a worker", page=_WORKERS),
        entry("slots", "A worker takes another number of tasks at once.", when="of a worker", page=_WORKERS),
        entry(
            "lost",
            "A worker is gone without a goodbye. Its tasks got another attempt or ended as UNKNOWN.",
            when="of a worker",
            why="By its reason: expired, it was silent; not_connected, it could not be reached; not_allowed, it broke "
            "the protocol too often; conflict, another one came with its identity.",
            remedy="Look at its log and its machine.",
            page=_WORKERS,
        ),
        entry("disconnected", "A worker said goodbye, with no task left.", when="of a worker", page=_WORKERS),
        entry(
            "error_listed",
            "A worker is ignored from now on, for a time.",
            when="of a worker",
            why="It kept breaking the protocol.",
            remedy="Mend it; famulus errors clear forgives it at once.",
            page="administration.md#workers-that-are-ignored",
        ),
        entry("cleared", "An admin forgave a worker, or all.", when="of a worker", page=_WORKERS),
        entry("start", "A dispatcher began its life.", when="of a broker", page=_BROKERS),
        entry("stop", "The broker stopped in good order.", when="of a broker", page=_BROKERS),
        entry(
            "process_died",
            "A process of the broker died, and is started again.",
            when="of a broker",
            why="The detail says how. Only the loss of a dispatcher loses tasks: those that were open.",
            remedy="Look at the broker's log, and at the kernel's for lack of memory.",
            page="architecture.md#what-happens-when-a-part-dies",
        ),
        entry("process_started", "A process of the broker was started.", when="of a broker", page=_BROKERS),
        entry("state", "The broker is now joining, active, disabled or draining.", when="of a broker", page=_BROKERS),
        entry(
            "overload_on",
            "Tasks of a service are turned away from now on, since there is no room for them.",
            when="of a broker",
            remedy="More workers or slots.",
            page="architecture.md#back-pressure-and-bounds",
        ),
        entry(
            "overload_off",
            "For five seconds no task of the service was turned away.",
            when="of a broker",
            page=_BROKERS,
        ),
        entry(
            "gap",
            "The journal lacks rows, and this says how many of which table.",
            when="of a broker",
            why="The scribe was killed or too slow, or the disk was full or could not be written.",
            remedy="See the detail, and to the disk; tasks themselves were not touched.",
            page="journal.md#what-holds",
        ),
        entry(
            "told",
            "How many rows of tasks a life of the dispatcher had told, at the end of an hour with tasks and when it "
            "was over.",
            when="of a broker",
            page="journal.md#what-holds",
        ),
        entry(
            "load",
            "How many slots are free and busy, and how many tasks wait: of a service once a second, of a peer every "
            "ten.",
            when="of a broker or a peer",
            page=_BROKERS,
        ),
        entry("heard", "Another broker is there.", when="of a peer", page=_PEERS),
        entry(
            "lost",
            "Another broker is silent. It may be dead, or only the line to it cut.",
            when="of a peer",
            why="It died or was stopped, or the network is parted.",
            remedy="famulus brokers at several of them shows who hears whom.",
            page=_PEERS,
        ),
        entry(
            "delegated",
            "Tasks were handed over to another broker, which had slots free.",
            when="of a peer or an open task",
            page="network.md#handing-tasks-over",
        ),
        entry("accepted", "An admin's edit was accepted at this broker.", when="of the config", page=_CONFIG),
        entry("applied", "An edit that another broker accepted came here.", when="of the config", page=_CONFIG),
        entry(
            "conflict",
            "Two admins changed the same key without knowing of each other. One of the edits counts until an admin "
            "chooses.",
            when="of the config",
            remedy="famulus config conflicts, and famulus config resolve.",
            page="administration.md#conflicts-and-how-to-end-them",
        ),
        entry("resolved", "An edit ended a conflict.", when="of the config", page=_CONFIG),
        entry("queued", "At the checkpoint the task waited in the backlog.", when="of an open task", page=_OPEN),
        entry("running", "At the checkpoint a worker had the task.", when="of an open task", page=_OPEN),
    ),
    brief=True,
)

FATES: Final = Kind(
    "fate",
    "Tasks without an outcome",
    "What `famulus trace` and the pipeline say about a task that was open at a checkpoint and never ended: what "
    "became of its broker.",
    (
        entry(
            "died",
            "The dispatcher of its broker died with the task open.",
            why="Its client was told UNKNOWN (broker_lost) by its own library, or asked another broker.",
            again=_TWICE,
            page=_FATES,
        ),
        entry(
            "restarted",
            "Its broker was gone and came back with an empty memory; nobody wrote down how it went.",
            why="The whole machine was lost, or the scribe died with the others.",
            again=_TWICE,
            page=_FATES,
        ),
        entry(
            "lost",
            "Other brokers lost its broker, and its own journal ends there.",
            remedy="If that broker lives, look at its journal: it may know more.",
            again=_TWICE,
            page=_FATES,
        ),
        entry(
            "stopped",
            "Its broker stopped in good order, and should have ended the task.",
            why="A mistake in Famulus, unless its row is in a gap of the journal.",
            remedy="famulus journal verify; then tell those who make Famulus.",
            again=_TWICE,
            page=_FATES,
        ),
        entry(
            "overdue",
            "Its broker went on for longer than tasks of this service take, and has not ended it.",
            why="Its time-out is that long, and it runs still; or its row is in a gap of the journal; or it was "
            "forgotten, which is a mistake in Famulus.",
            remedy="Look again when its time-out is over; famulus journal verify finds gaps.",
            again=_TWICE,
            page=_FATES,
        ),
        entry(
            "open",
            "It may yet end, or has just ended: rows can be read up to a minute after they were told.",
            remedy="Look again in a minute.",
            again="Not yet.",
            page=_FATES,
        ),
    ),
    named=True,
)
