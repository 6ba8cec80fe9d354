"""A TCP connection of our own, before its first message: its options, and the opening of ZMTP. Nothing blocks.

See `famulus.wire.zmtp` for what both sides say then.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from famulus.wire import zmtp

if TYPE_CHECKING:
    from famulus.wire.curve import Seal

#: How a connection begins, given which kind of ZeroMQ socket we are: see `zmtp.null_opening` and `net.sealing`.
Begin = Callable[[bytes], Generator[zmtp.Step, bytes, "Seal | None"]]


class Opening:
    """How a connection begins: what both sides say in turn. Until that is over, no message may be sent."""

    def __init__(self, connected: socket.socket, steps: Generator[zmtp.Step, bytes, Seal | None]) -> None:
        """`steps`: those of a mechanism, see `zmtp.null_opening`. Says the first of them to the other side."""
        self.socket = connected
        #: What the connection is sealed with, once it is open; None if it is not.
        self.seal: Seal | None = None
        self._steps = steps
        #: Whether the other side has said anything.
        self.answered = False
        self._heard = b""
        self._wanted = self._say(next(steps))

    def hear(self) -> None:
        """Read until it is open; BlockingIOError if not yet, `Foreign` or another OSError if it never will be.

        `NotYet` if the other side has to wait for its turn; the next call goes on with it.
        """
        while True:
            if self._wanted == zmtp.LATER:
                self._wanted = 0
                raise zmtp.NotYet
            if len(self._heard) < self._wanted:
                chunk = self.socket.recv(self._wanted - len(self._heard))
                if not chunk:
                    raise OSError(errno.ECONNRESET, "closed by the other side")
                self._heard += chunk
                self.answered = True
                continue
            heard, self._heard = self._heard, b""
            try:
                step = self._steps.send(heard)
            except StopIteration as over:
                self.seal = over.value
                return
            self._wanted = self._say(step)

    def _say(self, step: zmtp.Step) -> int:
        """Returns how much is wanted then."""
        said, wanted = step
        # It fits: an opening is short, and nothing else was sent before.
        if said and self.socket.send(said, socket.MSG_NOSIGNAL) < len(said):
            raise OSError(errno.ENOBUFS, "there is no room for the opening")
        return wanted


def set_options(connected: socket.socket) -> None:
    """Small writes leave at once, and a peer whose machine is gone is found sooner than by the system's two hours."""
    connected.setblocking(False)
    if connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def unconfirmed_bytes(fd: int) -> int:
    """Bytes that were written and that the other side's machine has not confirmed."""
    return int.from_bytes(fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
