"""Where others connect to us: a ROUTER or a PUB that speaks ZMTP itself. No thread, no libzmq, and no trust.

Accepts connections, reads how the other side begins (see `famulus.wire.zmtp`), and hands those that speak ZMTP over to
`Connections`, which moves the messages. A peer is called by a name that we make: what it calls itself is ignored.

Its owner watches `fd`, and when that has news calls `recv` until there is no `more`. About once a second it calls
`on_tick`.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from contextlib import suppress
from time import monotonic_ns
from typing import Any, Final, NamedTuple

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.strangers import CHANCE_BYTES, name_of_connection
from famulus.errors import SettingsError
from famulus.net.native import Connections
from famulus.net.opening import Opening, set_options
from famulus.wire import zmtp

#: A thousand workers that come back at once need more than the usual hundred.
BACKLOG: Final = 4096
#: A newcomer that has not said who it is by then loses its descriptor.
OPEN_NS: Final = 2 * NS_PER_S
#: Newcomers that have not said it yet: when one more comes, the oldest is sent away.
OPENINGS_MAX: Final = 1000
#: Whoever comes when there are this many has to wait, as when descriptors run out.
CONNECTIONS_MAX: Final = 200_000
#: In one turn: between two turns those who are connected are served.
ACCEPTS_MAX: Final = 32
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


class Newcomer(Opening):
    """One that is connected and has not said who it is yet."""

    def __init__(self, connected: socket.socket, kind: bytes, name: bytes, until_ns: int) -> None:
        super().__init__(connected, kind)
        self.name = name
        self.until_ns = until_ns


class Listener:
    def __init__(self, kind: bytes, bounds: ListenerBounds, connections: type[Connections] = Connections) -> None:
        """`kind`: ROUTER or PUB. `connections`: one of the twins."""
        self._kind = kind
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
        self._accepted = 0

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
        """Messages [peer, frame, ...]: at most about this many."""
        connections = self._connections
        messages = connections.recv(limit)
        self.more = connections.more
        if connections.news:
            self._attend()
        return messages

    def __len__(self) -> int:
        """How many peers may send messages."""
        return len(self._connections)

    # -- who comes ----------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """There is news of somebody who is not a peer yet."""
        news = self._connections.news
        fds = list(news)
        news.clear()
        self.more = True  # whoever comes in now may have sent something already
        for fd in fds:
            opening = self._openings.get(fd)
            if opening is not None:
                self._hear(fd, opening)
            elif fd in self._listening:
                self._accept(fd, self._listening[fd])

    def _accept(self, fd: int, listening: socket.socket) -> None:
        until_ns = monotonic_ns() + OPEN_NS
        for _ in range(ACCEPTS_MAX):
            if len(self._connections) + len(self._openings) >= CONNECTIONS_MAX:
                self._rest(fd)
                return
            try:
                connected, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_PLACE:
                    self._rest(fd)
                    return
                continue  # it has gone already
            self._accepted += 1
            name = name_of_connection(self._accepted, secrets.token_bytes(CHANCE_BYTES), _place(address))
            self._welcome(connected, name, until_ns)

    def _rest(self, fd: int) -> None:
        """There is no room: look again at the next tick, and not over and over until then."""
        self._connections.forget(fd)
        self._resting.append(fd)

    def _welcome(self, connected: socket.socket, name: bytes, until_ns: int) -> None:
        if len(self._openings) >= OPENINGS_MAX:
            self._send_away(next(iter(self._openings)))
        fd = connected.fileno()
        try:
            set_options(connected)
            opening = Newcomer(connected, self._kind, name, until_ns)
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
        except (OSError, zmtp.Foreign):
            self._send_away(fd)
            return
        del self._openings[fd]
        self._connections.forget(fd)
        try:
            self._connections.add(fd, opening.name)
        except OSError:  # the system has no room for it
            opening.socket.close()
        else:
            opening.socket.detach()

    def _send_away(self, fd: int) -> None:
        opening = self._openings.pop(fd)
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
            self._send_away(fd)
        self._connections.tick(now_ns)
        resting, self._resting = self._resting, []
        for fd in resting:
            self._connections.watch(fd)

    def close_doors(self) -> None:
        """From now on nobody is let in; those who are connected stay."""
        for fd in list(self._openings):
            self._send_away(fd)
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()
        self._resting.clear()

    def close(self) -> None:
        self.close_doors()
        self._connections.close()


def _place(address: Any) -> str:
    """Where somebody connects from, for people."""
    if not isinstance(address, tuple):
        return "this machine"
    host, port = str(address[0]).removeprefix("::ffff:"), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _complaint(error: OSError, host: str, port: int, key: str) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(f"{key}: port {port} of {host} is in use")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SettingsError(f"{key}: port {port} may not be used without more rights")
    if isinstance(error, socket.gaierror) or error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL, errno.EINVAL):
        return SettingsError(f"host: {host!r} is not an address of this machine")
    return error
