"""What a dispatcher and a steward tell the herald. Each looks only at its own state; nothing here changes anything,
except that a sample of tasks is told once."""

from __future__ import annotations

from functools import lru_cache
from heapq import nlargest
from itertools import islice
from typing import Any, cast

import msgspec

from famulus.core.access import Access, Refusal
from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.clock import time_ms
from famulus.core.config.edit import SignedEdit
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.outcomes import Ending
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.slot_count import SlotCount
from famulus.core.dispatch.task import Task
from famulus.core.steward.peer import Peer
from famulus.core.steward.steward import Steward
from famulus.errors import ProtocolError
from famulus.wire import status
from famulus.wire.inner import Work
from famulus.wire.limits import HEARTBEATS_UNTIL_LOST
from famulus.wire.reasons import code_of
from famulus.wire.stream import read_progress

NS_PER_US = 1000
#: Services whose durations are included in one snapshot.
LATENCIES_MAX = 200
#: A snapshot of a broker with very many workers takes a while: at most one part in this many of the dispatcher's time.
#: But whoever is not heard for three seconds is shown as gone.
SNAPSHOT_SHARE = 50
PAUSE_MIN_NS = NS_PER_S // 2
PAUSE_MAX_NS = 3 * NS_PER_S // 2
#: Free and busy slots, and waiting tasks, of a service that has come while others were counted.
NOT_COUNTED = (0, 0, 0)


def pause_ns(cost_ns: int) -> int:
    """How long to wait before the next snapshot, if one takes this much processor time."""
    return min(max(PAUSE_MIN_NS, SNAPSHOT_SHARE * cost_ns), PAUSE_MAX_NS)


class Snapshot:
    """Of a dispatcher, made bit by bit: with a thousand workers and services it takes as long as hundreds of tasks.

    What changes meanwhile is told as it was or as it is.
    """

    def __init__(self, core: Dispatcher, counted: SlotCount) -> None:
        """`counted`: to the end, since others are told it as well."""
        self._core = core
        self._counted = counted
        self._left: list[Service | Session] = [
            *islice(core.services.by_name.values(), status.SERVICES_MAX),
            *islice(core.sessions.by_peer.values(), status.WORKERS_MAX),
        ]
        self._left.reverse()
        self._services: list[status.Service] = []
        self._workers: list[status.Worker] = []

    def go_on(self, most: int) -> bool:
        """Describe so many more services or workers; True when those were all."""
        left, now_ns = self._left, self._core.now.ns
        for _ in range(min(most, len(left))):
            each = left.pop()
            if isinstance(each, Session):
                self._workers.append(_worker(each, now_ns))
            else:
                self._services.append(_service(each, self._counted.work))
        return not left

    def whole(self, pid: int) -> status.Dispatcher:
        core, counted, now_ns = self._core, self._counted, self._core.now.ns
        return status.Dispatcher(
            pid=pid,
            at_ns=now_ns,
            draining=core.closing.on,
            counters=core.counters.as_dict(),
            open_tasks=core.outcomes.open_tasks,
            open_bytes=core.outcomes.open_bytes,
            backlog=sum(waiting for _, _, waiting in counted.work.values()),
            free=counted.free,
            busy=counted.busy,
            routers=len(core.questions.routers),
            flows=len(core.flows),
            services=tuple(self._services),
            services_total=len(core.services.by_name),
            workers=tuple(self._workers),
            workers_total=len(core.sessions.by_peer),
            errors=tuple(status.ErrorWorker(*each) for each in core.error_workers()),
            exchanges=tuple(
                status.Exchange(identity.decode("utf-8", "replace"), exchange.given, exchange.taken)
                for identity, exchange in islice(core.delegates.exchanges.items(), status.PEERS_MAX)
            ),
            principals=_presences(core, now_ns),
            principals_total=len(core.accounts.presences),
            refusals=_refusals(core.facts.access, now_ns),
            running=_running(core, now_ns),
        )


def _service(service: Service, work: Work) -> status.Service:
    name = service.name.decode()
    return status.Service(
        name,
        service.declared,
        service.sessions,
        *work.get(name, NOT_COUNTED),
        service.backlog.body_bytes,
        service.ok,
        service.error,
        service.rejected,
        service.unknown,
    )


def _presences(core: Dispatcher, now_ns: int) -> tuple[status.Presence, ...]:
    listed = core.accounts.presences.items()
    return tuple(
        status.Presence(
            name.decode(), port.decode(), presence.connections, max(0, now_ns - presence.since_ns) // NS_PER_MS
        )
        for (name, port), presence in nlargest(status.PRINCIPALS_MAX, listed, key=lambda each: each[1].connections)
    )


def _running(core: Dispatcher, now_ns: int) -> tuple[status.TaskProgress, ...]:
    told = islice(core.progress.running(), status.RUNNING_MAX)
    described = [_running_task(task, body, max(0, now_ns - at_ns), now_ns) for task, body, at_ns in told]
    return tuple([each for each in described if each is not None])


def _running_task(task: Task, body: bytes, ago_ns: int, now_ns: int) -> status.TaskProgress | None:
    """None if it makes no sense, or if nobody has the task any more: it waits for another attempt."""
    if not task.assigned:
        return None
    try:
        progress = read_progress(body)
    except ProtocolError:
        return None
    return status.TaskProgress(
        _decode_text(task.message_id),
        task.service.name.decode(),
        task.worker.decode("utf-8", "replace"),
        task.delegate.decode("utf-8", "replace"),
        task.account.name.decode("utf-8", "replace"),
        progress.done,
        progress.note,
        task.attempt,
        not task.terms.at_least_once,
        task.terms.priority,
        task.request_bytes,
        ago_ns // NS_PER_MS,
        max(0, now_ns - cast("int", task.assigned)) // NS_PER_MS,
        max(0, now_ns - task.arrived_ns) // NS_PER_MS,
    )


def _refusals(access: Access, now_ns: int) -> tuple[status.Refusal, ...]:
    return tuple(
        _refusal(refusal, recent.times, max(0, now_ns - recent.at_ns) // NS_PER_MS)
        for refusal, recent in reversed(access.recent.items())
    )


def _refusal(refusal: Refusal, times: int, ago_ms: int) -> status.Refusal:
    port, wanted, why, principal, key, address, service = (field.decode("utf-8", "replace") for field in refusal)
    return status.Refusal(port, wanted, why, principal, key, address, service, times, ago_ms)


def _worker(session: Session, now_ns: int) -> status.Worker:
    if session.farewell is not None:
        state = "leaving"
    else:
        # It was greeted, and gets no tasks all the same: the config wants that.
        state = "ready" if session.ready else "drained" if session.greeted_ns else "connecting"
    return status.Worker(
        session.identity.decode("utf-8", "replace"),
        state,
        session.slots,
        session.free,
        max(0, now_ns - session.seen_ns) // NS_PER_MS,
        session.silence_ns // NS_PER_MS // HEARTBEATS_UNTIL_LOST,
        tuple(service.name.decode() for service in session.services[: status.NAMES_MAX]),
        len(session.services),
    )


class _Tail(msgspec.Struct):
    """How a client's header ends."""

    outcome: str = ""
    reason: str = ""


_decode_tail = msgspec.json.Decoder(_Tail).decode
_decode_text = msgspec.json.Decoder(str).decode


def of_tasks(core: Dispatcher, now_ns: int) -> status.TaskEnds | None:
    """Tasks that have ended since the last time; None if there are none."""
    ended = core.outcomes.take_sample(status.OK_TASKS_MAX, status.FAILED_TASKS_MAX)
    return status.TaskEnds(tuple(_task_end(each, now_ns) for each in ended)) if ended else None


def _task_end(ending: Ending, now_ns: int) -> status.TaskEnd:
    task, tail, ended_ns, response_bytes = ending
    told, flow, assigned = _read_tail(tail), task.flow, task.assigned
    left_ns = assigned if isinstance(assigned, int) and assigned else ended_ns
    return status.TaskEnd(
        _decode_text(task.message_id),
        task.service.name.decode(),
        told.outcome,
        code_of(told.reason)[: status.REASON_CHARS_MAX],
        task.worker.decode("utf-8", "replace"),
        task.delegate.decode("utf-8", "replace"),
        flow.came_from.decode("utf-8", "replace"),
        task.account.name.decode("utf-8", "replace"),
        task.attempt,
        not flow.at_least_once,
        flow.priority,
        max(0, now_ns - ended_ns) // NS_PER_US,
        max(0, ended_ns - task.arrived_ns) // NS_PER_US,
        max(0, left_ns - task.arrived_ns) // NS_PER_US,
        task.request_bytes,
        response_bytes,
    )


@lru_cache(maxsize=256)  # most tasks end like many others
def _read_tail(tail: bytes) -> _Tail:
    """It may hold what a worker said: whatever that is, we go on."""
    try:
        return _decode_tail(b"{" + tail[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Tail()


class Latencies:
    """The durations that a dispatcher counted: only those that changed since the last time."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._told: dict[bytes, int] = {}

    def news(self, core: Dispatcher, now_ns: int) -> status.Latency | None:
        services = core.services.by_name
        moved = [
            service
            for service in islice(services.values(), status.SERVICES_MAX)
            if service.ok + service.error != self._told.get(service.name, 0)
        ][:LATENCIES_MAX]
        if not moved:
            return None
        for service in moved:
            # Last in line from now on, so that many busy services take turns.
            self._told.pop(service.name, None)
            self._told[service.name] = service.ok + service.error
        while len(self._told) > 2 * status.SERVICES_MAX:
            del self._told[next(iter(self._told))]
        told = {each.name.decode(): status.Took(each.latency.sum_ns, each.latency.counts) for each in moved}
        return status.Latency(self._source, now_ns, told)


def of_steward(core: Steward, access: Access, now_ns: int) -> status.Steward:
    config = core.config
    mine = config.brokers.get(core.me.name)
    return status.Steward(
        identity=core.me.name,
        family=mine.family if mine is not None else "",
        state=core.state,
        version=core.edits.version,
        digest=core.edits.digest,
        peers=tuple(
            _peer(peer, config.broker_states.get(peer.identity, ""), now_ns)
            for peer in islice(core.peers.values(), status.PEERS_MAX)
        ),
        peers_total=len(core.peers),
        families={name: family.fallback_families for name, family in config.families.items()},
        refusals=_refusals(access, now_ns),
        keys=config.family(mine.family).keys if mine is not None else "none",
    )


def _peer(peer: Peer, wanted: str, now_ns: int) -> status.Peer:
    return status.Peer(
        peer.identity,
        peer.broker.family,
        peer.alive(now_ns),
        # What it said itself, as long as it is alive; otherwise what the config wants it to be.
        peer.state if peer.alive(now_ns) else wanted,
        (now_ns - peer.heard_ns) // NS_PER_MS if peer.heard_ns else -1,
        peer.version,
        peer.digest,
        peer.slots.free,
        peer.slots.busy,
        peer.backlog,
        len(peer.work),
        peer.dashboard,
    )


def of_config(core: Steward) -> status.Config:
    public = (signed for signed in core.edits if not signed.edit.key.startswith("admin/"))
    newest = nlargest(status.EDITS_MAX, public, key=lambda signed: (signed.edit.hlc, signed.id))
    return status.Config(
        version=core.edits.version,
        digest=core.edits.digest,
        view=msgspec.json.encode(core.config.public_view()),
        history=msgspec.json.encode([_edit(signed) for signed in newest]),
        conflicts=len(core.config.conflicts),
    )


def _edit(signed: SignedEdit) -> dict[str, Any]:
    """Without its author, who is an admin."""
    edit = signed.edit
    return {
        "id": signed.id,
        "key": edit.key,
        "op": edit.op,
        "value": edit.value,
        "broker": edit.broker,
        "parents": list(edit.parents),
        "at_ms": time_ms(edit.hlc),
    }
