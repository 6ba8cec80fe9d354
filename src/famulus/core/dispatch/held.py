"""Decides when to try again to tell clients how their tasks ended. Knows no sockets and no clock.

A burst of outcomes can be more than the pipe to a client takes at once. What was refused for that waits here and is
tried again, soon at first and then less often; a client that takes nothing for a while does not read, and is given up.
Bounded in count and bytes over all clients.
"""

from __future__ import annotations

from collections import deque

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S

Frames = list[bytes]

MESSAGES_MAX = 100_000
BYTES_MAX = 24 * 1024 * 1024
#: What a message costs us besides its frames.
OVERHEAD_BYTES = 200
#: So many are tried at once: enough to keep a reading client busy, few enough to waste on one that does not read.
TRY_MAX = 2000
TRY_FIRST_NS = 5 * NS_PER_MS
TRY_LAST_NS = 200 * NS_PER_MS
GIVE_UP_NS = 2 * NS_PER_S


class _Line:
    """What waits for one client."""

    __slots__ = ("interval_ns", "messages", "refused", "taken_ns", "tried", "try_ns")

    def __init__(self, now_ns: int) -> None:
        self.messages: deque[Frames] = deque()
        self.interval_ns = TRY_FIRST_NS
        self.try_ns = now_ns + TRY_FIRST_NS
        #: When it last took something.
        self.taken_ns = now_ns
        #: Of the last try: how many were sent, and how many of them came back.
        self.tried = 0
        self.refused = 0


class Held:
    def __init__(self) -> None:
        self._lines: dict[bytes, _Line] = {}
        self._messages = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._messages

    def hold(self, now_ns: int, refused: list[Frames]) -> int:
        """Keep these for later; how many had to be dropped because there is no room."""
        dropped = 0
        for message in refused:
            if self._messages >= MESSAGES_MAX or self._bytes + _size(message) > BYTES_MAX:
                dropped += 1
                continue
            line = self._lines.get(message[0])
            if line is None:
                line = self._lines[message[0]] = _Line(now_ns)
            line.messages.append(message)
            line.refused += 1
            self._messages += 1
            self._bytes += _size(message)
        return dropped

    def due(self, now_ns: int) -> tuple[list[Frames], int]:
        """What to try now, and how many were given up."""
        trying: list[Frames] = []
        given_up = 0
        for client, line in list(self._lines.items()):
            if line.try_ns > now_ns:
                continue
            if line.refused < line.tried:
                line.taken_ns = now_ns
                line.interval_ns = TRY_FIRST_NS
            else:
                line.interval_ns = min(2 * line.interval_ns, TRY_LAST_NS)
            if not line.messages or now_ns - line.taken_ns > GIVE_UP_NS:
                given_up += len(line.messages)
                self._take(line, len(line.messages))
                del self._lines[client]
                continue
            batch = self._take(line, TRY_MAX)
            line.tried, line.refused = len(batch), 0
            line.try_ns = now_ns + line.interval_ns
            trying += batch
        return trying, given_up

    @property
    def next_due_ns(self) -> int:
        due_ns: int = NEVER_NS
        for line in self._lines.values():
            if line.try_ns < due_ns:
                due_ns = line.try_ns
        return due_ns

    def _take(self, line: _Line, count: int) -> list[Frames]:
        taken = [line.messages.popleft() for _ in range(min(count, len(line.messages)))]
        self._messages -= len(taken)
        self._bytes -= sum(_size(message) for message in taken)
        return taken


def _size(message: Frames) -> int:
    return OVERHEAD_BYTES + len(message[2]) + len(message[3])
