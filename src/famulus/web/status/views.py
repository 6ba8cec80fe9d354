"""The status of a broker as the HTTP port reports it: `Status`, and what it is made of. Facts only."""

from __future__ import annotations

from msgspec import Struct

from famulus.wire import status as snapshots


class Broker(Struct, frozen=True):
    """A broker of the network. The one that is asked comes first, then its peers."""

    identity: str
    family: str
    #: active, joining, draining or disabled; gone if it is silent.
    state: str
    alive: bool
    here: bool
    free: int
    busy: int
    backlog: int
    services: int
    version: int
    digest: str
    #: Since its last heartbeat; null if there was none, or if it is the broker itself.
    silent_ms: int | None = None
    #: Tasks that this broker handed over to it, and those that came from it, with their rates; for the broker itself,
    #: to and from all others.
    given: int = 0
    taken: int = 0
    given_rate_s: float = 0.0
    taken_rate_s: float = 0.0
    #: The address of its dashboard; empty if it has none that others can reach, or if it is the broker itself.
    dashboard: str = ""


class Family(Struct, frozen=True):
    name: str
    fallback_families: tuple[str, ...]


class Tasks(Struct, frozen=True):
    """Since the dispatcher started; rates are those of the last five seconds."""

    accepted: int
    ok: int
    error: int
    rejected: int
    unknown: int
    late: int
    delegated: int
    open: int
    backlog: int
    rate_s: float
    failed_rate_s: float
    #: Of the last minute.
    p50_ms: float | None
    p99_ms: float | None
    #: Of the last second or so.
    p50_now_ms: float | None
    p99_now_ms: float | None


class Service(snapshots.Service, frozen=True, array_like=False):
    """What the dispatcher reports about it, and what follows from that over time."""

    rate_s: float
    failed_rate_s: float
    p50_ms: float | None
    p99_ms: float | None
    p50_now_ms: float | None
    p99_now_ms: float | None


class Worker(Struct, frozen=True):
    identity: str
    state: str
    slots: int
    busy: int
    silent_ms: int
    heartbeat_ms: int
    services: tuple[str, ...]
    services_total: int


class ErrorWorker(snapshots.ErrorWorker, frozen=True, array_like=False):
    """A worker that broke the protocol."""


class Process(snapshots.Process, frozen=True, array_like=False):
    """One process of the broker."""


class Config(Struct, frozen=True):
    """The config of a network; version 0 without one."""

    network: bool
    version: int
    digest: str
    conflicts: int
    #: Whether all brokers that are alive have the same digest.
    in_step: bool


class Journal(Struct, frozen=True):
    """What the scribe has written since it started; all zero if there is none."""

    on: bool = False
    #: The state of the scribe, as of any process; off without one.
    state: str = "off"
    rows: int = 0
    files: int = 0
    bytes: int = 0
    #: Rows that the journal lacks.
    lost: int = 0
    #: Rows that are in no finished file yet.
    open_rows: int = 0


class ConnectedPrincipal(Struct, frozen=True):
    """Who is connected, as whom."""

    name: str
    #: frontend or backend.
    port: str
    connections: int
    #: Of the oldest of them, on the wall clock.
    since_ms: int


class Refusal(Struct, frozen=True):
    """Somebody was not let in, or may not do what it wanted; `times`, the last of them at `at_ms`."""

    at_ms: int
    port: str
    #: Empty if nobody has this key; the key is empty if it came without one.
    principal: str
    key: str
    host: str
    #: connect, call or serve.
    wanted: str
    service: str
    why: str
    times: int


class RunningTask(Struct, frozen=True):
    """A task that has not ended, and has told how far it has got."""

    message_id: str
    service: str
    worker: str
    delegated_to: str
    principal: str
    #: From 0 to 1.
    done: float
    note: str
    #: On the wall clock.
    told_ms: float
    arrived_ms: float
    # A broker of an older version says nothing about these.
    assigned_ms: float = 0.0
    attempt: int = 0
    at_most_once: bool = True
    priority: int = 0
    request_bytes: int = 0


class EndedTask(Struct, frozen=True):
    """A task that has ended. Nothing of what it carried."""

    message_id: str
    service: str
    outcome: str
    #: The code; empty if there is none.
    reason: str
    #: Who had it last; both empty if it was given to nobody.
    worker: str
    delegated_to: str
    #: The broker that it came from; empty if its client asked this one.
    delegated_from: str
    #: Whose it was; empty without keys, null if it is from the journal, which does not say.
    principal: str | None
    attempt: int
    at_most_once: bool
    priority: int
    #: On the wall clock.
    ended_ms: float
    total_ms: float
    queue_ms: float
    request_bytes: int
    response_bytes: int


class FailureKind(Struct, frozen=True):
    """Tasks of one service that failed for the same reason."""

    service: str
    outcome: str
    reason: str
    #: Of those that the dispatcher told about, which are not all if there were very many.
    times: int
    first_ms: float
    #: The last one.
    example: EndedTask


class Status(Struct, frozen=True):
    #: When this was put together, in milliseconds of the wall clock.
    at_ms: int
    version: str
    identity: str
    family: str
    state: str
    ready: bool
    #: Why it is not ready, in words.
    reasons: tuple[str, ...]
    uptime_s: int
    frontend: str
    backend: str
    routers: int
    tasks: Tasks
    config: Config
    services_total: int
    workers_total: int
    brokers_total: int
    processes: tuple[Process, ...]
    families: tuple[Family, ...]
    brokers: tuple[Broker, ...]
    services: tuple[Service, ...]
    workers: tuple[Worker, ...]
    errors: tuple[ErrorWorker, ...]
    counters: dict[str, int]
    journal: Journal = Journal()
    #: Whether the ports for clients, workers and brokers want keys: none, those from other machines (remote) or all.
    keys: str = "none"
    plain_on_purpose: bool = False
    principals: tuple[ConnectedPrincipal, ...] = ()
    #: The newest first.
    refusals: tuple[Refusal, ...] = ()


class WorkerPoint(Struct, frozen=True, array_like=True):
    """One second of a worker's past."""

    at_ms: int
    busy: int


class Point(Struct, frozen=True, array_like=True):
    """One second of the past, or one minute: rates per second, the highest backlog and number of busy slots, and how
    long tasks took; of a minute, the mean of the seconds' p50 and the highest p99."""

    at_ms: int
    rate_s: float
    failed_rate_s: float
    backlog: int
    busy: int
    #: None if no task was answered.
    p50_ms: float | None = None
    p99_ms: float | None = None
