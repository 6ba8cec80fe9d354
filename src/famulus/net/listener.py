"""Where others connect to us: a ROUTER or a PUB that speaks ZMTP itself. No thread, no libzmq, and no trust.

Accepts connections, reads how the other side begins (see `famulus.wire.zmtp`), and hands those that speak ZMTP over to
`Connections`, which moves the messages. A peer is called by a name that we make: what it calls itself is ignored.

Its owner watches `fd`, and when that has news calls `recv` (or `take` and `attend`) until there is no `more`. About
once a second it calls `on_tick`. Some have to wait for their turn before they are let in: when `due_ns` has come it
calls `let_in`.
"""

from __future__ import annotations

import errno
import os
import resource
import secrets
import socket
from collections.abc import Generator
from contextlib import suppress
from heapq import heappop, heappush
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from famulus.core.access import FOREIGN, SILENT, TurnedAway, note_turned_away
from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.dispatch.strangers import CHANCE_BYTES, host_of, name_of_connection
from famulus.errors import SettingsError
from famulus.net.arrival import Arrival
from famulus.net.native import Connections
from famulus.net.opening import Opening, set_options
from famulus.wire import reasons, zmtp

if TYPE_CHECKING:
    from famulus.wire.curve import Seal

#: A thousand workers that come back at once need more than the usual hundred.
BACKLOG: Final = 4096
#: A newcomer that has not said who it is by then loses its descriptor.
OPEN_NS: Final = 2 * NS_PER_S
#: Newcomers that have not said it yet: when one more comes, the oldest is sent away.
OPENINGS_MAX: Final = 1000
#: Those who wait for their turn: whoever comes when there are this many is sent away. Of descriptors, they get a part.
WAITING_MAX: Final = 10_000
WAITING_SHARE: Final = 4
#: Descriptors that no stranger gets, an eighth within these bounds: libzmq ends the process if there is none for one of
#: our own processes. All of them may be started again at the same time, and each router takes three or four.
RESERVED_MIN: Final = 16
RESERVED_MAX: Final = 64
RESERVED_SHARE: Final = 8
#: Whoever comes when there are this many has to wait, as when descriptors run out.
CONNECTIONS_MAX: Final = 200_000
#: In one turn newcomers get so much time, or that of one step: between two turns those who are connected are served. A
#: step of one with keys takes 0.1 ms, as long as dozens of tasks: so there is one of them in a turn.
ATTEND_NS: Final = 40_000
#: We have no room for another one: some descriptor, or memory, has to be freed first.
_NO_PLACE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ListenerBounds(NamedTuple):
    """As `Connections` takes them."""

    #: All frames of a message; a peer that sends more is cut off.
    message_bytes_max: int
    #: What has come of incomplete messages, of all peers together; large ones wait for room.
    unfinished_bytes_max: int
    #: What one peer has not read; more is refused.
    unsent_bytes_max: int
    #: What all peers have not read; beyond that, the one with the most is cut off.
    unsent_all_bytes_max: int
    #: A peer that reads nothing for this long, though there is something to read, is cut off.
    patience_ns: int


class Authenticator(Protocol):
    """Lets those in who have a key that it knows."""

    def begin(self, kind: bytes, arrival: Arrival) -> Generator[zmtp.Step, bytes, Seal | None]:
        """How this one's connection begins. Sets who it is as soon as that is let in."""


class Newcomer(Opening):
    """One that is connected and has not said who it is yet."""

    def __init__(
        self,
        connected: socket.socket,
        kind: bytes,
        name: bytes,
        host: str,
        until_ns: int,
        authenticator: Authenticator | None,
    ) -> None:
        self.arrival = arrival = Arrival(host, _is_near(connected, host))
        if authenticator is None:
            steps: Generator[zmtp.Step, bytes, Seal | None] = zmtp.null_opening(kind)
        else:
            steps = authenticator.begin(kind, arrival)
        super().__init__(connected, steps)
        self.name = name
        self.until_ns = until_ns


class Listener:
    def __init__(
        self,
        kind: bytes,
        bounds: ListenerBounds,
        connections: type[Connections] = Connections,
        authenticator: Authenticator | None = None,
    ) -> None:
        """`kind`: ROUTER or PUB. `connections`: one of the twins. Without an `authenticator` anybody may come."""
        self._kind = kind
        self._authenticator = authenticator
        #: Peers that the authenticator has let in, each with its principal's name and its key. The owner takes them in
        #: before it looks at what `recv` has brought, which may be their first messages; and empties the list.
        self.come: list[tuple[bytes, str, bytes]] = []
        #: Those who were not let in, and how often. The owner empties it; it is bounded.
        self.turned_away: dict[TurnedAway, int] = {}
        self._connections = made = connections(*bounds)
        self.fd = made.fd
        #: Peers whose connection is over; what they sent was given out before. The owner empties it.
        self.gone = made.gone
        #: `send` tries all messages and returns which were refused: EAGAIN if the peer has to read first, EHOSTUNREACH
        #: if it is gone. `publish` sends one message to all who have read, more or less, what they were sent before.
        self.send, self.publish = made.send, made.publish
        #: Ends the connection of a peer; returns whether it had one.
        self.cut = made.cut
        #: Bytes that have not reached the machines of those who are to read them; tries to send them.
        self.leaving = made.leaving
        #: Whether `recv` is to be called again without news.
        self.more = True
        #: By descriptor. `_resting` names those that we do not accept from at the moment.
        self._listening: dict[int, socket.socket] = {}
        self._resting: list[int] = []
        #: Those who have not said who they are yet.
        self._openings: dict[int, Newcomer] = {}
        #: Those who wait for their turn: when that is, their descriptor, and what they have said so far.
        self._waiting: list[tuple[int, int, Newcomer]] = []
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._waiting_max = min(WAITING_MAX, descriptors // WAITING_SHARE)
        self._fd_end = descriptors - max(RESERVED_MIN, min(RESERVED_MAX, descriptors // RESERVED_SHARE))
        #: When the first of them may go on.
        self.due_ns = NEVER_NS
        self._accepted = 0
        self._turns = 0

    # -- where we are -------------------------------------------------------------------------------------------

    def bind(self, host: str, port: int, key: str) -> int:
        """Listen at a TCP port (0: any free one) and return the port; errors about the port name the setting `key`."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            self._listen(listening, ("" if host == "*" else host, port))
        except OSError as error:
            raise _complaint(error, host, port, key) from None
        return int(listening.getsockname()[1])

    def bind_path(self, path: str) -> None:
        """Listen at a place in the file system."""
        with suppress(FileNotFoundError):
            os.unlink(path)
        self._listen(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), path)

    def _listen(self, listening: socket.socket, where: tuple[str, int] | str) -> None:
        try:
            listening.bind(where)
            listening.listen(BACKLOG)
            listening.setblocking(False)
            self._connections.watch(listening.fileno())
        except BaseException:
            listening.close()
            raise
        self._listening[listening.fileno()] = listening

    # -- messages -----------------------------------------------------------------------------------------------

    def recv(self, limit: int) -> list[list[bytes]]:
        """Messages [peer, frame, ...]: at most about this many. Newcomers get on a little."""
        messages = self.take(limit)
        self.attend()
        return messages

    def take(self, limit: int) -> list[list[bytes]]:
        """As `recv`, without newcomers. Whoever calls it calls `attend` as well, once the messages are dealt with."""
        connections = self._connections
        messages = connections.recv(limit)
        self.more = connections.more
        return messages

    def __len__(self) -> int:
        """How many peers may send messages."""
        return len(self._connections)

    # -- who comes ----------------------------------------------------------------------------------------------

    def attend(self) -> None:
        """Newcomers get on, if there is news of some."""
        news = self._connections.news
        if not news:
            return
        # Each time another one is first, so that those who are accepted and those who are heard keep pace.
        self._turns += 1
        first = self._turns % len(news)
        fds = news[first:] + news[:first]
        news.clear()
        # Whoever comes in now may have sent something already; and whoever is left out is in the next news, too.
        self.more = True
        until_ns = monotonic_ns() + ATTEND_NS
        for fd in fds:
            opening = self._openings.get(fd)
            if opening is not None:
                self._hear(fd, opening)
            elif fd in self._listening:
                self._accept(fd, self._listening[fd], until_ns)
            if monotonic_ns() >= until_ns:
                return

    def _accept(self, fd: int, listening: socket.socket, until_ns: int) -> None:
        now_ns = 0
        while now_ns < until_ns:
            if len(self._connections) + len(self._openings) + len(self._waiting) >= CONNECTIONS_MAX:
                self._rest(fd)
                return
            try:
                # The next descriptor is always the lowest that is free.
                os.close(lowest := os.dup(fd))
                if lowest >= self._fd_end:
                    self._rest(fd)
                    return
                connected, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_PLACE:
                    self._rest(fd)
                    return
                continue  # it has gone already
            self._accepted += 1
            now_ns = monotonic_ns()
            name = name_of_connection(self._accepted, secrets.token_bytes(CHANCE_BYTES), _place(address))
            self._welcome(connected, name, _host(address), now_ns + OPEN_NS)

    def _rest(self, fd: int) -> None:
        """There is no room: look again at the next tick, and not over and over until then."""
        self._connections.forget(fd)
        self._resting.append(fd)

    def _welcome(self, connected: socket.socket, name: bytes, host: str, until_ns: int) -> None:
        if len(self._openings) >= OPENINGS_MAX:
            self._send_away(next(iter(self._openings)), SILENT)
        fd = connected.fileno()
        try:
            set_options(connected)
            opening = Newcomer(connected, self._kind, name, host, until_ns, self._authenticator)
            self._connections.watch(fd)
        except OSError:
            connected.close()
            return
        self._openings[fd] = opening
        self._hear(fd, opening)

    def _hear(self, fd: int, opening: Newcomer) -> None:
        try:
            opening.hear()
        except BlockingIOError:
            return
        except zmtp.NotYet:
            self._let_wait(fd, opening)
            return
        except zmtp.Unwelcome as error:
            self._send_away(fd, error.why, error.key)
            return
        except zmtp.Foreign:
            self._send_away(fd, FOREIGN)
            return
        except OSError:  # it has gone by itself
            self._send_away(fd)
            return
        del self._openings[fd]
        self._connections.forget(fd)
        try:
            self._connections.add(fd, opening.name, opening.seal)
        except OSError:  # the system has no room for it
            opening.socket.close()
        else:
            opening.socket.detach()
            if opening.arrival.principal:
                self.come.append((opening.name, opening.arrival.principal, opening.arrival.key))

    def _let_wait(self, fd: int, opening: Newcomer) -> None:
        if len(self._waiting) >= self._waiting_max:
            self._send_away(fd, reasons.OVERLOAD.encode())
            return
        del self._openings[fd]
        self._connections.forget(fd)
        heappush(self._waiting, (opening.arrival.turn_ns, fd, opening))
        self.due_ns = self._waiting[0][0]

    def let_in(self, now_ns: int) -> None:
        """Those whose turn has come go on."""
        until_ns = now_ns + ATTEND_NS
        while now_ns < until_ns and self._waiting and self._waiting[0][0] <= now_ns:
            _, fd, opening = heappop(self._waiting)
            opening.until_ns = now_ns + OPEN_NS
            self._openings[fd] = opening
            self._connections.watch(fd)
            self._hear(fd, opening)
            now_ns = monotonic_ns()
        self.due_ns = self._waiting[0][0] if self._waiting else NEVER_NS

    def _send_away(self, fd: int, why: bytes = b"", key: bytes = b"") -> None:
        """`why`: empty if it has done nothing wrong."""
        opening = self._openings.pop(fd)
        if why:
            note_turned_away(self.turned_away, TurnedAway(why, host_of(opening.name), key))
        self._connections.forget(fd)
        opening.socket.close()

    # -- time passes --------------------------------------------------------------------------------------------

    def on_tick(self, now_ns: int) -> None:
        """Whoever took too long to say who it is, or to read, is sent away."""
        # In the order in which they came: all are given the same time.
        while self._openings:
            fd = next(iter(self._openings))
            if self._openings[fd].until_ns > now_ns:
                break
            self._send_away(fd, SILENT)
        self._connections.tick(now_ns)
        resting, self._resting = self._resting, []
        for fd in resting:
            self._connections.watch(fd)

    @property
    def opening(self) -> bool:
        """Whether somebody is about to be let in, and may take itself for connected already."""
        return bool(self._openings)

    def lock_doors(self) -> None:
        """From now on nobody comes; those who are about to be let in still are."""
        for _, _, opening in self._waiting:
            opening.socket.close()
        self._waiting.clear()
        self.due_ns = NEVER_NS
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()
        self._resting.clear()

    def close_doors(self) -> None:
        """From now on nobody is let in; those who are connected stay."""
        self.lock_doors()
        for fd in list(self._openings):
            self._send_away(fd)

    def close(self) -> None:
        self.close_doors()
        self._connections.close()


def _place(address: Any) -> str:
    """Where somebody connects from, for people."""
    if not isinstance(address, tuple):
        return "this machine"
    host, port = _host(address), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_near(connected: socket.socket, host: str) -> bool:
    """Whether it comes from this machine: no other can have one of our addresses and be answered."""
    return host in ("", "::1") or host.startswith("127.") or host == _host(connected.getsockname())


def _host(address: Any) -> str:
    return str(address[0]).removeprefix("::ffff:") if isinstance(address, tuple) else ""


def _complaint(error: OSError, host: str, port: int, key: str) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(f"{key}: port {port} of {host} is in use")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SettingsError(f"{key}: port {port} may not be used without more rights")
    if isinstance(error, socket.gaierror) or error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL, errno.EINVAL):
        return SettingsError(f"host: {host!r} is not an address of this machine")
    return error
