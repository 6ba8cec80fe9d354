"""The streams of a worker that run now: sends their parts, and tells their functions how many more are wanted.

Belongs to the thread that does the I/O. It looks at a stream when it is told that there is a part, and once more a
moment later: while parts keep coming they are sent together, and nobody need tell about each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import monotonic_ns
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given
from famulus.core.session.worker import WorkerSession
from famulus.net.waiting import Bell
from famulus.worker.calls import Call
from famulus.worker.outgoing_parts import OutgoingParts, StreamCall

#: How much later. No part waits much longer than this for the ones that come after it.
HOLD_NS: Final = NS_PER_MS
#: How long functions may take to close their generators when the worker ends.
CLOSE_S: Final = 0.3


class Streams:
    def __init__(self, bell: Bell, sessions: Sequence[WorkerSession]) -> None:
        self._bell = bell
        self._sessions = list(sessions)
        #: Those that have no answer yet.
        self.running: dict[Given, OutgoingParts] = {}
        self._listed: deque[OutgoingParts] = deque()
        #: Those at which we look again, and when.
        self._held: list[OutgoingParts] = []
        self.next_due_ns = NEVER_NS

    def begin(self, call: Call) -> StreamCall | None:
        """None if it came from a broker that has been lost since."""
        given = call.given
        begun = self._sessions[given.place].begin_stream(given)
        if begun is None:
            return None
        parts = self.running[given] = OutgoingParts(given, begun.last, call.deadline_ns, self._bell, self._listed)
        return StreamCall(call, parts)

    def follow(self, session: WorkerSession) -> None:
        """Pass on what clients have said, and what has become of them."""
        if session.credited:
            for wanted in session.credited:
                parts = self.running.get(wanted.given)
                if parts is not None:
                    parts.grant(wanted.last)
            session.credited.clear()
        if session.lost_streams:
            for given in session.lost_streams:
                self.close(given)
            session.lost_streams.clear()

    def close(self, given: Given) -> None:
        """Nobody wants its parts any more: its function hears that at its next one."""
        parts = self.running.get(given)
        if parts is not None:
            parts.close()

    def send(self, now_ns: int) -> None:
        """Whatever there is."""
        if self.next_due_ns <= now_ns:
            self._look_again(now_ns)
        listed = self._listed
        for _ in range(len(listed)):
            parts = listed.popleft()
            self._send(parts)
            self._hold(parts, now_ns)

    def end(self, given: Given) -> None:
        """It is about to be answered: what is still here goes first."""
        parts = self.running.pop(given, None)
        if parts is not None:
            self._send(parts)
            # The function may still run, if it was given up.
            parts.close()
        if not self.running:
            self._held.clear()
            self._listed.clear()
            self.next_due_ns = NEVER_NS

    def close_all(self) -> None:
        """The worker ends. Waits a moment, so that functions can close what they have open."""
        running = list(self.running.values())
        for parts in running:
            parts.close()
        until_ns = monotonic_ns() + int(CLOSE_S * NS_PER_S)
        for parts in running:
            if parts.given.has_begun:
                parts.over.wait(max(0, until_ns - monotonic_ns()) / NS_PER_S)

    def _look_again(self, now_ns: int) -> None:
        held, self._held = self._held, []
        self.next_due_ns = NEVER_NS
        for parts in held:
            parts.is_held = False
            # In this order: a part that comes between the two lines tells us again, or is seen by the second one.
            parts.is_listed = False
            if self._send(parts):
                parts.is_listed = True
                self._hold(parts, now_ns)

    def _hold(self, parts: OutgoingParts, now_ns: int) -> None:
        if not parts.is_held:
            parts.is_held = True
            self._held.append(parts)
            self.next_due_ns = min(self.next_due_ns, now_ns + HOLD_NS)

    def _send(self, parts: OutgoingParts) -> bool:
        """Whether there was anything."""
        bodies = parts.take()
        if bodies:
            self._sessions[parts.given.place].send_parts(parts.given, bodies)
        return bool(bodies)
