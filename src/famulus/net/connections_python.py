"""Messages from and to many peers, in plain Python: the twin of `_connections.c`, for machines without a C compiler.

    Connections(message_bytes_max, unfinished_bytes_max, unsent_bytes_max, unsent_all_bytes_max, patience_ns)
        Bounds: of one message; of all incomplete ones; of what one peer has not taken yet, and of what all have not;
        of the time in which a peer takes nothing.

    add(fd, peer, seal)
        Take over a connected descriptor on which the opening of ZMTP is over. `peer` is what we call it. With a seal
        (see `famulus.wire.curve`) nothing is sent or heard without it; a peer that sends parcels is sent some then.

    watch(fd), forget(fd), news
        Other descriptors to wait for as well; they are listed in `news` when they have some. The caller empties it.

    recv(limit) -> list of messages, each [peer, frame, ...]
        About as many as the limit says. Parcels are opened, PINGs are answered. Each peer with something to read is
        read once, in turn. A large frame for which there is no room waits in the socket; a peer that takes up room
        meanwhile and sends nothing is cut off by `tick`. With a limit of 0 nobody is read, so no PING is answered:
        instead, a peer that sends something gets a PONG, once between two ticks, or it would think that we are lost.

    more
        Whether there is something to read that `fd` will not report.

    send(messages) -> list of (index, errno)
        Tries every message [peer, frame, ...] and names those refused: EAGAIN if the peer has not taken enough of
        what it was sent before, EHOSTUNREACH if there is no such peer. Nothing of a refused message leaves. What
        goes to one peer in one call may be one write. If all together have too much left to take, the one with the
        most is cut off.

    publish(frames)
        Sends one message to all who have room for it.

    tick(now_ns)
        To be called once a second or so: ends the connections of peers that took nothing for too long.

    gone
        Peers whose connection is over; what they sent was given out before. The caller empties it.

    cut(peer) -> whether there was one
    leaving() -> bytes that have not reached the machines of their peers; tries to write them
    unsent, unfinished, len()
    close()

Nothing blocks, and nothing that a peer does raises an exception.
"""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from famulus.net.opening import unconfirmed_bytes
from famulus.net.stream_python import FRAMES_MAX, INBOX_BYTES, Stream, check_messages
from famulus.wire import zmtp
from famulus.wire.curve import Seal

#: Bytes that a peer that keeps others waiting must have sent since the last tick.
ENOUGH_BYTES: Final = 64 * 1024
#: How many peers `gone` may list, if nobody empties it.
TOLD_MAX: Final = 100_000
#: Bytes that wait: a peer that does not read its PONGs gets no more.
PONGS_BYTES_MAX: Final = 16 * 1024
_EVENTS: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_ENDS: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_HEAD_BYTES: Final = 9


class _PeerStream(Stream):
    def __init__(self, connected: socket.socket, peer: bytes, message_bytes_max: int, seal: Seal | None) -> None:
        super().__init__(connected, message_bytes_max, seal)
        # Not before it has sent a parcel itself.
        self._packs = False
        self.fd = connected.fileno()
        self.peer = peer
        self._before = [peer]
        #: `began`: a large frame has begun, and is read to its end whether there is room or not.
        self.ready = self.waits = self.unlooked = self.ends = self.began = False
        #: Its share of the totals; and how much is unsent now.
        self.unfinished = self.unsent_counted = self.unsent_bytes = 0
        self.written_then = self.received_then = self.looked_ns = self.taken_ns = 0
        self.said_ns = -1

    def close(self) -> None:
        self._socket.close()

    def turn(self, messages: list[list[bytes]], limit: int, room: int) -> bool:
        """Reads once and takes what is complete; a frame larger than `room` waits. Returns whether to come again."""
        self.waits = False
        more = self._take(messages, limit) if self.unlooked else False
        read = False
        if not more and not self._has_no_room(room) and not self.ended and len(messages) < limit:
            read = True
            got = self._read()
            self.ends = self.ends and got > 0
            more = self._take(messages, limit) if got else False
        self.waits = not more and self._has_no_room(room)
        self.unlooked = more or self.waits
        return more or not read or self._full or self.ends

    def _has_no_room(self, room: int) -> bool:
        """Whether a large frame is about to begin for which there is no room; one that has begun is read to its end."""
        wanted = self._wanted()
        return not self.ended and wanted > INBOX_BYTES and not self.began and wanted - _HEAD_BYTES > room

    def count_unfinished(self) -> int:
        wanted = self._wanted()
        self.began = wanted > INBOX_BYTES and not self.waits
        large = wanted if self.began else len(self._inbox)
        return large + sum(map(len, self._frames))

    def say_here(self) -> None:
        self._take_command(zmtp.PING)

    def _take_command(self, body: bytes) -> None:
        with suppress(zmtp.Foreign):
            if self.unsent_bytes <= PONGS_BYTES_MAX and (answer := zmtp.answer_to(body)):
                self.command(answer)

    def keep(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Write; what does not fit waits."""
        self._unsent += [piece for piece in self._pieces(messages) if piece]
        self.flush()

    def flush(self) -> bool:
        before = self.written
        done = super().flush()
        self.unsent_bytes = sum(map(len, self._unsent)) if self.written != before or self._unsent else 0
        return done


class Connections:
    def __init__(
        self,
        message_bytes_max: int,
        unfinished_bytes_max: int,
        unsent_bytes_max: int,
        unsent_all_bytes_max: int,
        patience_ns: int,
    ) -> None:
        if min(message_bytes_max, unfinished_bytes_max, unsent_bytes_max, unsent_all_bytes_max) < 1:
            raise ValueError("bounds are positive")
        self._message_bytes_max = message_bytes_max
        self._unfinished_bytes_max = unfinished_bytes_max
        self._unsent_bytes_max = unsent_bytes_max
        self._unsent_all_bytes_max = unsent_all_bytes_max
        self._patience_ns = patience_ns
        self._epoll = select.epoll()
        self.fd = self._epoll.fileno()
        self._by_peer: dict[bytes, _PeerStream] = {}
        self._by_fd: dict[int, _PeerStream] = {}
        self._ready: deque[_PeerStream] = deque()
        self._waiting: deque[_PeerStream] = deque()
        self.news: list[int] = []
        self.gone: list[bytes] = []
        self.unsent = self.unfinished = 0
        self._room_made = self._unpolled = False
        self._tick_ns = 0

    @property
    def more(self) -> bool:
        return bool(self._ready) or self._unpolled

    def __len__(self) -> int:
        return len(self._by_peer)

    # -- connections come and go --------------------------------------------------------------------------------

    def add(self, fd: int, peer: bytes, seal: Seal | None = None) -> None:
        if type(peer) is not bytes:
            raise TypeError("a peer's name is bytes")
        if peer in self._by_peer:
            raise ValueError("a peer needs a name of its own")
        self._epoll.register(fd, _EVENTS)
        connected = socket.socket(fileno=fd)
        connected.setblocking(False)
        self._by_peer[peer] = self._by_fd[fd] = _PeerStream(connected, peer, self._message_bytes_max, seal)

    def cut(self, peer: bytes) -> bool:
        connection = self._by_peer.get(peer)
        if connection is not None:
            self._end(connection)
        return connection is not None

    def watch(self, fd: int) -> None:
        self._epoll.register(fd, select.EPOLLIN)

    def forget(self, fd: int) -> None:
        self._epoll.unregister(fd)

    def _end(self, connection: _PeerStream) -> None:
        del self._by_peer[connection.peer], self._by_fd[connection.fd]
        for queue in (self._ready, self._waiting):
            with suppress(ValueError):
                queue.remove(connection)
        self.unsent -= connection.unsent_counted
        self.unfinished -= connection.unfinished
        self._room_made = True
        with suppress(OSError):
            self._epoll.unregister(connection.fd)
        connection.close()
        if len(self.gone) < TOLD_MAX:
            self.gone.append(connection.peer)

    def _count(self, connection: _PeerStream, unfinished: int) -> None:
        self.unsent += connection.unsent_bytes - connection.unsent_counted
        connection.unsent_counted = connection.unsent_bytes
        self._room_made = self._room_made or unfinished < connection.unfinished
        self.unfinished += unfinished - connection.unfinished
        connection.unfinished = unfinished

    # -- reading ------------------------------------------------------------------------------------------------

    def recv(self, limit: int) -> list[list[bytes]]:
        messages: list[list[bytes]] = []
        self._look(limit > 0)
        while len(messages) < limit:
            if not self._ready:
                if self._unpolled:
                    self._look(reads=True)
                if not self._ready:
                    break
            self._turn(self._ready.popleft(), messages, limit)
        if self._room_made:
            # One at a time: looking at all of them would be costly whenever anybody frees a bit of room.
            self._room_made = False
            if self._waiting:
                self._join(self._waiting.popleft())
        return messages

    def _look(self, reads: bool) -> None:
        """Whoever has news gets in line; if nobody is read now, it is told that we are here."""
        found = self._epoll.poll(0, 256)
        self._unpolled = len(found) == 256
        for fd, events in found:
            connection = self._by_fd.get(fd)
            if connection is None:
                self.news.append(fd)
                continue
            if events & select.EPOLLOUT and connection.unsent:
                connection.flush()
                self._count(connection, connection.unfinished)
            connection.ends = connection.ends or bool(events & _ENDS)
            if not reads and events & select.EPOLLIN and not events & _ENDS and connection.said_ns != self._tick_ns:
                connection.said_ns = self._tick_ns
                connection.say_here()
                self._count(connection, connection.unfinished)
            if events & ~select.EPOLLOUT and not connection.waits:
                self._join(connection)

    def _join(self, connection: _PeerStream) -> None:
        if not connection.ready:
            connection.ready = True
            self._ready.append(connection)

    def _turn(self, connection: _PeerStream, messages: list[list[bytes]], limit: int) -> None:
        connection.ready = False
        # Those who wait take up little; if they counted, there could be so many that nobody would ever have room.
        others = self.unfinished - sum(each.unfinished for each in self._waiting) - connection.unfinished
        waited = connection.waits
        # If it is the only one, it has room for anything.
        room = max(0, self._unfinished_bytes_max - others) if others else sys.maxsize
        again = connection.turn(messages, limit, room)
        self._count(connection, connection.count_unfinished())
        most = self._unfinished_bytes_max + self._unfinished_bytes_max // 4
        if self.unfinished > most and connection.unfinished != self.unfinished:
            connection.ended = connection.ended or "there is no room for what it sends"
        if connection.ended:
            self._end(connection)
        elif connection.waits:
            self._waiting.append(connection)
            return
        elif again:
            self._join(connection)
        if waited:
            self._room_made = True  # there may be room for the next as well

    # -- writing ------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Sequence[bytes]]) -> list[tuple[int, int]]:
        check_messages(messages, 1 + FRAMES_MAX)
        for number, frames in enumerate(messages):
            if len(frames) < 2:
                raise ValueError(f"message {number} has no frames behind its peer")
        refused: list[tuple[int, int]] = []
        chains: dict[bytes, list[int]] = {}
        for number, frames in enumerate(messages):
            connection = self._by_peer.get(frames[0])
            if connection is None or connection.cut_off:
                refused.append((number, errno.EHOSTUNREACH))
            else:
                chains.setdefault(frames[0], []).append(number)
        for peer, numbers in chains.items():
            connection = self._by_peer[peer]
            refused += self._send_chain(connection, messages, numbers)
            self._count(connection, connection.unfinished)
        self._make_way()
        return sorted(refused)

    def _send_chain(
        self, connection: _PeerStream, messages: Sequence[Sequence[bytes]], numbers: list[int]
    ) -> list[tuple[int, int]]:
        connection.flush()
        together: list[Sequence[bytes]] = []
        began = pending = 0
        for at, number in enumerate(numbers):
            frames = messages[number][1:]
            size = sum(_HEAD_BYTES + len(frame) for frame in frames)
            if together and not self._has_room(connection, pending, size):
                connection.keep(together)
                together, began, pending = [], at, 0
            if connection.cut_off:
                break
            if not self._has_room(connection, pending, size):
                return [(each, errno.EAGAIN) for each in numbers[at:]]
            together.append(frames)
            pending += size
        connection.keep(together)
        # Nothing that was written since `began` is known to have left, and nothing will.
        return [(each, errno.EHOSTUNREACH) for each in numbers[began:]] if connection.cut_off else []

    def _has_room(self, connection: _PeerStream, pending: int, size: int) -> bool:
        held = connection.unsent_bytes + pending
        return not held or held + size <= self._unsent_bytes_max

    def _make_way(self) -> None:
        """Together they have too much to take: the one with the most does not read, and must not harm the others."""
        while self.unsent > self._unsent_all_bytes_max:
            self._end(max(self._by_peer.values(), key=lambda each: each.unsent_bytes))

    def publish(self, frames: Sequence[bytes]) -> None:
        check_messages([frames], FRAMES_MAX)
        size = sum(_HEAD_BYTES + len(frame) for frame in frames)
        for connection in self._by_peer.values():
            connection.flush()
            if not connection.cut_off and self._has_room(connection, 0, size):
                connection.keep([frames])
            self._count(connection, connection.unfinished)
        self._make_way()

    # -- time passes --------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        short_of_room = bool(self._waiting) or self.unfinished > self._unfinished_bytes_max
        for each in list(self._by_peer.values()) if self.unsent or self.unfinished else ():
            looked = each.looked_ns != 0 and each.looked_ns == self._tick_ns  # also at the last tick
            if not looked or not each.unsent or each.written != each.written_then:
                each.taken_ns = now_ns
            holds = looked and each.unfinished > 0 and not each.waits and each.received_then > 0
            hogs = short_of_room and holds and each.received - each.received_then < ENOUGH_BYTES
            if hogs or now_ns - each.taken_ns > self._patience_ns:
                self._end(each)
            each.looked_ns = now_ns
            each.written_then = each.written
            each.received_then = each.received if each.unfinished else 0
        self._tick_ns = now_ns

    def leaving(self) -> int:
        left = 0
        for connection in self._by_peer.values():
            connection.flush()
            self._count(connection, connection.unfinished)
            if not connection.cut_off:
                left += connection.unsent_bytes + unconfirmed_bytes(connection.fd)
        return left

    def close(self) -> None:
        for connection in list(self._by_peer.values()):
            self._end(connection)
        if not self._epoll.closed:
            self._epoll.close()
