"""A client's or worker's connection to its broker, which knows whether it is up. No thread, and no libzmq.

Speaks ZMTP itself (see `famulus.wire.zmtp`), so that a message is written by whoever sends it and read by whoever
wants it: libzmq would hand it to a thread of its own each time, which costs a lone task a quarter of its time.

A line connects by itself, and again when it is lost, with back-off. Its owner

- watches `fd`, and when it has news calls `recv`, which returns what one read brought;
- calls `follow` whenever the line is not `calm`, or `due_ns` has come, and is told of changes.

What a connection brought before it was lost, `recv` returns before `follow` reports the loss.
"""

from __future__ import annotations

import errno
import random
import select
import socket
from contextlib import suppress
from enum import Enum
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from famulus.core.backoff import Backoff
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.silence import SELDOM_NS, Silence
from famulus.net.addresses import split
from famulus.net.lookup import Lookup, Where, known
from famulus.net.native import Stream
from famulus.net.opening import Begin, Opening, set_options, unconfirmed_bytes
from famulus.wire import zmtp

if TYPE_CHECKING:
    from famulus.wire.curve import Seal

# Final, so that compiled code has it at hand instead of looking it up each time.
clock_ns: Final = monotonic_ns

#: The pause between two attempts to connect: doubling, from the first value to the second.
RECONNECT_NS: Final = (100 * NS_PER_MS, 2 * NS_PER_S)
#: A broker that was just up is back within seconds: for the first span after its loss, pauses are at most the second.
SOON_BACK_NS: Final = 5 * NS_PER_S
SOON_BACK_EVERY_NS: Final = 400 * NS_PER_MS
#: From the first packet until the other side is ready. An owner that knows other brokers does not wait that long.
OPEN_NS: Final = 10 * NS_PER_S
#: The same once it has said anything: it is there, and lets many in one after another. libzmq waits as long.
TURN_NS: Final = 30 * NS_PER_S
#: Instead of OPEN_NS if a name has other addresses to try; twice as long in each further round.
NEXT_NS: Final = 250 * NS_PER_MS
#: Brokers bound bodies, by a limit that we do not know; this bounds what a peer that is not a broker can ask for.
FRAME_BYTES_MAX: Final = 1024 * 1024 * 1024


class Change(Enum):
    UP = "up"
    DOWN = "down"


class Line:
    def __init__(self, address: str, *, asks: bool, begin: Begin = zmtp.null_opening) -> None:
        """`asks`: whether to check by PINGs that the other side is there, which finds one that does nothing.

        `begin`: how each of its connections begins; without keys, if nothing is said.
        """
        self.address = address
        self._begins = begin
        self._host, self._port = split(address)
        self._asks = asks
        #: How often. The owner may change it at any time; `hurry` makes that take effect at once.
        self.ask_every_ns = SELDOM_NS
        self.up = self.was_up = False
        #: It was lost because the other side did not answer, and may still be there.
        self.fell_silent = False
        #: How often in a row the other side took a connection and closed it: we have no key that it knows, or not yet.
        self.turned_away = 0
        #: Whether there is nothing for `follow` to do before `due_ns`.
        self.calm = False
        #: When `follow` is to be called at the latest.
        self.due_ns = NEVER_NS
        self._changes: list[Change] = []
        self._backoff = Backoff(RECONNECT_NS[0], RECONNECT_NS[1], random.random)
        self._soon_back_until_ns = 0
        #: Where to try next, if this place does not answer.
        self._places: list[Where] = []
        self._lookup: Lookup | None = None
        self._socket: socket.socket | None = None
        self._opening: Opening | None = None
        self._turn_until_ns = 0
        self._stream: Stream | None = None
        self._received = self._arrived = 0
        self._silence = Silence(0, 0)
        # One for all that the line waits for, so that its owner has one descriptor to watch, and always the same.
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._connect(clock_ns())

    # -- messages -----------------------------------------------------------------------------------------------

    def recv(self) -> list[list[bytes]]:
        """What one read brought; if there is more, `fd` still has news."""
        stream = self._stream
        if stream is None:
            return []
        messages = stream.recv()
        if stream.ended or stream.commands:
            self.calm = False
        return messages

    def send(self, messages: list[list[bytes]]) -> int:
        """How many were taken, from the first on. `fd` has news when there is room for the others."""
        stream = self._stream
        if stream is None:
            return 0
        taken = stream.send(messages)
        if taken < len(messages) or stream.unsent:
            self._want_room()
        return taken

    # -- the connection -----------------------------------------------------------------------------------------

    def follow(self, now_ns: int) -> list[Change]:
        """Go on with whatever is to be done; returns what happened to the connection since the last call, in order."""
        try:
            if self._stream is not None:
                self._attend(self._stream, now_ns)
            elif self._socket is not None:
                self._open(self._socket, now_ns)
            elif self._lookup is not None:
                self._take_places(self._lookup, now_ns)
            elif now_ns >= self.due_ns:
                self._connect(now_ns)
        except (OSError, zmtp.Foreign):
            self.turned_away = self.turned_away + 1 if self._opening is not None else 0
            self._lose(now_ns)
        changes, self._changes = self._changes, []
        return changes

    def hurry(self, now_ns: int) -> None:
        """Something is being waited for: the next check must not come later than `ask_every_ns` says."""
        if self.up and self._asks:
            self._silence.hurry(now_ns, self.ask_every_ns)
            self.due_ns = self._silence.due_ns

    def hang_up(self, now_ns: int) -> None:
        """The other side reads no more: connect anew. `follow` reports the loss."""
        if self.up:
            self._lose(now_ns)

    def close(self) -> None:
        self._let_go()
        self._places = []
        self.up = False
        self.due_ns = NEVER_NS
        self._epoll.close()

    def abandon(self) -> None:
        """In a child that was forked: close our copies. What they stand for is the parent's, and goes on there."""
        copy, self._socket = self._socket, None
        lookup, self._lookup = self._lookup, None
        # Not removed from the epoll first, which is the parent's too.
        if copy is not None:
            copy.close()
        if lookup is not None:
            lookup.abandon()
        self.close()

    # -- to be connected ----------------------------------------------------------------------------------------

    def _connect(self, now_ns: int) -> None:
        """To the next place that we know of; if there is none, find out where the host is."""
        self.calm = False
        if not self._places:
            self._places = known(self._host, self._port)
        if not self._places:
            self.due_ns = now_ns + OPEN_NS
            self._lookup = Lookup(self._host, self._port)
            self._epoll.register(self._lookup.fd, select.EPOLLIN)
            return
        family, where = self._places.pop(0)
        self.due_ns = now_ns + (min(NEXT_NS << self._backoff.tries, OPEN_NS) if self._places else OPEN_NS)
        try:
            self._socket = new = socket.socket(family, socket.SOCK_STREAM)
            set_options(new)
            code = new.connect_ex(where)
        except OSError:
            # No descriptor left, or a family that this machine does not have.
            self._lose(now_ns)
            return
        if code and code != errno.EINPROGRESS:
            self._lose(now_ns)
            return
        # Connected or refused, both are news.
        self._epoll.register(new.fileno(), select.EPOLLOUT)

    def _take_places(self, lookup: Lookup, now_ns: int) -> None:
        if lookup.found is None:
            self.due_ns = now_ns + OPEN_NS  # however long it takes: another thread would not be quicker
            return
        self._places = lookup.found
        self._let_go()
        if self._places:
            self._connect(now_ns)
        else:
            self._rest(now_ns)

    def _open(self, connected: socket.socket, now_ns: int) -> None:
        """From a connection that was asked for to one that both sides are ready for."""
        if self._opening is None and self._news():
            code = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, "not connected")
            self._opening = Opening(connected, self._begins(b"DEALER"))
            self._turn_until_ns = now_ns + TURN_NS
            self._epoll.modify(connected.fileno(), select.EPOLLIN)
        if self._opening is not None:
            with suppress(BlockingIOError):
                self._opening.hear()
                self._begin(connected, self._opening.seal)
        if self._opening is not None and self._opening.answered:
            self.due_ns = self._turn_until_ns
        # Last of all: if it was us who had no time, the answer is there.
        if not self.up and now_ns >= self.due_ns:
            self._lose(now_ns)

    def _begin(self, connected: socket.socket, seal: Seal | None) -> None:
        self._opening = None
        self._stream = Stream(connected, FRAME_BYTES_MAX, seal)
        self._received = self._arrived = 0
        self._places = []
        self._backoff.reset()
        self.up = self.was_up = True
        self.fell_silent = False
        self.turned_away = 0
        self._changes.append(Change.UP)
        self.calm = True
        self.due_ns = NEVER_NS
        if self._asks:
            self._silence = Silence(clock_ns(), self.ask_every_ns)
            self.due_ns = self._silence.due_ns

    # -- connected ----------------------------------------------------------------------------------------------

    def _attend(self, stream: Stream, now_ns: int) -> None:
        commands, stream.commands[:] = stream.commands[:], []
        for command in commands:
            if answer := zmtp.answer_to(command):
                stream.command(answer)
        if stream.ended:
            self._lose(now_ns)
            return
        if self._asks and now_ns >= self.due_ns:
            self._listen(stream, now_ns)
        if self._stream is not None:
            self.calm = stream.flush()
            self._epoll.modify(self._descriptor(), _events(self.calm))

    def _listen(self, stream: Stream, now_ns: int) -> None:
        """Check whether the other side has said anything since the last time; a PING gives it something to say."""
        unread = bool(self._news() & select.EPOLLIN)
        # On a slow connection a PING waits behind a body; while that arrives bit by bit, the other side is there.
        on_its_way = unconfirmed_bytes(self._descriptor())
        arrived = stream.written - on_its_way
        takes = on_its_way > 0 and arrived > self._arrived
        heard = unread or takes or stream.received != self._received
        self._received, self._arrived = stream.received, arrived
        is_lost = self._silence.is_lost(now_ns, heard, self.ask_every_ns)
        self.due_ns = self._silence.due_ns
        if is_lost:
            self.fell_silent = True
            self._lose(now_ns)
        elif not unread:
            # What a broker said last may still be on its way after it closed; a PING makes its machine drop what has
            # not left. While we are behind with reading, that may be a lot.
            stream.command(zmtp.PING)

    def _want_room(self) -> None:
        if self.calm:
            self.calm = False
            self._epoll.modify(self._descriptor(), _events(False))

    def _news(self) -> int:
        """The events of our socket, without waiting for any."""
        mine = self._descriptor()
        return sum(events for fd, events in self._epoll.poll(0) if fd == mine)

    def _descriptor(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    # -- lost ---------------------------------------------------------------------------------------------------

    def _lose(self, now_ns: int) -> None:
        was_up, self.up = self.up, False
        self._let_go()
        if was_up:
            self._soon_back_until_ns = now_ns + SOON_BACK_NS
            self._changes.append(Change.DOWN)
        if self._places:
            self._connect(now_ns)
        else:
            self._rest(now_ns)

    def _rest(self, now_ns: int) -> None:
        self.calm = True
        pause_ns = self._backoff.next_ns()
        if now_ns < self._soon_back_until_ns:
            pause_ns = min(pause_ns, SOON_BACK_EVERY_NS)
        self.due_ns = now_ns + pause_ns

    def _let_go(self) -> None:
        self._stream = self._opening = None
        if self._lookup is not None:
            self._unwatch(self._lookup.fd)
            self._lookup.close()
            self._lookup = None
        if self._socket is not None:
            self._unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _unwatch(self, fd: int) -> None:
        """Closing is not enough: a child that was forked meanwhile has a copy, which would keep reporting news."""
        with suppress(OSError):  # it was not watched yet
            self._epoll.unregister(fd)


def _events(calm: bool) -> int:
    return select.EPOLLIN if calm else select.EPOLLIN | select.EPOLLOUT
