"""What the processes of a broker tell the herald about themselves, once a second: snapshots, as MessagePack.

A snapshot is pushed and never asked for; one that is lost is made up for by the next. Each holds everything that its
sender has to say, so the latest one of each kind is the whole truth; but for `TaskEnds`, which is a sample, and what is
lost of it is missing. Any process of the broker may push a `Latency`.
All lists are bounded by their senders, and the totals beside them say how much was left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

#: In a dispatcher's snapshot; the rest is only counted.
SERVICES_MAX: Final = 1000
WORKERS_MAX: Final = 1000
#: Services of one worker that are named.
NAMES_MAX: Final = 20
#: In a steward's snapshot, and among the exchanges in a dispatcher's.
PEERS_MAX: Final = 1000
EDITS_MAX: Final = 100
PRINCIPALS_MAX: Final = 100
#: Tasks in one sample: those that ended well, and the others.
OK_TASKS_MAX: Final = 25
FAILED_TASKS_MAX: Final = 75
#: Tasks in a dispatcher's snapshot that have told how far they have got.
RUNNING_MAX: Final = 100
#: A worker may give any reason; the code of a longer one is cut.
REASON_CHARS_MAX: Final = 100
#: The most that the herald reads; a larger snapshot is dropped.
SNAPSHOT_BYTES_MAX: Final = 32 * 1024 * 1024


class Service(Struct, frozen=True, array_like=True):
    name: str
    declared: bool
    workers: int
    free: int
    busy: int
    backlog: int
    backlog_bytes: int
    #: Since the dispatcher started.
    ok: int
    error: int
    rejected: int
    unknown: int


class Worker(Struct, frozen=True, array_like=True):
    identity: str
    #: ready, connecting (no PONG yet), drained (by an admin) or leaving (it said goodbye).
    state: str
    slots: int
    free: int
    silent_ms: int
    heartbeat_ms: int
    services: tuple[str, ...]
    services_total: int


class ErrorWorker(Struct, frozen=True, array_like=True):
    identity: str
    faults: int
    ignored_s: int


class Exchange(Struct, frozen=True, array_like=True):
    """Tasks that went to another broker, and that came from it, since the dispatcher started."""

    identity: str
    given: int
    taken: int


class Presence(Struct, frozen=True, array_like=True):
    """A principal that is connected to a port."""

    principal: str
    port: str
    connections: int
    #: For how long there has been at least one.
    connected_ms: int


class Refusal(Struct, frozen=True, array_like=True):
    """What was refused, as the journal's table `access` has it."""

    port: str
    wanted: str
    why: str
    principal: str
    key: str
    address: str
    service: str
    #: Since it is on this list, and how long ago the last time was.
    times: int
    ago_ms: int


class TaskProgress(Struct, frozen=True, array_like=True):
    """How far a task has got, according to its worker."""

    message_id: str
    service: str
    #: Who has it, a worker or another broker.
    worker: str
    delegated_to: str
    #: Whose task it is; empty where there are no keys.
    principal: str
    #: From 0 to 1.
    done: float
    note: str
    attempt: int
    at_most_once: bool
    priority: int
    request_bytes: int
    #: Before the snapshot was made: when its worker said so, when it was given to the worker, and when it came.
    told_ago_ms: int
    assigned_ago_ms: int
    arrived_ago_ms: int


class Dispatcher(Struct, frozen=True, tag="dispatcher"):
    pid: int
    #: On the sender's own clock, for rates.
    at_ns: int
    draining: bool
    counters: dict[str, int]
    open_tasks: int
    open_bytes: int
    backlog: int
    #: Slots of all ready workers, whether they are listed below or not.
    free: int
    busy: int
    routers: int
    flows: int
    services: tuple[Service, ...]
    services_total: int
    workers: tuple[Worker, ...]
    workers_total: int
    errors: tuple[ErrorWorker, ...]
    exchanges: tuple[Exchange, ...] = ()
    #: Who is connected as whom, the one with the most connections first.
    principals: tuple[Presence, ...] = ()
    principals_total: int = 0
    #: The last ones, the latest first.
    refusals: tuple[Refusal, ...] = ()
    #: Tasks that have not ended and have told how far they have got, the one that did so last first.
    running: tuple[TaskProgress, ...] = ()


class TaskEnd(Struct, frozen=True, array_like=True):
    """How one task ended. Nothing of its bodies, and of its reason only the code."""

    message_id: str
    service: str
    outcome: str
    reason: str
    #: Who had it last, a worker or another broker; both empty if it was given to nobody.
    worker: str
    delegated_to: str
    #: The broker that it came from; empty if it came from its client.
    delegated_from: str
    #: Whose task it is; empty where there are no keys.
    principal: str
    attempt: int
    at_most_once: bool
    priority: int
    #: Before the snapshot was made.
    ended_ago_us: int
    total_us: int
    #: Until this attempt was given to somebody; to the end if it was given to nobody.
    queue_us: int
    request_bytes: int
    response_bytes: int


class TaskEnds(Struct, frozen=True, tag="task_ends"):
    """Some of the tasks that ended since the last of these: all of them, unless there were many."""

    tasks: tuple[TaskEnd, ...]


class Took(Struct, frozen=True, array_like=True):
    """How long the tasks of one service took, counted since the sender started."""

    sum_ns: int
    #: Sixteen buckets to a factor of e: bucket b begins at e^(b/16) nanoseconds.
    counts: list[int]


class Latency(Struct, frozen=True, tag="latency"):
    #: Who counts, and since when: counts of different lives are not compared.
    source: str
    at_ns: int
    services: dict[str, Took]


class Process(Struct, frozen=True, array_like=True):
    name: str
    pid: int
    #: starting, ready or dead.
    state: str
    restarts: int


class Journal(Struct, frozen=True, array_like=True):
    """What the scribe has counted since it started: finished files, and what is in none of them yet."""

    rows: int
    files: int
    bytes: int
    #: Rows that the journal lacks.
    lost: int
    open_rows: int


class Supervisor(Struct, frozen=True, tag="supervisor"):
    identity: str
    family: str
    version: str
    frontend: str
    backend: str
    network: bool
    draining: bool
    uptime_s: int
    routers_expected: int
    processes: tuple[Process, ...]
    #: None if the broker keeps none.
    journal: Journal | None = None
    #: Whether its ports may be bound beyond loopback without keys or TLS.
    plain_on_purpose: bool = False


class Peer(Struct, frozen=True, array_like=True):
    identity: str
    family: str
    alive: bool
    state: str
    #: Since its last heartbeat; -1 if there was none.
    silent_ms: int
    version: int
    digest: str
    free: int
    busy: int
    backlog: int
    services: int
    dashboard: str = ""


class Steward(Struct, frozen=True, tag="steward"):
    identity: str
    family: str
    state: str
    version: int
    digest: str
    peers: tuple[Peer, ...]
    peers_total: int
    #: By family, the families that stand in for it.
    families: dict[str, tuple[str, ...]]
    #: At its own ports, as those of the dispatcher.
    refusals: tuple[Refusal, ...] = ()
    #: Who needs a key at the ports of its family: none, remote or all.
    keys: str = "none"


class Config(Struct, frozen=True, tag="config"):
    """Sent seldom, since it may be large: when it changed, and every few seconds in case the herald is new."""

    version: int
    digest: str
    #: The public view, as JSON: without admins, and without anything about them.
    view: bytes
    #: The newest edits, as JSON, likewise.
    history: bytes
    #: Conflicts and warnings about keys of admins are only counted.
    conflicts: int


Snapshot = Dispatcher | TaskEnds | Latency | Supervisor | Steward | Config

write: Final[Callable[[Snapshot], bytes]] = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


def read(data: bytes) -> Snapshot | None:
    """None for what cannot be read: it came from another version, and the next one may be better."""
    try:
        return _decode(data) if len(data) <= SNAPSHOT_BYTES_MAX else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
