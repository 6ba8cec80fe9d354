"""What functions say about their progress: the latest of each task is sent, and at most ten a second.

`tell` is for any thread, everything else for the one that does the I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.session.header_cache import Given
from famulus.core.session.worker import WorkerSession
from famulus.net.waiting import Bell

EVERY_NS: Final = 100 * NS_PER_MS


class ProgressReports:
    def __init__(self, bell: Bell, sessions: Sequence[WorkerSession]) -> None:
        self._bell = bell
        self._sessions = list(sessions)
        #: What is to be sent, by its task.
        self._told: dict[Given, bytes] = {}
        self._fresh: deque[Given] = deque()
        #: The tasks of which something was sent a moment ago, and until when nothing more is; the earliest first.
        self._resting: set[Given] = set()
        self._rests: deque[tuple[int, Given]] = deque()

    def tell(self, given: Given, body: bytes) -> None:
        is_fresh = given not in self._told
        # If it is sent between these two lines, it rests from then on, and is looked at after that.
        self._told[given] = body
        if is_fresh:
            self._fresh.append(given)
            self._bell.ring()

    @property
    def minds(self) -> bool:
        """Whether there is anything to look after."""
        return bool(self._fresh or self._rests)

    @property
    def next_due_ns(self) -> int:
        return self._rests[0][0] if self._rests else NEVER_NS

    def send(self, now_ns: int) -> None:
        """Whatever may be sent by now. What is said of a task that has ended is dropped."""
        rests = self._rests
        while rests and rests[0][0] <= now_ns:
            given = rests.popleft()[1]
            self._resting.discard(given)
            self._send(given, now_ns)
        for _ in range(len(self._fresh)):
            given = self._fresh.popleft()
            if given not in self._resting:
                self._send(given, now_ns)

    def _send(self, given: Given, now_ns: int) -> None:
        body = self._told.pop(given, None)
        if body is not None and self._sessions[given.place].send_progress(given, body):
            self._resting.add(given)
            self._rests.append((now_ns + EVERY_NS, given))
