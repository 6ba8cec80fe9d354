"""Waits for sockets, file descriptors and the clock at once; another thread can end the wait. Knows no protocol.

A zmq socket has a file descriptor that only says "look again", once: sending or receiving may swallow the news. So
whoever waits here must, before each wait and after each send, have received until there was nothing more. In return
a wait is one system call; zmq's own poller makes several per socket.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from time import monotonic_ns
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.net.sockets import Socket, descriptor

#: A wait never lasts longer than this, so that a clock that jumped or a lost wake-up is mended by itself.
LONGEST_S: Final = 10.0


class Waiting:
    def __init__(self, *, once: bool = False) -> None:
        """With `once` news is told once, and not again and again until it is looked at."""
        self._events = select.EPOLLIN | select.EPOLLET if once else select.EPOLLIN
        self._epoll = select.epoll()
        self._sources: dict[int, Socket | int] = {}

    def watch(self, source: Socket | int) -> None:
        fd = source if isinstance(source, int) else descriptor(source)
        self._sources[fd] = source
        self._epoll.register(fd, self._events)

    def forget(self, source: Socket | int) -> None:
        """To be called before the source is closed."""
        fd = next(fd for fd, watched in self._sources.items() if watched is source)
        del self._sources[fd]
        self._epoll.unregister(fd)

    def wait(self, until_ns: int) -> list[Socket | int]:
        """What has news by `until_ns`; nothing if nothing has."""
        timeout_s: float = LONGEST_S
        if until_ns < NEVER_NS:
            left_ns = until_ns - monotonic_ns() if until_ns > 0 else 0
            timeout_s = min(left_ns / NS_PER_S, LONGEST_S) if left_ns > 0 else 0.0
        sources = self._sources
        news: list[tuple[int, int]] = self._epoll.poll(timeout_s)
        return [sources[fd] for fd, _ in news if fd in sources]

    def close(self) -> None:
        self._epoll.close()


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
        """To be called by the sleeper when `fd` has news, and before it looks at what it is asked.

        In this order: who rings between the two lines rings in vain, but what he asked for is there to be seen. The
        other way round his ring would be swallowed and the next one never made.
        """
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)
        self._rung = False

    def close(self) -> None:
        os.close(self.fd)
