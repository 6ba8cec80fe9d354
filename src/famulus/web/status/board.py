"""The herald's memory: the latest snapshot of each process, what changes over time, and one `Status` of it all.

Snapshots come in with the instant of their arrival. A process that was silent for three seconds counts as gone.
Everything is bounded: the senders bound their lists, and only TRACKS_MAX services have a past.
"""

from __future__ import annotations

from msgspec.structs import asdict, astuple

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.latency import BUCKETS
from famulus.web.status import views
from famulus.web.status.durations import quantile_ms
from famulus.web.status.ended import EndedTasks
from famulus.web.status.tracks import MINUTES_MAX, SECONDS_MAX, Exchanges, Pasts, Track, Traffic
from famulus.wire import status as snapshots

#: Without a snapshot for this long, its sender is gone, or hangs.
SILENCE_NS = 3 * NS_PER_S
#: How many services have a past, and how many seconds of it.
TRACKS_MAX = 1000
SERVICE_SECONDS_MAX = 300
#: Who tells how long tasks took; each life of a dispatcher is one.
SOURCES_MAX = 32
#: How many minutes of a service's past are kept.
SERVICE_MINUTES_MAX = 180


#: Stand-ins for what has not been reported yet.
NO_SUPERVISOR = snapshots.Supervisor("", "", "", "", "", False, False, 0, 0, ())
NO_DISPATCHER = snapshots.Dispatcher(0, 0, False, {}, 0, 0, 0, 0, 0, 0, 0, (), 0, (), 0, ())
NO_TRACK = Track(0, 0)
NO_STEWARD = snapshots.Steward("", "", "joining", 0, "", (), 0, {})


class Board:
    def __init__(self) -> None:
        self.dispatcher = NO_DISPATCHER
        self.supervisor = NO_SUPERVISOR
        self.steward = NO_STEWARD
        self.config: snapshots.Config | None = None
        self._heard_ns: dict[type[snapshots.Snapshot], int] = {}
        self.total = Track(SECONDS_MAX, MINUTES_MAX)
        #: By service.
        self.tracks: dict[str, Track] = {}
        self.workers = Pasts()
        self.ended = EndedTasks()
        #: Tasks that have told how far they have got, the one that did so last first.
        self.running: tuple[views.RunningTask, ...] = ()
        self._exchanges = Exchanges()
        #: Who has told how long tasks took.
        self._timed_by: set[str] = set()

    # -- snapshots arrive ---------------------------------------------------------------------------------------

    def take(self, snapshot: snapshots.Snapshot, now_ns: int, now_ms: int) -> bool:
        """Returns whether it is news that nobody should have to wait for: a peer was lost, or is back."""
        self._heard_ns[type(snapshot)] = now_ns
        urgent = False
        match snapshot:
            case snapshots.Dispatcher():
                self.dispatcher = snapshot
                self._track(snapshot, now_ms)
                self._exchanges.take(snapshot)
                self.workers.take(snapshot.workers, now_ms)
                self.running = tuple(_running(each, now_ms) for each in snapshot.running)
            case snapshots.TaskEnds():
                self.ended.take(snapshot, now_ms)
            case snapshots.Supervisor():
                self.supervisor = snapshot
            case snapshots.Steward():
                urgent = self.steward is not NO_STEWARD and _heard(self.steward) != _heard(snapshot)
                self.steward = snapshot
            case snapshots.Config():
                self.config = snapshot
            case snapshots.Latency():
                self._time(snapshot, now_ns)
        return urgent

    def _time(self, told: snapshots.Latency, now_ns: int) -> None:
        for name, took in told.services.items():
            if (track := self._track_of(name)) is not None and len(took.counts) == BUCKETS:
                fresh = track.recent.take(told.source, now_ns, took.sum_ns, took.counts)
                # If we are new, the first counts are those of a whole life.
                if told.source in self._timed_by:
                    track.took(fresh)
                    self.total.took(fresh)
        if len(self._timed_by) >= SOURCES_MAX:
            self._timed_by.clear()
        self._timed_by.add(told.source)

    def _track(self, told: snapshots.Dispatcher, now_ms: int) -> None:
        counters, at_ns = told.counters, told.at_ns
        failed = sum(counters.get(name, 0) for name in ("error", "rejected", "unknown"))
        self.total.count(at_ns, now_ms, counters.get("ok", 0) + failed, failed, told.backlog, told.busy)
        for service in told.services:
            if (track := self._track_of(service.name)) is not None:
                failed = service.error + service.rejected + service.unknown
                track.count(at_ns, now_ms, service.ok + failed, failed, service.backlog, service.busy)
        if len(self.tracks) >= TRACKS_MAX and len(self.tracks) > len(told.services):
            # Only when there is no room left: a service that comes back should still have its past.
            there = {service.name for service in told.services}
            self.tracks = {name: track for name, track in self.tracks.items() if name in there}

    def _track_of(self, name: str) -> Track | None:
        track = self.tracks.get(name)
        if track is None and len(self.tracks) < TRACKS_MAX:
            track = self.tracks[name] = Track(SERVICE_SECONDS_MAX, SERVICE_MINUTES_MAX)
        return track

    # -- what it amounts to -------------------------------------------------------------------------------------

    def fresh(self, kind: type[snapshots.Snapshot], now_ns: int) -> bool:
        return kind in self._heard_ns and now_ns < self._heard_ns[kind] + SILENCE_NS

    def state(self, now_ns: int) -> str:
        """The state of this broker: the one that the network wants, unless it drains or is gone."""
        if not self.fresh(snapshots.Dispatcher, now_ns):
            return "gone"
        if self.dispatcher.draining:
            return "draining"
        return self.steward.state if self.supervisor.network else "active"

    def reasons(self, now_ns: int) -> tuple[str, ...]:
        """Why this broker should get no tasks now; empty if it should."""
        found = []
        state = self.state(now_ns)
        if state == "gone":
            found.append("the dispatcher is silent")
        elif not self.dispatcher.routers:
            found.append("there is no router")
        if state not in ("active", "gone"):
            found.append(f"the broker is {state}")
        return tuple(found)

    def status(self, now_ns: int, now_ms: int) -> views.Status:
        supervisor, told, steward = self.supervisor, self.dispatcher, self.steward
        reasons, brokers = self.reasons(now_ns), self._brokers(now_ns)
        return views.Status(
            at_ms=now_ms,
            version=supervisor.version,
            identity=supervisor.identity,
            family=steward.family or supervisor.family,
            state=self.state(now_ns),
            ready=not reasons,
            reasons=reasons,
            uptime_s=supervisor.uptime_s,
            frontend=supervisor.frontend,
            backend=supervisor.backend,
            routers=told.routers,
            tasks=self._tasks(told, now_ns),
            config=views.Config(
                network=supervisor.network,
                version=steward.version,
                digest=steward.digest,
                conflicts=self.config.conflicts if self.config else 0,
                in_step=len({broker.digest for broker in brokers if broker.alive}) <= 1,
            ),
            services_total=told.services_total,
            workers_total=told.workers_total,
            brokers_total=1 + steward.peers_total,
            processes=tuple(views.Process(*astuple(each)) for each in supervisor.processes),
            families=tuple(views.Family(name, others) for name, others in sorted(steward.families.items())),
            brokers=brokers,
            services=tuple(self._service(each, now_ns) for each in told.services),
            workers=tuple(_worker(each) for each in told.workers),
            errors=tuple(views.ErrorWorker(*astuple(each)) for each in told.errors),
            counters=told.counters,
            journal=_journal(supervisor),
            keys=steward.keys,
            plain_on_purpose=supervisor.plain_on_purpose,
            principals=tuple(_connected(each, now_ms) for each in told.principals),
            refusals=tuple(
                _refusal(each, now_ms)
                for each in sorted((*told.refusals, *steward.refusals), key=lambda each: each.ago_ms)
            ),
        )

    def _tasks(self, told: snapshots.Dispatcher, now_ns: int) -> views.Tasks:
        alive = self.fresh(snapshots.Dispatcher, now_ns)
        rate_s, failed_rate_s = self.total.rates.smooth if alive else (0.0, 0.0)
        recent = [0] * BUCKETS
        for track in self.tracks.values():
            track.recent.quantiles(now_ns)  # forgets what is older than a minute
            for bucket, count in enumerate(track.recent.last_minute()):
                if count:
                    recent[bucket] += count
        names = ("accepted", "ok", "error", "rejected", "unknown", "late", "delegated")
        return views.Tasks(
            **{name: told.counters.get(name, 0) for name in names},
            open=told.open_tasks,
            backlog=told.backlog,
            rate_s=rate_s,
            failed_rate_s=failed_rate_s,
            p50_ms=quantile_ms(recent, 0.5),
            p99_ms=quantile_ms(recent, 0.99),
            p50_now_ms=self.total.now_ms[0] if alive else None,
            p99_now_ms=self.total.now_ms[1] if alive else None,
        )

    def _service(self, told: snapshots.Service, now_ns: int) -> views.Service:
        track = self.tracks.get(told.name, NO_TRACK)
        rate_s, failed_rate_s = track.rates.smooth if self.fresh(snapshots.Dispatcher, now_ns) else (0.0, 0.0)
        p50_ms, p99_ms = track.recent.quantiles(now_ns)
        return views.Service(
            **asdict(told),
            rate_s=rate_s,
            failed_rate_s=failed_rate_s,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            p50_now_ms=track.now_ms[0],
            p99_now_ms=track.now_ms[1],
        )

    def _brokers(self, now_ns: int) -> tuple[views.Broker, ...]:
        supervisor, told, steward = self.supervisor, self.dispatcher, self.steward
        alive = self.fresh(snapshots.Dispatcher, now_ns)
        here = views.Broker(
            identity=supervisor.identity,
            family=steward.family or supervisor.family,
            state=self.state(now_ns),
            alive=alive,
            here=True,
            free=told.free,
            busy=told.busy,
            backlog=told.backlog,
            services=told.services_total,
            version=steward.version,
            digest=steward.digest,
            **self._exchanges.with_all(alive)._asdict(),
        )
        # When our own steward is gone, nobody here knows whether its peers are alive.
        knows = self.fresh(snapshots.Steward, now_ns)
        peers = sorted(steward.peers, key=lambda peer: (peer.family, peer.identity))
        with_peer = self._exchanges.with_peer
        return (here, *(_peer(peer, peer.alive and knows, with_peer(peer.identity, alive)) for peer in peers))


def _journal(supervisor: snapshots.Supervisor) -> views.Journal:
    if supervisor.journal is None:
        return views.Journal()
    states = {process.name: process.state for process in supervisor.processes}
    return views.Journal(True, states.get("scribe", "dead"), *astuple(supervisor.journal))


def _connected(told: snapshots.Presence, now_ms: int) -> views.ConnectedPrincipal:
    return views.ConnectedPrincipal(told.principal, told.port, told.connections, now_ms - told.connected_ms)


def _refusal(told: snapshots.Refusal, now_ms: int) -> views.Refusal:
    at_ms, who = now_ms - told.ago_ms, (told.principal, told.key, told.address)
    return views.Refusal(at_ms, told.port, *who, told.wanted, told.service, told.why, told.times)


def _running(told: snapshots.TaskProgress, now_ms: int) -> views.RunningTask:
    facts = asdict(told)
    instants = {f"{what}_ms": now_ms - facts.pop(f"{what}_ago_ms") for what in ("told", "assigned", "arrived")}
    return views.RunningTask(**facts, **instants)


def _worker(told: snapshots.Worker) -> views.Worker:
    facts = asdict(told)
    return views.Worker(busy=told.slots - facts.pop("free"), **facts)


def _peer(told: snapshots.Peer, alive: bool, traffic: Traffic) -> views.Broker:
    facts = asdict(told) | traffic._asdict()
    facts |= {"state": told.state if alive else "gone", "alive": alive}
    facts["silent_ms"] = told.silent_ms if told.silent_ms >= 0 else None
    return views.Broker(here=False, **facts)


def _heard(told: snapshots.Steward) -> set[str]:
    return {peer.identity for peer in told.peers if peer.alive}
