"""Remembers how tasks whose id the client chose ended, so that asking again with the same id runs nothing twice.

A client that lost its connection asks again with the same message_id. If its task is still open, both hear how it ends;
if it has ended, the answer is repeated. What provably did not run, or what may run again (an UNKNOWN of an
at-least-once service), is a new task. Open tasks are all remembered. Of those that ended, each service has a memory of
its own, bounded in count, bytes and age, so that one service cannot make a broker forget another's; and all of them
together have a bound, beyond which the largest one forgets first. Reads no clock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from famulus.core.dispatch.service import Service

#: A larger answer is not kept; whoever asks for it again is told that it is gone.
BODY_BYTES_MAX: Final = 1 << 20
#: What an entry costs besides its body.
OVERHEAD_BYTES: Final = 300
#: When there is too much of everything, the largest memory forgets this part of it: looking for it has a price.
FORGOTTEN_PART: Final = 64


class Known:
    """A task whose id the client chose: open while `until_ns` is 0."""

    __slots__ = ("body", "credit", "is_streamed", "key", "tail", "until_ns", "waiters", "whole")

    def __init__(self, key: bytes, credit: int) -> None:
        self.key = key
        #: What it was asked for with, if its client wants a stream; and whether parts of that have gone out.
        self.credit = credit
        self.is_streamed = False
        self.until_ns = 0
        #: How its header to the client ended, and its body.
        self.tail = b""
        self.body = b""
        #: False if the body was too large to be kept.
        self.whole = True
        #: Who else asked for it, by client and envelope, and should hear how it ends.
        self.waiters: list[tuple[bytes, bytes]] = []


class Memory:
    """Of one service: what has ended, the oldest first."""

    __slots__ = ("bytes", "ended")

    def __init__(self) -> None:
        self.ended: deque[Known] = deque()
        self.bytes = 0


class Repeats:
    def __init__(self, tasks_max: int, bytes_max: int) -> None:
        """How much may be remembered of tasks that have ended, of all services."""
        self._tasks_max = tasks_max
        self._bytes_max = bytes_max
        self._tasks = 0
        self._bytes = 0
        self._known: dict[bytes, Known] = {}
        #: By the names of services; none of them is empty.
        self._memories: dict[bytes, Memory] = {}

    def get(self, key: bytes, now_ns: int) -> Known | None:
        known = self._known.get(key)
        return None if known is None or 0 < known.until_ns <= now_ns else known

    def begin(self, key: bytes, credit: int = 0) -> Known:
        """A new task with this id."""
        # What had it before has been forgotten, but may still be in a memory, until that looks.
        known = self._known[key] = Known(key, credit)
        return known

    def find_or_begin(self, new: Known, now_ns: int) -> Known:
        """What is known of the task with this id; if nothing is, it is new."""
        known = self._known.setdefault(new.key, new)
        if 0 < known.until_ns <= now_ns:
            known = self._known[new.key] = new
        return known

    def end(self, known: Known, service: Service, tail: bytes, body: bytes, now_ns: int) -> None:
        """It has its outcome: keep it for a while, as long and with as many others as its service says."""
        known.until_ns = now_ns + service.results_age_ns
        known.tail = tail
        known.whole = len(body) <= BODY_BYTES_MAX
        known.body = body if known.whole else b""
        if known.waiters:
            known.waiters = []
        memory = self._memories.get(service.name)
        if memory is None:
            memory = self._memories[service.name] = Memory()
        ended = memory.ended
        ended.append(known)
        size = _size(known)
        memory.bytes += size
        self._bytes += size
        self._tasks += 1
        while (
            len(ended) > service.results_max or memory.bytes > service.results_bytes_max or ended[0].until_ns <= now_ns
        ):
            self._forget_first(memory)
            if not ended:
                del self._memories[service.name]
                return
        if self._tasks > self._tasks_max or self._bytes > self._bytes_max:
            self._make_room()

    def drop(self, known: Known) -> None:
        """It did not run, or may run again: the same id will be a new task."""
        del self._known[known.key]

    def _make_room(self) -> None:
        while self._tasks > self._tasks_max or self._bytes > self._bytes_max:
            name, memory = max(self._memories.items(), key=_bytes_of)
            for _ in range(1 + len(memory.ended) // FORGOTTEN_PART):
                self._forget_first(memory)
            if not memory.ended:
                del self._memories[name]

    def _forget_first(self, memory: Memory) -> None:
        known = memory.ended.popleft()
        size = _size(known)
        memory.bytes -= size
        self._bytes -= size
        self._tasks -= 1
        # Its id may have been used again since its time was over.
        if self._known.get(known.key) is known:
            del self._known[known.key]


def _bytes_of(named: tuple[bytes, Memory]) -> int:
    return named[1].bytes


def _size(known: Known) -> int:
    return OVERHEAD_BYTES + len(known.key) + len(known.tail) + len(known.body)
