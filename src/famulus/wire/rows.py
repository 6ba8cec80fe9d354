"""The rows that the processes of a broker send to its journal, with the type of each field.

From these the journal derives how its records are laid out. A missing number is -1, an instant 0, a text empty.
Instants are nanoseconds on the monotonic clock. There are many tasks, so a row about one is a call with all its
fields, which creates no object; any other row is a named tuple.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, Protocol, get_type_hints

# A type for readers and type checkers, and the letter by which `famulus.journal.packing_python` packs it.
Text = Annotated[bytes, "s"]
Int = Annotated[int, "i"]
Flag = Annotated[bool, "i"]
Long = Annotated[int, "q"]
Instant = Annotated[int, "q"]
#: The same as an object, which all rows of a batch share: making one for each would cost more than the row.
SharedInstant = Annotated[object, "q"]
#: Eight bytes, or none.
Ticket = Annotated[bytes, "n"]
#: A JSON text, as it is in headers.
MessageId = Annotated[bytes, "m"]


class WriteTask(Protocol):
    """An attempt has ended, and usually its task with it."""

    def __call__(
        self,
        ticket: Ticket,
        message_id: MessageId,
        attempt: Int,
        service: Text,
        worker: Text,
        client: Text,
        at_least_once: Flag,
        priority: Int,
        arrived: SharedInstant,
        assigned: SharedInstant,
        delegated_from: Text,
        delegated_to: Text,
        tail: Text,  # of the client's header, which says how it ended
        ended: SharedInstant,
        request_bytes: Long,
        response_bytes: Long,
        /,
    ) -> object: ...


class WriteOpenTask(Protocol):
    """A task is open at a checkpoint."""

    def __call__(
        self,
        at: Instant,
        ticket: Ticket,
        message_id: MessageId,
        attempt: Int,
        service: Text,
        worker: Text,
        client: Text,
        at_least_once: Flag,
        priority: Int,
        arrived: SharedInstant,
        assigned: SharedInstant,
        delegated_from: Text,
        delegated_to: Text,
        state: Text,
        /,
    ) -> object: ...


class WorkerRow(NamedTuple):
    at: Instant
    worker: Text
    event: Text
    services: Text = b""
    slots: Int = 0
    tasks: Int = -1
    reason: Text = b""


class BrokerRow(NamedTuple):
    at: Instant
    event: Text
    process: Text = b""
    state: Text = b""
    service: Text = b""
    slots_free: Int = -1
    slots_busy: Int = -1
    backlog: Int = -1
    table: Text = b""
    rows: Long = -1
    detail: Text = b""


class PeerRow(NamedTuple):
    at: Instant
    peer: Text
    event: Text
    slots_free: Int = -1
    slots_busy: Int = -1
    backlog: Int = -1
    tasks: Long = -1
    service: Text = b""


class ConfigRow(NamedTuple):
    at: Instant
    event: Text
    edit: Text
    key: Text
    author: Text
    accepted_by: Text
    edited: Long  # wall-clock time in microseconds: it comes from elsewhere
    version: Long
    digest: Text
    expires: Long = 0  # likewise


class AccessRow(NamedTuple):
    at: Instant
    port: Text
    wanted: Text
    why: Text
    principal: Text
    key: Text
    address: Text
    service: Text
    times: Long
    request_bytes: Long = -1
    response_bytes: Long = -1
    busy_ns: Long = -1


Row = WorkerRow | BrokerRow | PeerRow | ConfigRow | AccessRow


class Journal(Protocol):
    """Where rows go."""

    @property
    def task(self) -> WriteTask: ...
    @property
    def open_task(self) -> WriteOpenTask: ...
    def note(self, row: Row) -> None: ...


def _fields(row: object) -> tuple[tuple[str, str], ...]:
    hints = get_type_hints(row, include_extras=True)
    return tuple((name, hint.__metadata__[0]) for name, hint in hints.items() if name != "return")


#: Rows that are tuples, with the table that each belongs to.
TABLES: Final[dict[type[Row], str]] = {
    WorkerRow: "workers",
    BrokerRow: "brokers",
    PeerRow: "peers",
    ConfigRow: "config",
    AccessRow: "access",
}
#: By table: the names of its fields, with their letters.
LAYOUTS: Final = {
    "tasks": _fields(WriteTask.__call__),
    "open_tasks": _fields(WriteOpenTask.__call__),
    **{table: _fields(row) for row, table in TABLES.items()},
}
