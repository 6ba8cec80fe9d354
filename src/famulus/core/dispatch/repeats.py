"""Remembers how tasks whose id the client chose ended, so that asking again with the same id runs nothing twice.

A client that lost its connection asks again with the same message_id. If its task is still open, both hear how it ends;
if it has ended, the answer is repeated. What provably did not run, or what may run again (an UNKNOWN of an
at-least-once service), is a new task. Bounded in count, bytes and age. Reads no clock.
"""

from __future__ import annotations

from collections import OrderedDict

from famulus.core.clock import NS_PER_S

KEEP_NS = 120 * NS_PER_S
#: A larger answer is not kept; whoever asks for it again is told that it is gone.
BODY_BYTES_MAX = 1 << 20
#: What an entry costs besides its body.
OVERHEAD_BYTES = 300


class Known:
    """A task whose id the client chose: open while `ended_ns` is 0."""

    __slots__ = ("body", "credit", "ended_ns", "is_streamed", "key", "tail", "waiters", "whole")

    def __init__(self, key: bytes, credit: int) -> None:
        self.key = key
        #: What it was asked for with, if its client wants a stream; and whether parts of that have gone out.
        self.credit = credit
        self.is_streamed = False
        self.ended_ns = 0
        #: How its header to the client ended, and its body.
        self.tail = b""
        self.body = b""
        #: False if the body was too large to be kept.
        self.whole = True
        #: Who else asked for it, by client and envelope, and should hear how it ends.
        self.waiters: list[tuple[bytes, bytes]] = []


class Repeats:
    def __init__(self, tasks_max: int, bytes_max: int) -> None:
        self._tasks_max = tasks_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._open: dict[bytes, Known] = {}
        #: In the order in which they ended.
        self._ended: OrderedDict[bytes, Known] = OrderedDict()

    def get(self, key: bytes, now_ns: int) -> Known | None:
        known = self._open.get(key)
        if known is not None:
            return known
        self._forget_old(now_ns)
        return self._ended.get(key)

    def begin(self, key: bytes, credit: int = 0) -> Known | None:
        """A new task with this id; None if there is no room to remember it."""
        former = self._ended.pop(key, None)
        if former is not None:
            self._bytes -= _size(former)
        if len(self._open) >= self._tasks_max:
            return None
        known = self._open[key] = Known(key, credit)
        return known

    def end(self, known: Known, tail: bytes, body: bytes, now_ns: int) -> None:
        """It has its outcome: keep it for a while."""
        del self._open[known.key]
        known.ended_ns = now_ns
        known.tail = tail
        known.whole = len(body) <= BODY_BYTES_MAX
        known.body = body if known.whole else b""
        known.waiters = []
        self._ended[known.key] = known
        self._bytes += _size(known)
        while len(self._ended) > self._tasks_max or self._bytes > self._bytes_max:
            self._forget_first()

    def drop(self, known: Known) -> None:
        """It did not run, or may run again: the same id will be a new task."""
        del self._open[known.key]

    def _forget_old(self, now_ns: int) -> None:
        while self._ended and next(iter(self._ended.values())).ended_ns + KEEP_NS <= now_ns:
            self._forget_first()

    def _forget_first(self) -> None:
        _, known = self._ended.popitem(last=False)
        self._bytes -= _size(known)


def _size(known: Known) -> int:
    return OVERHEAD_BYTES + len(known.key) + len(known.tail) + len(known.body)
