"""A worker that knows several brokers: the real session and the real `Homes`, in a shell like a worker's shift.

It does its tasks mostly well and quickly, now and then neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from famulus.core.batch_queue import BatchQueue, batches_at_once
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.homes import PROBE, Homes, proves_life
from famulus.core.session.open_stream import OpenStream
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.lab.sim.actor import Actor
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import Plug
from famulus.lab.sim.tasks.holders import ANYBODY, Holder
from famulus.lab.sim.tasks.ledger import Ledger
from famulus.lab.sim.tasks.streams import PART_NS, PARTS_MAX, part_of, parts_of
from famulus.lab.sim.world import World
from famulus.wire import headers, reasons, stream

#: Soon enough that the preferred broker is looked for within a run.
RETURN_AFTER_NS = (1 * NS_PER_S, 4 * NS_PER_S)
QUICK_NS = 30 * NS_PER_MS
#: Longer than most time-outs.
SLOW_NS = 3 * NS_PER_S
#: How long a task may wait in a worker before it begins; and go on after it was cancelled.
QUEUED_NS = 200 * NS_PER_MS
#: How long a batch that is not full waits for more.
BATCH_WAIT_NS = 20 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Trade:
    """What a worker can do, and where: what stays the same when it is started again."""

    #: The address of a backend.
    home: str
    services: list[str]
    slots: int
    heartbeat_ms: int
    #: Most tasks take no longer.
    quick_ns: int
    holder: Holder = ANYBODY
    #: Its functions get so many tasks together; 0: each by itself.
    batch: int = 0


class Worker(Actor):
    def __init__(
        self, world: World, ledger: Ledger, name: str, trade: Trade, on_gone: Callable[[Worker], None]
    ) -> None:
        super().__init__(world, name)
        self.trade = trade
        chance, token = self.random.random, self.new_token()
        self.homes = Homes([trade.home], chance, return_after_ns=RETURN_AFTER_NS)
        self.session = WorkerSession(
            name, trade.services, trade.slots, trade.heartbeat_ms, chance, self.homes, token=token
        )
        #: When it was last cut off or stopped: what it has at the broker may be lost because of that, for a while.
        self.disturbed_ns = self.clock.now_ns
        self._ledger = ledger
        self._on_gone = on_gone
        self._probe: Plug | None = None
        self._was_at = ""
        at_once = batches_at_once(trade.slots, trade.batch) if trade.batch else 0
        names = trade.services if trade.batch else []
        self._batches = {name: BatchQueue[Given](trade.batch, BATCH_WAIT_NS, at_once) for name in names}
        self.plug = self.plug_to(self.homes.next(), "worker")
        self.session.on_linking(self.clock.now_ns)

    def key_for(self, address: str) -> bytes:
        return self.trade.holder.key

    @property
    def ready(self) -> bool:
        return self.session.state is SessionState.READY

    def pause(self, for_ns: int) -> None:
        self.disturbed_ns = self.clock.now_ns + for_ns
        super().pause(for_ns)

    def kill(self) -> None:
        self.alive = False
        self.disturbed_ns = NEVER_NS
        self.plug.close()
        if self._probe is not None:
            self._probe.close()

    def run(self, now_ns: int) -> None:
        session = self.session
        for up in self.plug.changes():
            if up:
                session.on_link(now_ns)
            else:
                self.disturbed_ns = now_ns
                session.on_link_lost(now_ns)
        came = self.plug.recv()
        for given in session.on_messages(now_ns, came) if came else []:
            self._take(given)
        for given in session.cancelled:
            self._cancel(given)
        session.cancelled.clear()
        for begun in session.credited:
            self._schedule_part(begun)
        session.credited.clear()
        session.lost_streams.clear()
        self._start_batches(now_ns)
        session.on_tick(now_ns)
        self._look_home(now_ns)
        self._relink(now_ns)
        self._flush()
        if self.ready:
            self._settle()
        if session.state is SessionState.GONE and self.alive:
            self.kill()
            self._on_gone(self)
        else:
            batches_ns = min((queue.next_due_ns for queue in self._batches.values()), default=NEVER_NS)
            self.wake_at(max(min(session.next_due_ns, self.homes.next_due_ns, batches_ns), now_ns + 1))

    def _settle(self) -> None:
        if self._was_at and self._was_at != self.plug.address:
            self.world.events["worker at another broker"] += 1
        self._was_at = self.plug.address

    def _relink(self, now_ns: int) -> None:
        """The session gave the broker up. Where the network has noticed too, it connects again by itself."""
        session = self.session
        if session.relink_at_ns > now_ns or session.state is not SessionState.OFFLINE:
            return
        address = self.homes.next()
        if self.plug.up or address != self.plug.address:
            self.plug.close()
            self.plug = self.plug_to(address, "worker")
        session.on_linking(now_ns)

    def _look_home(self, now_ns: int) -> None:
        """Away from the preferred broker: look whether it is there, and go back to it."""
        homes, probe = self.homes, self._probe
        if probe is None:
            if homes.probe_at_ns > now_ns:
                return
            homes.on_probe(now_ns)
            probe = self._probe = self.plug_to(homes.preferred, "worker")
        if True in probe.changes():
            probe.send([PROBE])
        answers = probe.recv()
        if not answers and now_ns < homes.probe_by_ns < NEVER_NS:
            return
        probe.close()
        self._probe = None
        if any(map(proves_life, answers)) and self.session.move():
            self.world.events["worker on its way back"] += 1
            homes.on_probe_answered()
        else:
            homes.on_probe_failed(now_ns)

    def _flush(self) -> None:
        outbox = self.session.outbox
        if self.plug.up:
            del outbox[: self.plug.send(outbox)]

    # -- its tasks ----------------------------------------------------------------------------------------------

    def _take(self, given: Given) -> None:
        """It begins at once, or waits in the worker for a while."""
        queue = self._batches.get(given.parsed.service)
        if queue is not None and not given.parsed.credit:
            now_ns = self.clock.now_ns
            queue.add(now_ns, given, now_ns + (given.parsed.timeout_ms or 0) * NS_PER_MS)
        elif self.random.random() < 0.7:
            self._begin(given)
        else:
            self.clock.after(self.random.randrange(QUEUED_NS), partial(self._begin, given))

    def _cancel(self, given: Given) -> None:
        """Mostly it obeys: it takes the task back, or stops it; sometimes it goes on, like a thread."""
        chance = self.random.random()
        if chance < 0.2:
            return
        given.is_cancelled = True
        queue = self._batches.get(given.parsed.service)
        if queue is not None and queue.remove(lambda each: each is given):
            self._give_up(given, "REJECTED")
        elif given.has_begun:
            self.clock.after(self.random.randrange(QUEUED_NS), partial(self._give_up, given, "UNKNOWN"))
        else:
            self._give_up(given, "REJECTED")

    def _give_up(self, given: Given, outcome: str) -> None:
        if self.alive and self.paused:
            self.clock.after(50 * NS_PER_MS, partial(self._give_up, given, outcome))
        elif self.alive:
            self.session.answer(given, outcome, reasons.reason(reasons.CANCELLED, "by its worker"), b"")
            self.world.events[f"{outcome} by its worker"] += 1
            self._flush()

    def _begin(self, given: Given) -> None:
        if not self.alive or given.is_cancelled:
            return
        if self.paused:
            self.clock.after(50 * NS_PER_MS, partial(self._begin, given))
            return
        given.has_begun = True
        self._ledger.ran(given.body, self.clock.now_ns)
        if given.parsed.credit and self.random.random() < 0.85:
            begun = self.session.begin_stream(given)
            if begun is not None:
                self._schedule_part(begun)
                self.clock.after((given.parsed.timeout_ms or 0) * NS_PER_MS, partial(self._time_out, begun))
            return
        within_ns = self.trade.quick_ns if self.random.random() < 0.9 else SLOW_NS
        self.clock.after(self.random.randrange(within_ns), partial(self._finish, given))

    def _start_batches(self, now_ns: int) -> None:
        for queue in self._batches.values():
            while any(start := queue.start(now_ns)):
                for given in start.expired:
                    self.session.answer(given, "ERROR", reasons.reason(reasons.EXPIRED, "in its worker"), b"")
                if start.batch:
                    demand(len(start.batch) <= self.trade.batch, Invariant.BOUNDS, f"{self.name} starts a large batch")
                    self.world.events["tasks together"] += len(start.batch) > 1
                    for given in start.batch:
                        given.has_begun = True
                        self._ledger.ran(given.body, now_ns)
                    within_ns = self.trade.quick_ns if self.random.random() < 0.9 else SLOW_NS
                    self.clock.after(self.random.randrange(within_ns), partial(self._end_batch, queue, start.batch))

    def _end_batch(self, queue: BatchQueue[Given], batch: list[Given]) -> None:
        if self.paused:
            self.clock.after(50 * NS_PER_MS, partial(self._end_batch, queue, batch))
        elif self.alive:
            queue.ended()
            for given in batch:
                self._finish(given)
            self.wake_at(self.clock.now_ns + 1)

    def _schedule_part(self, begun: OpenStream) -> None:
        self.clock.after(self.random.randrange(PART_NS), partial(self._make_part, begun))

    def _make_part(self, begun: OpenStream) -> None:
        """The next one, if it is wanted; and the answer after the last."""
        given, session = begun.given, self.session
        if not self.alive or given.is_cancelled or session._streams.get(given.ticket) is not begun:
            return
        if self.paused:
            self.clock.after(50 * NS_PER_MS, partial(self._make_part, begun))
            return
        chance = self.random.random()
        if chance < 0.02 and begun.sent:
            # A worker with a bug: it miscounts.
            number = begun.sent + self.random.choice([0, 2])
            place = stream.write_place(given.ticket, number)
            session.outbox.append([place, headers.PART, part_of(given.body, number)])
        elif chance < 0.04:
            # And one that does not care how many are wanted.
            begun.last = max(begun.last, begun.sent + 1)
        elif chance < 0.1:
            session.send_progress(given, stream.write_progress(begun.sent / PARTS_MAX))
        if begun.sent >= parts_of(given.body):
            self._finish(given, b"")
        elif begun.sent < begun.last:
            session.send_parts(given, [part_of(given.body, begun.sent + 1)])
            self._schedule_part(begun)
        self._flush()

    def _time_out(self, begun: OpenStream) -> None:
        """Nobody has read on."""
        if self.alive and self.session._streams.get(begun.given.ticket) is begun:
            self.session.answer(begun.given, "ERROR", "TimeoutError: ", b"")
            self._flush()

    def _finish(self, given: Given, body: bytes | None = None) -> None:
        session = self.session
        if not self.alive or given.is_cancelled:
            return
        if self.paused:
            self.clock.after(50 * NS_PER_MS, partial(self._finish, given, body))
            return
        chance = self.random.random()
        if chance < 0.02 and given.ticket in session._tickets:
            # A worker with a bug: it answers with rubbish.
            del session._tickets[given.ticket]
            session.outbox.append([given.ticket, b"{rubbish", b""])
        else:
            outcome, reason = ("OK", "") if chance < 0.9 else ("ERROR", "ValueError: no")
            session.answer(given, outcome, reason, given.body if body is None else body)
            if chance < 0.05 and session.outbox:
                session.outbox.append(session.outbox[-1])  # and one that answers twice
        self._flush()
