"""A client's side of its connection: which tasks are open, and how each one ends. Knows no sockets and no clock.

A task is *unsent* until the connection has taken it; until then it provably did not run, and a client that gives up on
it says REJECTED. Once sent it ends with the broker's answer; if the broker is lost, or says nothing until well after
the deadline, it is UNKNOWN.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.delivery import Outcome
from famulus.core.timers import Timed, Timers
from famulus.errors import ProtocolError
from famulus.wire import headers, limits, reasons

Frames = list[bytes]

#: How long after its deadline a task may still be answered by the broker before its silence means that it is lost.
GRACE_NS = 1 * NS_PER_S
#: A task that waited for its connection for more than this part of its time-out tells the broker what is left of it.
#: Others keep their header as it is, since a header that the broker knows is cheap for it.
STALE_PART = 8
HEADERS_REMEMBERED = 1024


class Done(NamedTuple):
    """How a task ended. `token` is whatever the caller gave when it submitted the task."""

    token: object
    outcome: Outcome
    message_id: str
    reason: str
    body: bytes


class _Pending(Timed):
    __slots__ = ("deadline_ns", "message", "message_id", "sent", "submitted_ns", "token")

    def __init__(self, token: object, message: Frames, message_id: str, submitted_ns: int, deadline_ns: int) -> None:
        self.bucket = None
        self.token = token
        self.message = message
        self.message_id = message_id
        self.submitted_ns = submitted_ns
        self.deadline_ns = deadline_ns
        self.sent = False


class ClientSession:
    def __init__(self, first_number: int = 0) -> None:
        self._number = first_number
        self._pending: dict[bytes, _Pending] = {}
        self._unsent: deque[_Pending] = deque()
        self._timers: Timers[_Pending] = Timers()
        self._headers: dict[tuple[str, int, int], bytes] = {}
        #: Answers to nothing that is open: late ones, or those of a broker's former life.
        self.late = 0

    def __len__(self) -> int:
        """How many tasks are open."""
        return len(self._pending)

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def submit(
        self,
        now_ns: int,
        token: object,
        service: str,
        body: bytes,
        timeout_ms: int,
        priority: int = limits.PRIORITY_DEFAULT,
        message_id: str = "",
    ) -> None:
        self._number += 1
        envelope = self._number.to_bytes(8, "big")
        header = self._header(service, timeout_ms, priority, message_id)
        pending = _Pending(token, [envelope, header, body], message_id, now_ns, now_ns + timeout_ms * NS_PER_MS)
        self._pending[envelope] = pending
        self._unsent.append(pending)
        self._timers.set(pending, pending.deadline_ns)

    def next_to_send(self, now_ns: int, limit: int) -> list[Frames]:
        """The oldest unsent messages; `on_sent` says how many of them the connection took."""
        if self._unsent and _is_stale(self._unsent[0], now_ns):
            for pending in islice(self._unsent, limit):
                if _is_stale(pending, now_ns):
                    _shorten_timeout(pending, now_ns)
        return [pending.message for pending in islice(self._unsent, limit)]

    def on_sent(self, count: int) -> None:
        for _ in range(count):
            pending = self._unsent.popleft()
            pending.sent = True
            pending.message = pending.message[:1]  # the envelope is all that the answer needs; the body can go

    def on_messages(self, batch: list[Frames]) -> list[Done]:
        done: list[Done] = []
        for message in batch:
            pending = self._pending.get(message[0]) if len(message) == 3 else None
            if pending is None or not pending.sent:
                self.late += 1
                continue
            del self._pending[message[0]]
            self._timers.cancel(pending)
            done.append(_read_answer(pending, message[1], message[2]))
        return done

    def on_lost(self) -> list[Done]:
        """The connection is gone: what was sent may have run. What was not sent stays for the next connection."""
        lost = [pending for pending in self._pending.values() if pending.sent]
        reason = reasons.reason(reasons.BROKER_LOST, "the connection was lost before the answer came")
        return [self._give_up(pending, "UNKNOWN", reason) for pending in lost]

    def on_tick(self, now_ns: int) -> list[Done]:
        done: list[Done] = []
        expired = 0
        for pending in self._timers.due(now_ns):
            if not pending.sent:
                expired += 1
                reason = reasons.reason(reasons.EXPIRED, "no broker took it within the time-out")
                done.append(self._give_up(pending, "REJECTED", reason))
            elif pending.deadline_ns + GRACE_NS <= now_ns:
                reason = reasons.reason(reasons.BROKER_LOST, "no answer within the time-out")
                done.append(self._give_up(pending, "UNKNOWN", reason))
            else:
                # Only the few that get this far are worth a second timer.
                self._timers.set(pending, pending.deadline_ns + GRACE_NS)
        if expired:
            self._unsent = deque(pending for pending in self._unsent if pending.message[0] in self._pending)
        return done

    def close(self) -> list[Done]:
        """End everything that is open."""
        reason = reasons.reason(reasons.BROKER_LOST, "the client was closed before the answer came")
        never = reasons.reason(reasons.EXPIRED, "the client was closed before it was sent")
        self._unsent.clear()
        return [
            self._give_up(pending, "UNKNOWN", reason) if pending.sent else self._give_up(pending, "REJECTED", never)
            for pending in list(self._pending.values())
        ]

    @property
    def next_due_ns(self) -> int:
        return self._timers.next_due_ns

    def _give_up(self, pending: _Pending, outcome: Outcome, reason: str) -> Done:
        del self._pending[pending.message[0]]
        if pending.bucket is not None:
            self._timers.cancel(pending)
        return Done(pending.token, outcome, pending.message_id, reason, b"")

    def _header(self, service: str, timeout_ms: int, priority: int, message_id: str) -> bytes:
        # Most tasks of a client differ only in their bodies, and the same header in the same bytes is cheap for all.
        key = (service, timeout_ms, priority)
        header = self._headers.get(key) if not message_id else None
        if header is None:
            header = headers.write(
                "TASK",
                "REQUEST",
                service=service,
                timeout_ms=timeout_ms,
                priority=priority if priority != limits.PRIORITY_DEFAULT else None,
                message_id=message_id or None,
            )
            if not message_id:
                if len(self._headers) >= HEADERS_REMEMBERED:
                    self._headers.clear()
                self._headers[key] = header
        return header


def _is_stale(pending: _Pending, now_ns: int) -> bool:
    return now_ns - pending.submitted_ns > (pending.deadline_ns - pending.submitted_ns) // STALE_PART


def _shorten_timeout(pending: _Pending, now_ns: int) -> None:
    envelope, header, body = pending.message
    fields = headers.read_fields(header)
    fields["timeout_ms"] = max(1, (pending.deadline_ns - now_ns) // NS_PER_MS)
    pending.message = [envelope, headers.write_fields(fields), body]


def _read_answer(pending: _Pending, header: bytes, body: bytes) -> Done:
    told = headers.read_task_response(header)
    if told is not None:
        return Done(pending.token, told.outcome, told.message_id, told.reason, body)
    try:
        answer = headers.read(header)
    except ProtocolError as error:
        return Done(pending.token, "UNKNOWN", pending.message_id, str(error), b"")
    if isinstance(answer, headers.ErrorResponse):
        # The broker could not even read the request, so it gave it to nobody.
        return Done(pending.token, "REJECTED", pending.message_id, answer.reason, b"")
    reason = reasons.reason(reasons.BAD_HEADER, "the broker answered with something else")
    return Done(pending.token, "UNKNOWN", pending.message_id, reason, b"")
