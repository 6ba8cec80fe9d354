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


class Service(snapshots.Service, frozen=True, array_like=False):
    """What the dispatcher reports about it, and what follows from that over time."""

    rate_s: float
    failed_rate_s: float
    p50_ms: float | None
    p99_ms: float | None


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


class WorkerPoint(Struct, frozen=True, array_like=True):
    """One second of a worker's past."""

    at_ms: int
    busy: int


class Point(Struct, frozen=True, array_like=True):
    """One second of the past, or one minute: rates per second, and the highest backlog and number of busy slots."""

    at_ms: int
    rate_s: float
    failed_rate_s: float
    backlog: int
    busy: int
