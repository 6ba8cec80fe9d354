"""A TCP connection of our own, before its first message: its options, and the opening of ZMTP. Nothing blocks.

See `famulus.wire.zmtp` for what both sides say then.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
from collections.abc import Generator

from famulus.wire import zmtp


class Opening:
    """What the other side has said about who it is. Until it has finished, it may not send messages."""

    def __init__(self, connected: socket.socket, kind: bytes) -> None:
        """`kind`: which kind of ZeroMQ socket we are. Says so to the other side."""
        self.socket = connected
        self._hearing: Generator[int, bytes, None] = zmtp.opening_of_other(kind)
        self._wanted = next(self._hearing)
        self._heard = b""
        # It fits: nothing was sent before.
        connected.send(zmtp.opening(kind), socket.MSG_NOSIGNAL)

    def hear(self) -> None:
        """Read until it is ready; BlockingIOError if not yet, `Foreign` or another OSError if it never will be."""
        while True:
            chunk = self.socket.recv(self._wanted - len(self._heard))
            if not chunk:
                raise OSError(errno.ECONNRESET, "closed by the other side")
            self._heard += chunk
            if len(self._heard) < self._wanted:
                continue
            heard, self._heard = self._heard, b""
            try:
                self._wanted = self._hearing.send(heard)
            except StopIteration:
                return


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
