"""The worker process of the scale measurement: thousands of workers that echo, each with its own connection.

python -m famulus.lab.bench.crowd ADDRESS FIRST COUNT SERVICES SLOTS

One thread serves them all. Each has a DEALER with the options of a real worker and a real `WorkerSession`, but no
monitor: that would be two more sockets each, and a broker that does not know a worker tells it so anyway.
At SIGTERM it says in JSON what became of them, and ends.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from heapq import heappop, heappush
from time import monotonic_ns

import zmq

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.lab.bench import descriptors
from famulus.net.pump import recv_many, send_some
from famulus.net.sockets import Context, Socket, descriptor, new_context, outside_dealer
from famulus.net.waiting import Bell, Waiting

#: Long, so that what is measured is the tasks and not the beats of so many hearts.
HEARTBEAT_MS = 30_000
#: This many may be in the middle of their greetings; a session that waits too long for its turn would start anew.
GREETING_MAX = 256
CONNECT_WITHIN_S = 90
#: To cancel a timer libzmq looks through all those of the thread, and each of its heartbeats cancels one: with
#: thousands of sockets in one thread that costs more than the tasks.
IO_THREADS = 8
BATCH_MAX = 1000
#: Nobody is looked after more often than this, nor more seldom: there may be news that moved its next instant.
LOOK_AGAIN_NS = NS_PER_S // 20
LOOK_AT_LEAST_NS = 10 * NS_PER_S


def service_name(number: int) -> str:
    return f"echo-{number}"


def new_crowd_context(sockets: int) -> Context:
    context = new_context(IO_THREADS)
    # Before the first socket: libzmq reads it only then.
    context.set(zmq.MAX_SOCKETS, min(sockets + 16, int(context.get(zmq.SOCKET_LIMIT))))
    return context


def is_up(socket: Socket) -> bool:
    """Whether it has a finished connection; to be asked until it has, since it also takes in the news of it."""
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)


class Hand:
    """One worker of the crowd."""

    __slots__ = ("fd", "linked", "session", "socket")

    def __init__(self, number: int, service: str, slots: int) -> None:
        identity = f"crowd-{os.getpid()}-{number}"
        self.session = WorkerSession(identity, [service], slots, HEARTBEAT_MS, random.random)

    def link(self, context: Context, address: str) -> None:
        self.socket = outside_dealer(context, heartbeats=False)
        self.socket.connect(address)
        self.fd = descriptor(self.socket)
        self.linked = False

    def step(self, now_ns: int) -> None:
        """Answer whatever came, until there is nothing more."""
        session, socket = self.session, self.socket
        if not self.linked:
            if not is_up(socket):
                return
            self.linked = True
            session.on_link(now_ns)
        while True:
            batch = recv_many(socket, BATCH_MAX)
            if batch:
                for given in session.on_messages(now_ns, batch):
                    session.answer(given, "OK", "", given.body)
            sent = send_some(socket, session.outbox) if session.outbox else 0
            del session.outbox[:sent]
            if not sent and len(batch) < BATCH_MAX:
                return


class Crowd:
    def __init__(self, address: str, hands: list[Hand]) -> None:
        self._address = address
        self._hands = hands
        self._context = new_crowd_context(len(hands))
        self._waiting = Waiting()
        self._bell = Bell()
        self._waiting.watch(self._bell.fd)
        self._by_fd: dict[int, Hand] = {}
        #: When to look after whom, by number: one entry each. Who is looked after too early is simply put back.
        self._dues: list[tuple[int, int]] = []
        self._over = False
        self.relinks = 0

    @property
    def connected(self) -> int:
        return sum(hand.session.state is SessionState.READY for hand in self._hands)

    def connect(self, until_ns: int) -> None:
        """Until all of them are ready for tasks, or the time is up."""
        unlinked = list(range(len(self._hands)))[::-1]
        greeting: set[Hand] = set()
        while (unlinked or greeting) and not self._over and monotonic_ns() < until_ns:
            while unlinked and len(greeting) < GREETING_MAX:
                number = unlinked.pop()
                self._link(self._hands[number])
                greeting.add(self._hands[number])
                heappush(self._dues, (monotonic_ns() + NS_PER_S, number))
            self._step(until_ns)
            greeting = {hand for hand in greeting if hand.session.state is not SessionState.READY}

    def serve(self) -> None:
        """Until `end` is called."""
        while not self._over:
            self._step(NEVER_NS)

    def end(self) -> None:
        """May be called from a signal handler."""
        self._over = True
        self._bell.ring()

    def _step(self, until_ns: int) -> None:
        ready = self._waiting.wait(min(until_ns, self._dues[0][0]) if self._dues else until_ns)
        now_ns = monotonic_ns()
        for fd in ready:
            if isinstance(fd, int) and fd in self._by_fd:
                self._by_fd[fd].step(now_ns)
        while self._dues and self._dues[0][0] <= now_ns:
            number = heappop(self._dues)[1]
            heappush(self._dues, (self._look_after(self._hands[number], now_ns), number))

    def _look_after(self, hand: Hand, now_ns: int) -> int:
        """Pings, time-outs and new links; when to look again."""
        session = hand.session
        session.on_tick(now_ns)
        if session.relink_at_ns <= now_ns:
            session.relink_at_ns = NEVER_NS
            self._unlink(hand)
            self._link(hand)
            self.relinks += 1
        if session.outbox:
            hand.step(now_ns)
        return max(now_ns + LOOK_AGAIN_NS, min(session.next_due_ns, now_ns + LOOK_AT_LEAST_NS))

    def _link(self, hand: Hand) -> None:
        hand.link(self._context, self._address)
        self._by_fd[hand.fd] = hand
        self._waiting.watch(hand.fd)

    def _unlink(self, hand: Hand) -> None:
        self._waiting.forget(hand.fd)
        del self._by_fd[hand.fd]
        hand.socket.close(0)


def main(address: str, first: str, count: str, services: str, slots: str) -> None:
    descriptors.raise_limit()
    numbers = range(int(first), int(first) + int(count))
    crowd = Crowd(address, [Hand(number, service_name(number % int(services)), int(slots)) for number in numbers])
    signal.signal(signal.SIGTERM, lambda *_: crowd.end())
    crowd.connect(monotonic_ns() + CONNECT_WITHIN_S * NS_PER_S)
    print(f"{crowd.connected} workers are ready", flush=True)
    crowd.serve()
    print(json.dumps({"connected": crowd.connected, "relinks": crowd.relinks}), flush=True)
    # The system closes thousands of connections at once; libzmq would say goodbye to each of them.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
