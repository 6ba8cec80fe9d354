"""Waits for sockets, file descriptors and the clock at once; another thread can end the wait. Knows no protocol.

A zmq socket has a file descriptor that only says "look again", once: sending or receiving may swallow the news. So
whoever waits here must receive until there is nothing more, before each wait and after each send. In return
a wait is one system call; zmq's own poller makes several per socket.
"""

from __future__ import annotations

import os
import select
from time import monotonic_ns
from typing import Any, Final, Protocol

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.net.native import wait as wait_natively

#: A wait never lasts longer than this, so that we recover from a clock that jumped or a lost wake-up.
LONGEST_MS: Final = 10_000


class Pollable(Protocol):
    """Such as a socket, libzmq's or the system's."""

    def fileno(self) -> int: ...


class Waiting:
    def __init__(self, *, once: bool = False, alone: bool = False) -> None:
        """With `once`, news is reported once, and not again and again until somebody looks at it.

        `alone`: this process has no other thread that runs Python; if it had one, that would wait as well.
        """
        self._alone = alone
        self._wait = wait_natively
        self._events = select.EPOLLIN | select.EPOLLET if once else select.EPOLLIN
        self._epoll = select.epoll()
        self._descriptor = self._epoll.fileno()
        self._names: dict[int, Any] = {}

    def watch(self, source: Pollable | int, name: object = None) -> None:
        """`name` is what `wait` returns for it; the source itself, if there is none."""
        fd = _descriptor_of(source)
        self._names[fd] = source if name is None else name
        self._epoll.register(fd, self._events)

    def forget(self, source: Pollable | int) -> None:
        """To be called before the source is closed."""
        fd = _descriptor_of(source)
        del self._names[fd]
        self._epoll.unregister(fd)

    def wait(self, until_ns: int) -> list[Any]:
        """What has news by `until_ns`; nothing if nothing has."""
        if self._wait is not None:
            return self._wait(self._descriptor, until_ns, LONGEST_MS, self._names, self._alone)
        timeout_ms = float(LONGEST_MS)
        if until_ns < NEVER_NS:
            timeout_ms = min(max(0, until_ns - monotonic_ns()) / NS_PER_MS, LONGEST_MS)
        names = self._names
        return [names[fd] for fd, _ in self._epoll.poll(timeout_ms / 1000) if fd in names]

    def close(self) -> None:
        self._epoll.close()


def _descriptor_of(source: Pollable | int) -> int:
    return source if isinstance(source, int) else source.fileno()


class Bell:
    """Wakes a thread that waits. Ringing costs a system call only while the other side may be asleep."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rung = False

    def ring(self) -> None:
        if not self._rung:
            self._rung = True
            os.eventfd_write(self.fd, 1)

    def answer(self) -> None:
        """To be called by the waiting thread when `fd` has news, and before it looks at what it is asked to do.

        In this order: a ring between the two lines has no effect, but what was asked for is there to be seen. The other
        way round, that ring would be swallowed and the next one never made.
        """
        try:  # noqa: SIM105 - a context manager takes longer than all the rest, for every task that is alone
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass
        self._rung = False

    def close(self) -> None:
        """Closing twice is fine."""
        # In this order: somebody may fork in the middle of it, and close the copy there.
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
