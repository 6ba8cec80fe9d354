"""The dispatcher's loop: drain the sockets, let the core decide, send what it says. Decides nothing itself."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns, sleep, thread_time_ns, time_ns
from typing import TYPE_CHECKING, Final

from famulus.broker.delegate_links import DelegateLinks
from famulus.broker.inlet import Inlet
from famulus.broker.lifeline import Lifeline
from famulus.broker.settings import Settings
from famulus.core import telling
from famulus.core.access import BACKEND, FRONTEND
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.message_ids import MessageIds
from famulus.core.dispatch.slot_count import SlotCount
from famulus.core.hangs import ALIVE_NS, LINGER_NS
from famulus.errors import ProtocolError
from famulus.journal.records import BatchWriter
from famulus.net import sockets
from famulus.net.listener import Listener, ListenerBounds
from famulus.net.pump import recv_many, send_many, send_some
from famulus.net.waiting import Waiting
from famulus.wire import inner, limits, parcels, status
from famulus.wire.headers import LEAVING
from famulus.wire.inner import Work

if TYPE_CHECKING:
    from famulus.net.sealing import KeyAuthenticator

# Final, so that compiled code need not look it up each time.
clock_ns: Final = monotonic_ns

#: Large enough to spread the cost of a turn, small enough that clients, workers and we work at the same time instead of
#: each waiting for the others' whole batch: of 32 to 1000, this had the best throughput, and a tail a quarter shorter.
BATCH_MAX: Final = 128
#: How often a busy dispatcher checks what is due.
BUSY_TICK_NS: Final = 5 * NS_PER_MS
#: How often it looks where else there is news, while it has some to read: a look is a system call.
LOOK_AGAIN_NS: Final = NS_PER_MS // 10
#: While the last outcomes leave: how long we wait if nobody reads any of them.
LINGER_IDLE_NS: Final = 2 * NS_PER_S
LINGER_LOOK_S: Final = 0.002
#: How long those who are just being let in are waited for.
LET_IN_NS: Final = NS_PER_S // 4
#: Shorter than the silence after which we would be killed.
SCRIBE_LINGER_MS: Final = 1000
#: Of messages that are not complete yet, at each of the two ports.
UNFINISHED_BYTES_MAX: Final = 256 * 1024 * 1024
#: Outcomes that one client has not read, and all clients together.
CLIENT_BYTES_MAX: Final = 64 * 1024 * 1024
CLIENTS_BYTES_MAX: Final = 256 * 1024 * 1024
#: A peer that reads nothing for this long is cut off; a worker that is silent for as long as it may be is lost anyway.
PATIENCE_NS: Final = 5 * NS_PER_S
REPORT_NS: Final = 1 * NS_PER_S
#: So many workers or services are counted, described or written down for reports before the next tasks are served: each
#: of these takes about a tenth of a millisecond.
COUNTED_AT_ONCE: Final = 300
DESCRIBED_AT_ONCE: Final = 50
NOTED_AT_ONCE: Final = 100
#: Rows for the journal go to the scribe when this many tasks have ended, or this long after the last rows went. A crash
#: loses what was not sent; sending each row at once would cost more than everything else that is done for a task.
JOURNAL_ROWS: Final = 2000
JOURNAL_NS: Final = 50 * NS_PER_MS
#: What `next` returns of a round that is over.
OVER: Final = object()
#: How long at most a broker that has just started waits for workers that it may not know yet.
SETTLE_NS: Final = 5 * NS_PER_S
#: Later than planned by more than this: we were stopped or starved, and could not hear anybody.
PAUSE_NS: Final = 1 * NS_PER_S


class Dispatching:
    def __init__(self, settings: Settings, ipc: str, boot: str, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._ipc = ipc
        self._context = context = sockets.new_context()
        self._authenticator = _authenticator(settings)
        self._principals_told = b""
        self._keys_of_brokers: dict[bytes, bytes] = {}
        self._frontend = Listener(b"ROUTER", _bounds_of_clients(settings), authenticator=self._authenticator)
        self._backend = Listener(b"ROUTER", _bounds_of_workers(settings), authenticator=self._authenticator)
        self.frontend_port = self._frontend.bind(settings.host, settings.frontend_port, "frontend_port")
        self.backend_port = self._backend.bind(settings.host, settings.backend_port, "backend_port")
        self._waiting = waiting = Waiting(once=True, alone=True)
        self._clients = Inlet(self._frontend.fd, waiting)
        self._workers = Inlet(self._backend.fd, waiting)
        self._routers = Inlet(sockets.inside_router(context, f"ipc://{ipc}/task"), waiting)
        self._announcements = Inlet(sockets.inside_sub(context, f"ipc://{ipc}/announcements"), waiting)
        self._steward = Inlet(sockets.inside_router(context, f"ipc://{ipc}/steward"), waiting)
        self._load = sockets.inside_pub_bound(context, f"ipc://{ipc}/load")
        self._commands = Inlet(lifeline.fd, waiting)
        self._inlets = [self._clients, self._workers, self._routers]
        self._inlets += [self._announcements, self._steward, self._commands]
        self._herald = sockets.to_herald(context, ipc, settings.http)
        self._latencies = telling.Latencies(f"dispatcher-{os.getpid()}")
        self._snapshot_ns = 0
        declared = [name.encode() for name in settings.services]
        settled_at_ns = clock_ns() + _settles_ns(settings)
        chance = secrets.randbits(64)
        message_ids = MessageIds(chance)
        self._pen = BatchWriter("dispatcher", boot, message_ids.head)
        self._core = Dispatcher(
            settings.bounds,
            chance,
            declared,
            settled_at_ns,
            message_ids=message_ids,
            journal=self._pen if settings.journal else None,
            secret=secrets.token_hex(16),
        )
        self._core.managing.is_expected = bool(settings.folder)
        if self._authenticator is not None:
            self._core.accounts.guard()
        self._journal = sockets.to_scribe(context, ipc, settings.journal)
        self._delegates = DelegateLinks(context, waiting, self._authenticator.own if self._authenticator else None)
        self._routers_expected = settings.routers
        self._report_ns = self._count_ns = self._checkpoint_ns = self._tell_ns = 0
        self._told_tasks = self._told_routers = 0
        #: When the last word is said to clients at the latest, once all else is done.
        self._leave_by_ns = 0
        #: Clients that missed an outcome, since they did not read.
        self._missed: set[bytes] = set()
        #: While we tell others what there is to tell once a second.
        self._round: Iterator[None] | None = None
        self._stopped = False

    def run(self) -> None:
        core = self._core
        planned_ns = tick_ns = clock_ns()
        looked_ns = 0
        while not self._stopped:
            now_ns = clock_ns()
            looked_ns = looked_ns or now_ns
            if now_ns - planned_ns > PAUSE_NS:
                core.on_pause(now_ns - planned_ns)
                self._look_at_all()
            planned_ns = now_ns
            core.at(now_ns)
            self._read(now_ns)
            if now_ns >= tick_ns:
                core.on_tick()
                self._let_in(now_ns)
                tick_ns = now_ns + BUSY_TICK_NS
            core.flush(self)
            # Not before: a step of a newcomer with keys takes longer than all that is done for a task.
            self._attend()
            untold = core.counters.finished - self._told_tasks if self._journal is not None else 0
            if untold and (untold >= JOURNAL_ROWS or now_ns >= self._tell_ns):
                self._tell_scribe()
                self._tell_ns = now_ns + JOURNAL_NS
                untold = 0
            # After the flush: we only know whether we are done once we have tried to send everything.
            if now_ns >= self._report_ns:
                self._report(now_ns)
            if not self._something_to_read():
                # Only before sleeping do we ask the core when to wake; when busy, we look at the clock anyway.
                # In pairs: compiled code compares two numbers by itself, but calls Python for more.
                planned_ns = min(core.next_due_ns, self._report_ns)
                planned_ns = min(planned_ns, self._frontend.due_ns)
                planned_ns = tick_ns = min(planned_ns, self._backend.due_ns)
                if untold:
                    planned_ns = min(planned_ns, self._tell_ns)
            elif now_ns - looked_ns < LOOK_AGAIN_NS:
                continue
            # When busy without sleeping: whoever keeps one port busy does not keep us from the others.
            looked_ns = 0
            for inlet in self._waiting.wait(planned_ns):
                assert isinstance(inlet, Inlet)
                inlet.look = True
        core.facts.note_access(clock_ns())
        self._tell_scribe()
        self._lifeline.report(told=self._pen.told)
        if core.closing.on:
            self._see_off()
        for listener in (self._frontend, self._backend):
            listener.close()
        # The last rows are on their way to the scribe.
        self._context.destroy(linger=SCRIBE_LINGER_MS if core.closing.on else 0)

    def _see_off(self) -> None:
        """The last outcomes are still on their way to clients: they have time as long as somebody is reading."""
        now_ns = alive_ns = clock_ns()
        end_ns = now_ns + LINGER_NS
        until_ns = now_ns + LINGER_IDLE_NS
        least = NEVER_NS
        for listener in (self._frontend, self._backend):
            listener.close_doors()
        while now_ns < min(until_ns, end_ns):
            left = self._frontend.leaving() + self._backend.leaving()
            if not left:
                break
            if left < least:
                least = left
                until_ns = now_ns + LINGER_IDLE_NS
            if now_ns >= alive_ns:
                self._lifeline.report(alive=True)  # otherwise we would look as if we hung
                alive_ns = now_ns + ALIVE_NS
            sleep(LINGER_LOOK_S)
            now_ns = clock_ns()

    def _let_in(self, now_ns: int) -> None:
        """Those with keys whose turn has come."""
        for listener, inlet in ((self._frontend, self._clients), (self._backend, self._workers)):
            if now_ns >= listener.due_ns:
                listener.let_in(now_ns)
                inlet.look = True

    def _attend(self) -> None:
        self._backend.attend()
        self._workers.look = self._workers.look or self._backend.more
        self._frontend.attend()
        self._clients.look = self._clients.look or self._frontend.more

    def _look_at_all(self) -> None:
        for inlet in self._inlets:
            inlet.look = True
        self._delegates.look_at_all()

    def _something_to_read(self) -> bool:
        core = self._core
        return (
            self._routers.look
            or (self._workers.look and core.questions.has_room_for_workers)
            or (self._clients.look and core.questions.has_room_for_clients)
            or self._announcements.look
            or self._steward.look
            or self._commands.look
            or self._delegates.look
        )

    def _read(self, now_ns: int) -> None:
        core = self._core
        if self._routers.look:
            for message in _take(self._routers):
                self._on_router(message)
        # Even when we do not read from a port, we write to it.
        if self._workers.look:
            batch = self._backend.take(BATCH_MAX if core.questions.has_room_for_workers else 0)
            self._workers.look = self._backend.more
            if self._backend.come:
                # First of all: what they have sent may be in this batch, and somebody may have gone again.
                core.accounts.come(BACKEND, self._backend.come, now_ns)
                self._backend.come.clear()
            core.on_workers(batch)
            if self._backend.gone:
                # What they said before has been processed by now.
                core.sessions.gone(self._backend.gone)
                core.accounts.gone(BACKEND, self._backend.gone)
                self._backend.gone.clear()
        if self._clients.look:
            batch = self._frontend.take(BATCH_MAX if core.questions.has_room_for_clients else 0)
            self._clients.look = self._frontend.more
            if self._frontend.come:
                core.accounts.come(FRONTEND, self._frontend.come, now_ns)
                self._frontend.come.clear()
            core.on_clients(batch)
        if self._announcements.look:
            core.on_announcements(_take(self._announcements))
        if self._steward.look:
            for message in _take(self._steward):
                self._on_steward(message)
        if self._delegates.look:
            self._delegates.read(core)
        if self._commands.look:
            self._commands.look = False
            self._obey(now_ns)

    def _on_router(self, message: list[bytes]) -> None:
        try:
            router, frame = message
            self._core.on_router(router, inner.read_batch(frame))
        except (ValueError, ProtocolError):
            self._core.on_router_gone(message[0])

    def _on_steward(self, message: list[bytes]) -> None:
        if len(message) != 4:
            return
        if message[2] == inner.FORGIVE:
            self._core.forgive(message[3])
        elif message[2] == inner.IGNORE:
            self._core.sessions.ignore(inner.read_names(message[3]))
        elif message[2] == inner.DRAIN:
            self._core.sessions.drain(inner.read_names(message[3]))
        elif message[2] == inner.PRINCIPALS:
            self._on_principals(message[3])
        elif message[2] == inner.PEERS:
            self._core.on_peers(*inner.read_peers(message[3]))
            self._meet_delegates()
        else:
            self._core.managing.on_steward(message[0], message[1], message[2], message[3])

    def _on_principals(self, told: bytes) -> None:
        # They are told once a second, for a dispatcher that has just started; they seldom change.
        if self._authenticator is not None and told != self._principals_told:
            self._principals_told = told
            principals = inner.read_principals(told)
            self._authenticator.known, self._authenticator.plain_ok = principals.keys, principals.plain
            self._core.on_principals(principals)
            self._keys_of_brokers = {name.encode(): key for name, key in principals.brokers.items()}
            self._meet_delegates()

    def _meet_delegates(self) -> None:
        self._delegates.follow(self._core, self._keys_of_brokers)

    # -- messages leave -----------------------------------------------------------------------------------------

    def to_clients(self, messages: list[list[bytes]]) -> list[list[bytes]]:
        refused = self._frontend.send(messages)
        if not refused:
            return []  # as nearly always
        self._missed.update(messages[index][0] for index, error in refused if error == errno.EAGAIN)
        return [messages[index] for index, _ in refused]

    def to_workers(self, messages: list[list[bytes]]) -> list[list[bytes]]:
        return [messages[index] for index, _ in self._backend.send(messages)]

    def to_router(self, router: bytes, questions: list[list[bytes]]) -> bool:
        self._routers.look = True
        return not send_many(self._routers.source, [[router, inner.write_batch(questions)]])

    def to_delegate(self, identity: bytes, task: list[bytes]) -> bool:
        return self._delegates.send(identity, task)

    def to_steward(self, messages: list[list[bytes]]) -> bool:
        self._steward.look = True
        return not send_many(self._steward.source, messages)

    def _tell_scribe(self) -> None:
        """What it has no room for is lost; the next batch tells it how much that was."""
        self._told_tasks = self._core.counters.finished
        if self._journal is not None and self._pen.rows:
            send_some(self._journal, [[self._pen.write(time_ns() // 1000, clock_ns())]])

    def _obey(self, now_ns: int) -> None:
        commands = self._lifeline.commands()
        if commands is None:
            # The supervisor has gone without a word, so nobody else tidies up.
            shutil.rmtree(self._ipc, ignore_errors=True)
            self._stopped = True
            return
        for command in commands:
            if "drain_ms" in command:
                self._core.drain(command["drain_ms"] * NS_PER_MS)
                self._report_ns = self._count_ns = now_ns

    def _report(self, now_ns: int) -> None:
        """A sign of life; and once a second, all that others want to know, a step in each turn."""
        if now_ns < self._count_ns:
            self._lifeline.report(alive=True)
        else:
            self._round = self._round or self._report_all()
            if next(self._round, OVER) is not OVER:
                return  # and come back in the next turn
            self._round = None
            core = self._core
            if core.drained():
                self._take_leave(now_ns)
            # Neither a start, which waits for all routers, nor a drain should have to wait for the next second.
            waited_for = core.closing.on or len(core.questions.routers) < self._routers_expected
            self._count_ns = now_ns + (REPORT_NS // 50 if waited_for else REPORT_NS)
        self._report_ns = min(now_ns + ALIVE_NS, self._count_ns)

    def _report_all(self) -> Iterator[None]:
        """Between two steps tasks are served: with thousands of workers, all of it would keep them waiting for long."""
        counted = self._core.count()
        while not counted.go_on(COUNTED_AT_ONCE):
            yield
        self._report_counts(counted)
        if self._herald is not None and self._core.now.ns >= self._snapshot_ns:
            yield from self._tell_herald(self._herald, counted)
        self._tend_ports()
        if self._journal is not None and self._core.now.ns >= self._checkpoint_ns:
            self._checkpoint_ns = self._core.now.ns + REPORT_NS
            for number, _ in enumerate(self._core.checkpoint(counted.work), 1):
                if number % NOTED_AT_ONCE == 0:
                    yield
            self._tell_scribe()

    def _report_counts(self, counted: SlotCount) -> None:
        core = self._core
        self._lifeline.report(
            alive=True,
            counters=core.counters.as_dict(),
            open_tasks=core.outcomes.open_tasks,
            workers=len(core.sessions.by_peer),
            routers=len(core.questions.routers),
            told=self._pen.told,
        )
        work = counted.work
        if core.managing.steward:
            closing = core.closing.on
            told, slots = _taken(work) if closing else work, (0 if closing else counted.free, counted.busy)
            words = inner.write_work(told, slots, core.error_workers())
            if not self.to_steward([[core.managing.steward, b"", inner.WORK, words]]):
                core.managing.on_steward_gone()
        send_some(self._load, [inner.write_load(core.load(counted))])
        if self._told_routers != len(core.questions.routers):
            # Otherwise a broker that has just become ready would be shown without routers for a second.
            self._told_routers = len(core.questions.routers)
            self._snapshot_ns = core.now.ns

    def _tend_ports(self) -> None:
        core, now_ns = self._core, self._core.now.ns
        for port, listener in ((FRONTEND, self._frontend), (BACKEND, self._backend)):
            listener.on_tick(now_ns)
            core.facts.access.turn_away(port, listener.turned_away, now_ns)
        # Peers that read nothing for too long have just been cut off, without anything that would wake us.
        self._workers.look = self._workers.look or bool(self._backend.gone)
        core.on_clients_gone(self._frontend.gone)  # mostly, their tasks go on, and their outcomes are refused
        self._missed.difference_update(self._frontend.gone)
        self._frontend.gone.clear()

    def _take_leave(self, now_ns: int) -> None:
        """All tasks have their outcomes. Then we read no more: whatever else clients have sent will not run.

        A client that is just being let in may have sent something, too, and is to hear that as well.
        """
        if not self._leave_by_ns:
            self._leave_by_ns = now_ns + LET_IN_NS
            self._frontend.lock_doors()
        if self._frontend.opening and now_ns < self._leave_by_ns:
            return
        self._lifeline.report(drained=True)
        self._stopped = True
        for client in self._missed:
            self._frontend.cut(client)
        self._frontend.publish([b"", LEAVING, b""])

    def _tell_herald(self, herald: sockets.Socket, counted: SlotCount) -> Iterator[None]:
        """Whether it is there or not: what it does not take is lost."""
        core = self._core
        # Processor time: if others had the processor in the meantime, that is no reason to say less.
        began_ns, served_ns = thread_time_ns(), 0
        snapshot = telling.Snapshot(core, counted)
        while not snapshot.go_on(DESCRIBED_AT_ONCE):
            left_ns = thread_time_ns()
            yield
            served_ns += thread_time_ns() - left_ns
        now_ns = core.now.ns
        messages = [[status.write(snapshot.whole(os.getpid()))]]
        if (latency := self._latencies.news(core, now_ns)) is not None:
            messages.append([status.write(latency)])
        if (ends := telling.of_tasks(core, now_ns)) is not None:
            messages.append([status.write(ends)])
        send_some(herald, messages)
        self._snapshot_ns = now_ns + telling.pause_ns(thread_time_ns() - began_ns - served_ns)


def _authenticator(settings: Settings) -> KeyAuthenticator | None:
    """For a broker of a network; any other has no keys, and nobody who could tell it whose are valid."""
    if not settings.folder:
        return None
    # Not before it is needed: loading libsodium takes a while.
    from famulus.broker.folder import Folder
    from famulus.broker.keys import BrokerKey
    from famulus.net.sealing import KeyAuthenticator

    own = BrokerKey.load(Folder(Path(settings.folder)).key).curve_key()
    return KeyAuthenticator(own, plain_from_afar=settings.plain_on_purpose)


def _message_bytes_max(settings: Settings) -> int:
    """Room above the limits, so that exceeding them gets a proper answer."""
    return 2 * max(settings.bounds.body_bytes_max, limits.HEADER_BYTES_MAX, parcels.BYTES_MAX)


def _bounds_of_clients(settings: Settings) -> ListenerBounds:
    return ListenerBounds(
        _message_bytes_max(settings), UNFINISHED_BYTES_MAX, CLIENT_BYTES_MAX, CLIENTS_BYTES_MAX, PATIENCE_NS
    )


def _bounds_of_workers(settings: Settings) -> ListenerBounds:
    """All tasks of a worker must fit, or it would be taken for lost; the bound on open bytes limits their bodies."""
    bytes_max = settings.bounds.open_bytes_max + CLIENT_BYTES_MAX
    patience_ns = max(PATIENCE_NS, limits.HEARTBEATS_UNTIL_LOST * settings.heartbeat_ms * NS_PER_MS)
    return ListenerBounds(_message_bytes_max(settings), UNFINISHED_BYTES_MAX, bytes_max, bytes_max, patience_ns)


def _take(inlet: Inlet) -> list[list[bytes]]:
    batch = recv_many(inlet.source, BATCH_MAX)
    inlet.look = len(batch) == BATCH_MAX
    return batch


def _settles_ns(settings: Settings) -> int:
    """How long tasks may wait for services that nobody has offered yet.

    Somebody may have stopped a broker and started it again: its workers come back within a few heartbeats. A broker of
    a network moreover has to hear first what its peers offer.
    """
    return SETTLE_NS if settings.folder else min(3 * settings.heartbeat_ms * NS_PER_MS, SETTLE_NS)


def _taken(work: Work) -> Work:
    """While a broker drains, none of its slots are free for its peers' tasks."""
    return {name: (0, busy, backlog) for name, (_, busy, backlog) in work.items()}
