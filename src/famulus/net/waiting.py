"""Waits for sockets, file descriptors and the clock at once; another thread can end the wait. Knows no protocol."""

from __future__ import annotations

import os
from contextlib import suppress
from time import monotonic_ns

import zmq

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.net.sockets import Socket

#: A wait never lasts longer than this, so that a clock that jumped or a lost wake-up is mended by itself.
LONGEST_MS = 10_000


class Waiting:
    def __init__(self) -> None:
        self._poller = zmq.Poller()

    def watch(self, source: Socket | int) -> None:
        self._poller.register(source, zmq.POLLIN)

    def watch_writing(self, source: Socket, writing: bool) -> None:
        """Also wake, or no longer, when the socket takes messages again."""
        self._poller.register(source, zmq.POLLIN | zmq.POLLOUT if writing else zmq.POLLIN)

    def forget(self, source: Socket | int) -> None:
        self._poller.unregister(source)

    def wait(self, until_ns: int) -> list[Socket | int]:
        """What is ready by `until_ns`; nothing if nothing is."""
        timeout_ms = LONGEST_MS
        if until_ns < NEVER_NS:
            # Rounded up: waking a little early would only mean to wait again.
            timeout_ms = min(max(0, -((monotonic_ns() - until_ns) // NS_PER_MS)), LONGEST_MS)
        return [source for source, _ in self._poller.poll(timeout_ms)]


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
        """The sleeper is awake. Whatever is asked of it from now on rings again; what was asked before, it must see."""
        if self._rung:
            with suppress(BlockingIOError):
                os.eventfd_read(self.fd)
            self._rung = False

    def close(self) -> None:
        os.close(self.fd)
