"""/metrics: a status in Prometheus's text format, with its conventions for names and units.

Names that users choose become labels, so their number is bounded: the first services that were seen keep labels of
their own for as long as the herald lives, and all others are added up under `(other)`. So no counter ever goes down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic_ns

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from famulus.web.status.board import NO_STEWARD, NO_SUPERVISOR, Board
from famulus.web.status.durations import up_to
from famulus.web.status.tracks import Recent
from famulus.wire import status

SERVICES_MAX = 200
PEERS_MAX = 200
OTHER = "(other)"
OUTCOMES = ("ok", "error", "rejected", "unknown")
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

#: Counters of the dispatcher: the name of the metric (without `_total`), and what it counts.
COUNTERS = {
    "accepted": ("famulus_tasks_accepted", "Tasks that were accepted."),
    "by_flow": ("famulus_tasks_by_flow", "Accepted tasks that needed no router, since their header was known."),
    "repeated": ("famulus_tasks_repeated", "Tasks asked for again by their own id, and not run again."),
    "delegated": ("famulus_tasks_delegated", "Tasks handed over to another broker."),
    "late": ("famulus_answers_late", "Answers to tasks that had their outcome already."),
    "attempts_again": ("famulus_attempts_again", "At-least-once tasks given to a worker once more."),
    "refused_by_worker": ("famulus_refused_by_worker", "Sends that were refused, since the worker was gone."),
    "refused_by_client": ("famulus_refused_by_client", "Sends that were refused, since the client was gone."),
    "faults": ("famulus_faults", "Messages that broke the protocol."),
    "ignored": ("famulus_messages_ignored", "Messages dropped unread, since their sender is ignored."),
    "asked_again": ("famulus_questions_asked_again", "Questions that a lost router left behind."),
    "stale_decisions": ("famulus_decisions_stale", "Decisions about questions that were decided already."),
    "workers_lost": ("famulus_workers_lost", "Workers that were lost."),
}
#: Likewise for each service.
BY_SERVICE = {
    "workers": ("famulus_service_workers", "Workers that offer a service."),
    "backlog": ("famulus_backlog_tasks", "Tasks that wait for a slot."),
    "backlog_bytes": ("famulus_backlog_bytes", "Bytes of the bodies that wait."),
}


class Metrics(Collector):
    def __init__(self, board: Board) -> None:
        self._board = board
        self._named: dict[str, None] = {}

    def text(self) -> bytes:
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        board, now_ns = self._board, monotonic_ns()
        yield _gauge("famulus_ready", "1 if the broker should get tasks.", int(not board.reasons(now_ns)))
        told, counts = board.dispatcher, board.fresh(status.Dispatcher, now_ns)
        if board.supervisor is not NO_SUPERVISOR:
            yield from _of_supervisor(board.supervisor)
        if counts:
            yield from _of_dispatcher(told)
            yield from self._of_services(told)
        if board.steward is not NO_STEWARD:
            yield from _of_steward(board.steward, board.fresh(status.Steward, now_ns))
            if counts:
                yield _of_exchanges(told, board.steward)
        conflicts = board.config.conflicts if board.config is not None else 0
        yield _gauge("famulus_config_conflicts", "Keys of the config that an admin has to decide about.", conflicts)

    def _of_services(self, told: status.Dispatcher) -> Iterator[Metric]:
        for service in told.services:
            if len(self._named) < SERVICES_MAX:
                self._named.setdefault(service.name)
        named = [service for service in told.services if service.name in self._named]
        others = [service for service in told.services if service.name not in self._named]
        yield self._tasks(told, named)
        groups = [*((service.name, [service]) for service in named), *([(OTHER, others)] if others else [])]
        for field, (metric, meaning) in BY_SERVICE.items():
            gauge = GaugeMetricFamily(metric, meaning, labels=["service"])
            for label, services in groups:
                gauge.add_metric([label], sum(getattr(service, field) for service in services))
            yield gauge
        slots = GaugeMetricFamily("famulus_slots", "Slots of ready workers.", labels=["service", "state"])
        for label, services in groups:
            slots.add_metric([label, "free"], sum(service.free for service in services))
            slots.add_metric([label, "busy"], sum(service.busy for service in services))
        yield slots
        yield self._durations()

    def _tasks(self, told: status.Dispatcher, named: Sequence[status.Service]) -> Metric:
        tasks = CounterMetricFamily("famulus_tasks", "Tasks by their outcome.", labels=["service", "outcome"])
        for outcome in OUTCOMES:
            rest = told.counters.get(outcome, 0)
            for service in named:
                count = getattr(service, outcome)
                rest -= count
                if service.name != OTHER:
                    tasks.add_metric([service.name, outcome], count)
                else:
                    rest += count
            tasks.add_metric([OTHER, outcome], max(0, rest))
        return tasks

    def _durations(self) -> Metric:
        family = HistogramMetricFamily(
            "famulus_task_duration_seconds",
            "From a task's arrival to the answer of its worker; bounds are right to within 3 %.",
            labels=["service"],
        )
        for name, track in self._board.tracks.items():
            if name in self._named and track.recent.counts:
                family.add_metric([name], *_histogram(track.recent))
        return family


def _histogram(recent: Recent) -> tuple[list[tuple[str, float]], float]:
    sums = up_to(recent.counts, BOUNDS_S)
    buckets = [(str(bound), float(count)) for bound, count in zip(BOUNDS_S, sums, strict=True)]
    return [*buckets, ("+Inf", float(sum(recent.counts)))], recent.sum_ns / 1e9


def _of_supervisor(told: status.Supervisor) -> Iterator[Metric]:
    facts = {"version": told.version, "identity": told.identity, "family": told.family}
    yield InfoMetricFamily("famulus_build", "Which broker this is.", value=facts)
    yield _gauge("famulus_uptime_seconds", "Since the broker was started.", told.uptime_s)
    restarts = CounterMetricFamily("famulus_process_restarts", "Processes started once more.", labels=["process"])
    up = GaugeMetricFamily("famulus_process_up", "1 while the process is ready.", labels=["process"])
    for process in told.processes:
        restarts.add_metric([process.name], process.restarts)
        up.add_metric([process.name], int(process.state == "ready"))
    yield from (restarts, up)
    if (journal := told.journal) is not None:
        for name, meaning, value in (
            ("rows", "Rows of the journal in finished files.", journal.rows),
            ("files", "Files of the journal that were finished.", journal.files),
            ("bytes", "Bytes of these files.", journal.bytes),
            ("rows_lost", "Rows that the journal lacks.", journal.lost),
        ):
            yield CounterMetricFamily(f"famulus_journal_{name}", f"{meaning} Since the scribe started.", value=value)
        yield _gauge("famulus_journal_open_rows", "Rows that are in no finished file yet.", journal.open_rows)


def _of_dispatcher(told: status.Dispatcher) -> Iterator[Metric]:
    for name, (metric, meaning) in COUNTERS.items():
        yield CounterMetricFamily(metric, meaning, value=told.counters.get(name, 0))
    yield _gauge("famulus_open_tasks", "Tasks without an outcome yet.", told.open_tasks)
    yield _gauge("famulus_open_bytes", "Bytes of the bodies that are held for them.", told.open_bytes)
    yield _gauge("famulus_workers", "Connected workers.", told.workers_total)
    yield _gauge("famulus_services", "Services that are known.", told.services_total)
    yield _gauge("famulus_routers", "Routers at work.", told.routers)
    yield _gauge("famulus_flows", "Headers whose meaning is remembered.", told.flows)
    yield _gauge("famulus_error_workers", "Workers that recently broke the protocol; at most 100.", len(told.errors))


def _of_steward(told: status.Steward, fresh: bool) -> Iterator[Metric]:
    yield _gauge("famulus_config_version", "Edits of the config that this broker has.", told.version)
    up = GaugeMetricFamily("famulus_peer_up", "1 while the peer's heartbeats come.", labels=["peer", "family"])
    for peer in _named(told):
        up.add_metric([peer.identity, peer.family], int(peer.alive and fresh))
    yield up


def _of_exchanges(told: status.Dispatcher, steward: status.Steward) -> Metric:
    """Only with brokers that the network knows: a client may call itself anything."""
    tasks = CounterMetricFamily(
        "famulus_peer_tasks", "Tasks given to another broker, and taken from it.", labels=["peer", "direction"]
    )
    exchanges = {each.identity: each for each in told.exchanges}
    for peer in _named(steward):
        exchange = exchanges.get(peer.identity)
        tasks.add_metric([peer.identity, "given"], exchange.given if exchange is not None else 0)
        tasks.add_metric([peer.identity, "taken"], exchange.taken if exchange is not None else 0)
    return tasks


def _named(told: status.Steward) -> list[status.Peer]:
    return sorted(told.peers, key=lambda peer: peer.identity)[:PEERS_MAX]


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)
