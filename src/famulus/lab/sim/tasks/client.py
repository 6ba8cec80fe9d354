"""A client that knows several brokers: the real session and the real `Brokers`, in a shell like a client's connection.

It has one plug, to its current broker. A plug that it left, because that broker takes no more tasks, is kept while the
broker still owes it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from famulus.core.clock import NS_PER_MS
from famulus.core.session.brokers import Brokers, read_told
from famulus.core.session.client import ClientSession, Done, Streamed
from famulus.core.session.hedges import ENDED_MAX
from famulus.core.session.kept_bodies import SPARE_BYTES_MAX
from famulus.core.session.retry import Idempotent, Retry
from famulus.core.session.task_kind import TaskKind
from famulus.lab.sim.actor import BATCH_MAX, Actor
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import Plug
from famulus.lab.sim.tasks.holders import ANYBODY, Holder
from famulus.lab.sim.tasks.ledger import Ledger
from famulus.lab.sim.tasks.streams import StreamReader
from famulus.lab.sim.world import World
from famulus.wire import headers

#: Brokers that it left and that still owe it answers.
FORMER_MAX = 4
#: After how long second attempts leave, if at all.
HEDGES_NS = (0, 10 * NS_PER_MS, 20 * NS_PER_MS, 200 * NS_PER_MS)


class Client(Actor):
    def __init__(
        self,
        world: World,
        ledger: Ledger,
        name: str,
        addresses: Sequence[str],
        holder: Holder = ANYBODY,
        *,
        is_steady: bool = False,
    ) -> None:
        """`is_steady`: it leaves nothing to chance that depends on the order of answers that come at the same time."""
        super().__init__(world, name)
        self.holder = holder
        chance = (lambda: 0.5) if is_steady else self.random.random
        self.session = ClientSession(self.random.getrandbits(32), self._new_id, self.new_token(), chance)
        self._retry = self.random.choice([None, Retry(), Retry(attempts=3)])
        #: Until when it is stopped, if it is.
        self.stopped_until_ns = 0
        self._ledger = ledger
        #: Its tasks with an id, by service and id; ids are not secret.
        self.named: list[tuple[str, str]] = []
        self._last_id = ""
        #: Of its streams, by their tasks.
        self._readers: dict[bytes, StreamReader] = {}
        self.brokers = Brokers(world.clock.now_ns, addresses, self.random.random)
        self.plug = self.plug_to(self.brokers.address, "client")
        self._former: list[tuple[Plug, int, list[Done]]] = []
        self._tell_session()

    def key_for(self, address: str) -> bytes:
        return self.holder.key

    def _new_id(self) -> str:
        self._last_id = self.new_token()
        return self._last_id

    def submit(
        self,
        service: str,
        body: bytes,
        timeout_ms: int,
        priority: int,
        at_least_once: bool,
        message_id: str = "",
        key: str = "",
        delay_ms: int = 0,
        credit: int = 0,
        idempotent: bool = False,
    ) -> None:
        now_ns = self.clock.now_ns
        more = headers.write_more(key=key) if key else b""
        retry = self._retry
        if idempotent:
            slowest = self.random.random() < 0.2
            retry = Idempotent(retry, 0 if slowest else self.random.choice(HEDGES_NS), slowest, at_least_once)
        repeats = at_least_once or idempotent
        if repeats and not credit:
            demand(self.session.keep(len(body)), Invariant.BOUNDS, f"{self.name} cannot keep a body of {len(body)}")
        kind = TaskKind(service, timeout_ms, priority, repeats, retry, more, delay_ms, credit)
        self.session.submit(now_ns, body, kind, body, message_id)
        if at_least_once and not message_id:
            self.named.append((service, self._last_id))
        self.wake_at(now_ns)

    def cancel(self, body: bytes) -> None:
        """It does not want this task any more, whatever has become of it."""
        self._ended(self.session.cancel({body}))
        self.wake_at(self.clock.now_ns)

    def pause(self, for_ns: int) -> None:
        self.stopped_until_ns = self.clock.now_ns + for_ns
        self._ledger.disturb(self, stopped_ns=for_ns)
        super().pause(for_ns)

    def kill(self) -> None:
        self.alive = False
        for plug in (self.plug, *(plug for plug, _, _ in self._former)):
            plug.close()

    def run(self, now_ns: int) -> None:
        session, brokers = self.session, self.brokers
        self._follow_plug(now_ns)
        self._take_news(now_ns)
        for former in list(self._former):
            self._follow_former(former, now_ns)
        if brokers.asks(now_ns):
            self.plug.send([session.question()])
        self._move(now_ns)
        self._tell_session()
        self._hear(self.plug, now_ns)
        self._take_news(now_ns)
        self._ended(session.on_tick(now_ns))
        if self.plug.up:
            while taken := self.plug.send(batch := session.next_to_send(now_ns, BATCH_MAX)):
                self.world.events["second attempt"] += sum(b'"hedge":true' in message[1] for message in batch)
                session.on_sent(taken)
        self._read_streams()
        self._send_wishes()
        hedges_max = ENDED_MAX + 2 * len(session) + 1
        demand(len(session._hedges) <= hedges_max, Invariant.BOUNDS, f"{self.name} remembers too many ended tasks")
        self.wake_at(max(now_ns + 1, min(session.next_due_ns, brokers.next_due_ns)))

    def _read_streams(self) -> None:
        for streamed in self.session.take_fed():
            assert isinstance(streamed.token, bytes)
            reader = self._readers.get(streamed.token)
            if reader is None:
                reader = self._readers[streamed.token] = StreamReader(streamed, self.world.seed)
            self._read(reader)

    def _read(self, reader: StreamReader) -> None:
        streamed = reader.streamed
        assert isinstance(streamed.token, bytes)
        while streamed.parts and not reader.is_reading and streamed.taken < reader.stops_at and self.alive:
            reader.read()
            self.world.events["part of a stream"] += 1
            if streamed.is_low():
                self.session.want(streamed)
                self.wake_at(self.clock.now_ns + 1)
            if streamed.taken == reader.leaves_at:
                self._ledger.cancel(streamed.token, self.clock.now_ns)
                self.cancel(streamed.token)
                return
            if reader.pause_ns:
                reader.is_reading = True
                self.clock.after(reader.pause_ns, partial(self._go_on, reader))

    def _go_on(self, reader: StreamReader) -> None:
        if self.paused:
            self.clock.after(reader.pause_ns, partial(self._go_on, reader))
        else:
            reader.is_reading = False
            self._read(reader)

    def _send_wishes(self) -> None:
        plugs = {self.session.leg: self.plug} | {leg: plug for plug, leg, _ in self._former}
        for leg in [leg for leg in self.session.cancels if leg not in plugs or plugs[leg].up]:
            messages = self.session.take_cancels(leg)
            if leg in plugs:
                self.world.events["told to cancel"] += plugs[leg].send(messages)
        for leg in [leg for leg in self.session.wanting if leg not in plugs or plugs[leg].up]:
            wanting = self.session.wanting.pop(leg)
            if leg in plugs:
                plugs[leg].send([streamed.want() for streamed in wanting])

    def _follow_plug(self, now_ns: int) -> None:
        for up in self.plug.changes():
            if up:
                self.brokers.on_up(now_ns)
                self.session.on_up(now_ns)
            else:
                self._ledger.disturb(self)
                # What the connection brought before it was lost still counts.
                self._hear(self.plug, now_ns)
                self._lose(now_ns, self.session.leg)
                self.brokers.on_down(now_ns)

    def _hear(self, plug: Plug, now_ns: int, leg: int = 0) -> int:
        """How many messages have come."""
        came = plug.recv()
        self._ended(self.session.on_messages(came, now_ns, leg))
        return len(came)

    def _lose(self, now_ns: int, leg: int) -> None:
        unsent = self.session.unsent
        self._ended(self.session.on_lost(now_ns, leg))
        self.world.events["sent again by its client"] += max(0, self.session.unsent - unsent)

    def _take_news(self, now_ns: int) -> None:
        """The broker told it about others, or takes no more tasks."""
        session, brokers = self.session, self.brokers
        if session.told:
            brokers.on_told(read_told(session.told, self.plug.address))
            session.told = b""
        if session.left:
            session.left = 0
            self.plug.hang_up()
            self._follow_plug(now_ns)
        if session.refused:
            self.world.events["refused by a broker that is not active"] += len(session.refused)
            brokers.on_refused(now_ns)
            self._ended(session.send_again(now_ns) if self._move(now_ns) else session.pass_on(now_ns))
            self.wake_at(now_ns + 1)

    def _tell_session(self) -> None:
        self.session.on_brokers(len(self.brokers.known) > 1, self.brokers.tried)

    def _move(self, now_ns: int) -> bool:
        """Go to the next broker, if it is time and there is one."""
        address = self.brokers.next(now_ns)
        if not address:
            return False
        leg, owed = self.session.next_leg()
        if owed:
            self._former.append((self.plug, leg, owed))
        else:
            self.plug.close()
        self.plug = self.plug_to(address, "client")
        self.brokers.on_moved(now_ns, address)
        self.world.events["failover of a client"] += 1
        return True

    def _follow_former(self, former: tuple[Plug, int, list[Done]], now_ns: int) -> None:
        plug, leg, owed = former
        is_lost = False in plug.changes() or len(self._former) > FORMER_MAX
        self.world.events["answered by a broker that its client had left"] += self._hear(plug, now_ns, leg)
        is_lost = is_lost or self.session.left > 0
        self.session.left = 0
        self._ended(self.session.send_again(now_ns))
        if is_lost:
            self._lose(now_ns, leg)
        if is_lost or not any(self.session.is_open(done, leg) for done in owed):
            self._former.remove(former)
            plug.close()

    @property
    def left(self) -> int:
        """What its session has not got rid of, when no task is open."""
        bodies = self.session._bodies
        return (
            len(self.session._hedges) + self.session.unsent + bodies.kept_bytes + SPARE_BYTES_MAX - bodies.spare_bytes
        )

    def _ended(self, done: list[Done]) -> None:
        shown = self.plug.keys.union(*[plug.keys for plug, _, _ in self._former]) if done else set()
        for each in done:
            assert isinstance(each.token, bytes)
            self._ledger.ended(each.token, self.clock.now_ns, each.outcome, each.reason, shown)
            if isinstance(each, Streamed):
                reader = self._readers.pop(each.token, None) or StreamReader(each, self.world.seed)
                reader.check_end(is_cancelled=self._ledger.entries[each.token].cancelled_ns > 0)
                self.world.events["stream with parts"] += each.outcome == "OK" and each.came > 0
                continue
            its_own = each.outcome != "OK" or each.body == each.token
            demand(its_own, Invariant.MEMORY, f"the answer to {each.token!r} is another one's")
