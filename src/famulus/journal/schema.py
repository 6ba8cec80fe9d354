"""The tables of the journal and their columns: one place for the brokers that write them and for all who read them.

Knows neither Arrow nor Spark, so that a dispatcher can import it for nothing; `arrow` and the pipeline each make
their own schema of it. A file carries VERSION and the name of its table in its metadata. A reader takes files of its
own version and of older ones (columns that those lack are null), and leaves newer ones alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

VERSION: Final = 2
#: Keys of the metadata of a file.
VERSION_KEY: Final = "famulus.journal.version"
TABLE_KEY: Final = "famulus.journal.table"


class Kind(Enum):
    """What a column holds."""

    TEXT = "text"
    INT = "int"  # 32 bits
    LONG = "long"  # 64 bits
    BOOL = "bool"
    INSTANT = "instant"  # microseconds, UTC


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    meaning: str
    nullable: bool = False


def _column(kind: Kind, name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, kind, meaning, nullable)


_text, _int, _long, _instant = (partial(_column, kind) for kind in (Kind.TEXT, Kind.INT, Kind.LONG, Kind.INSTANT))


#: Every row of every table begins with these.
_WHERE: Final = (
    _text("broker", "identity of the broker that wrote the row"),
    _text("boot", "one life of that broker's dispatcher: a random name, new with each start"),
    _text("family", "family of that broker"),
)

_OF_A_TASK: Final = (
    _long("ticket", "number of the attempt, unique within a boot (LATE rows repeat it); 0 for an open task that waits"),
    _text("message_id", "id of the task, the same over all attempts and brokers"),
    _int("attempt", "1 for the first; 0 if no worker was ever given it"),
    _text("service", "name of the service"),
    _text("worker", "identity of the worker that had it", nullable=True),
    _text("client", "the client's connection, hashed"),
    Column("at_most_once", Kind.BOOL, "whether the service promises to run a task at most once"),
    _int("priority", "as the client gave it"),
    _instant("arrived", "when the broker accepted the task"),
    _instant("assigned", "when this attempt was given to a worker or a broker", nullable=True),
    _text("delegated_from", "the broker that this one has the task from", nullable=True),
    _text("delegated_to", "the broker that this one gave the task to", nullable=True),
)

_TASKS: Final = (
    *_OF_A_TASK,
    _text("outcome", "OK, ERROR, REJECTED, UNKNOWN: the task ended with this attempt. RETRY: another one follows. "
          "LATE: an answer to a ticket that had ended before; it was dropped"),
    _text("reason", "code of the reason, where the outcome has one", nullable=True),
    _instant("ended", "when this attempt ended"),
    _long("queue_ns", "from arrival to assignment; to the end if it was never assigned"),
    _long("service_ns", "from assignment to the end", nullable=True),
    _long("total_ns", "from arrival to the end"),
    _long("request_bytes", "size of the body that came"),
    _long("response_bytes", "size of the body that went back"),
    _long("config_version", "of the broker's config when it ended; 0 for a broker that stands alone"),
    _long("row", "number of the row in its boot, from 1 on, in the order in which they were told: one that is missing "
          "was lost. Null in files of version 1", nullable=True),
)  # fmt: skip

_OPEN_TASKS: Final = (
    _instant("at", "the checkpoint: once a second, whatever is open is written once in each of its states"),
    *_OF_A_TASK,
    _text("state", "queued, running or delegated"),
)

_WORKERS: Final = (
    _instant("at", "when it happened"),
    _text("worker", "identity of the worker"),
    _text("event", "connect, ready, lost, disconnected, error_listed, cleared"),
    _text("services", "names of its services, one per line"),
    _int("slots", "its capacity"),
    _int("tasks", "tasks that it had when it went", nullable=True),
    _text("reason", "code of the reason, where there is one", nullable=True),
)

_BROKERS: Final = (
    _instant("at", "when it happened"),
    _text("event", "start, stop, process_died, process_started, state, overload_on, overload_off, gap, told, load"),
    _text("process", "of process_died and process_started: dispatcher, router-1, steward, ...", nullable=True),
    _text("state", "of state: joining, active, disabled, draining", nullable=True),
    _text("service", "of load, overload_on and overload_off", nullable=True),
    _int("slots_free", "of load, once a second for each service that has workers or tasks", nullable=True),
    _int("slots_busy", "of load", nullable=True),
    _int("backlog", "of load", nullable=True),
    _text("table", "of gap: the table that lacks rows; of told: the one that is counted", nullable=True),
    _long(
        "rows",
        "of gap: how many; of told: how many its boot had told, at the end of an hour with tasks and when it was over",
        nullable=True,
    ),
    _text("detail", "in words: how a process died, why rows are missing", nullable=True),
)

_PEERS: Final = (
    _instant("at", "when it happened"),
    _text("peer", "identity of the other broker"),
    _text("event", "heard, lost, load (every ten seconds), delegated (tasks given to it in the last second)"),
    _int("slots_free", "of load, over all services", nullable=True),
    _int("slots_busy", "of load", nullable=True),
    _int("backlog", "of load", nullable=True),
    _long("tasks", "of delegated", nullable=True),
    _text("service", "of delegated", nullable=True),
)

_CONFIG: Final = (
    _instant("at", "when it happened at this broker"),
    _text("event", "accepted (from an admin here), applied (from elsewhere), conflict, resolved"),
    _text("edit", "id of the edit; of conflict the highest head, of resolved the edit that ended it"),
    _text("key", "what was edited"),
    _text("author", "who edited"),
    _text("accepted_by", "the broker that accepted the edit"),
    _instant("edited", "the edit's own clock"),
    _long("version", "number of edits that this broker has then"),
    _text("digest", "digest over them"),
)

_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "tasks": _TASKS,
    "open_tasks": _OPEN_TASKS,
    "workers": _WORKERS,
    "brokers": _BROKERS,
    "peers": _PEERS,
    "config": _CONFIG,
}
TABLES: Final = {name: (*_WHERE, *columns) for name, columns in _TABLES.items()}

#: Texts that come up again and again, and are written as dictionaries.
REPEATED_TEXTS: Final = {
    name: [column.name for column in columns if column.kind is Kind.TEXT and column.name != "message_id"]
    for name, columns in TABLES.items()
}
#: Which column says when: files are laid out by its date and hour.
TIME_COLUMN: Final = {name: "ended" if name == "tasks" else "at" for name in TABLES}
