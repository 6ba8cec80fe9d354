"""A client's side of its connection: which tasks are open, and how each one ends. Knows no sockets and no clock.

A task is *unsent* until the connection has taken it; until then it provably did not run, and a client that gives up on
it says REJECTED. Once sent it ends with the broker's answer; if the broker is lost, or says nothing until well after
the deadline, it is UNKNOWN.
"""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.delivery import Outcome
from famulus.core.timers import Timed, Timers
from famulus.errors import ProtocolError
from famulus.wire import headers, limits, reasons

Frames = list[bytes]

#: How long after its deadline a task may still be answered by the broker before its silence means that it is lost.
GRACE_NS: Final = 1 * NS_PER_S
#: A task that waited for its connection for more than this part of its time-out tells the broker what is left of it.
#: Others keep their header as it is, since a header that the broker knows is cheap for it.
STALE_PART: Final = 8
HEADERS_REMEMBERED: Final = 1024

_SENT: Frames = []


#: How a header begins and ends that says OK and nothing else. Most do, and need not be read any further.
_OK_HEAD: Final = b'{"request":"TASK","type":"RESPONSE",'
_OK_TAIL: Final = b',"outcome":"OK"}'


class Done(Timed):
    """A task of this client: while it is open only its session knows it, and whoever is given it learns how it ended.

    One object for both, since each costs every task.
    """

    __slots__ = (
        "body",
        "deadline_ns",
        "envelope",
        "message",
        "message_id",
        "outcome",
        "place",
        "reason",
        "sent",
        "submitted_ns",
        "token",
    )

    def __init__(
        self, token: object, message_id: str, envelope: bytes, message: Frames, submitted_ns: int, deadline_ns: int
    ) -> None:
        self.bucket = None
        #: Whatever the caller gave when it submitted the task, and which of several it is there.
        self.token = token
        self.place = 0
        #: Of a plain OK only the id that the caller gave is known, if it gave one.
        self.message_id = message_id
        self.envelope = envelope
        self.message = message
        self.submitted_ns = submitted_ns
        self.deadline_ns = deadline_ns
        self.sent = False
        self.outcome: Outcome = "UNKNOWN"
        self.reason = ""
        self.body = b""


class ClientSession:
    def __init__(self, first_number: int = 0) -> None:
        self._number = first_number
        self._pending: dict[bytes, Done] = {}
        self._unsent: list[Done] = []
        self._timers: Timers[Done] = Timers()
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
        place: int = 0,
    ) -> None:
        self._number += 1
        envelope = self._number.to_bytes(8, "big")
        header = self._header(service, timeout_ms, priority, message_id)
        deadline_ns = now_ns + timeout_ms * NS_PER_MS
        pending = Done(token, message_id, envelope, [envelope, header, body], now_ns, deadline_ns)
        pending.place = place
        self._pending[envelope] = pending
        self._unsent.append(pending)
        self._timers.set(pending, deadline_ns)

    def next_to_send(self, now_ns: int, limit: int) -> list[Frames]:
        """The oldest unsent messages; `on_sent` says how many of them the connection took."""
        first = self._unsent[:limit]
        if first and _is_stale(first[0], now_ns):
            for pending in first:
                if _is_stale(pending, now_ns):
                    _shorten_timeout(pending, now_ns)
        return [pending.message for pending in first]

    def on_sent(self, count: int) -> None:
        for pending in self._unsent[:count]:
            pending.sent = True
            pending.message = _SENT  # the envelope is all that the answer needs; the body can go
        del self._unsent[:count]

    def on_messages(self, batch: list[Frames]) -> list[Done]:
        done: list[Done] = []
        all_pending, timers = self._pending, self._timers
        for message in batch:
            pending = all_pending.get(message[0]) if len(message) == 3 else None
            if pending is None or not pending.sent:
                self.late += 1
                continue
            del all_pending[message[0]]
            timers.cancel(pending)
            header = message[1]
            if header.endswith(_OK_TAIL) and header.startswith(_OK_HEAD):
                pending.outcome = "OK"
                pending.body = message[2]
            else:
                _read_answer(pending, header, message[2])
            done.append(pending)
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
            self._unsent = [pending for pending in self._unsent if pending.envelope in self._pending]
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

    def _give_up(self, pending: Done, outcome: Outcome, reason: str) -> Done:
        del self._pending[pending.envelope]
        if pending.bucket is not None:
            self._timers.cancel(pending)
        pending.outcome = outcome
        pending.reason = reason
        return pending

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


def _is_stale(pending: Done, now_ns: int) -> bool:
    return now_ns - pending.submitted_ns > (pending.deadline_ns - pending.submitted_ns) // STALE_PART


def _shorten_timeout(pending: Done, now_ns: int) -> None:
    envelope, header, body = pending.message
    fields = headers.read_fields(header)
    fields["timeout_ms"] = max(1, (pending.deadline_ns - now_ns) // NS_PER_MS)
    pending.message = [envelope, headers.write_fields(fields), body]


def _read_answer(done: Done, header: bytes, body: bytes) -> None:
    told = headers.read_task_response(header)
    if told is not None:
        done.outcome, done.message_id, done.reason, done.body = told.outcome, told.message_id, told.reason, body
        return
    try:
        answer = headers.read(header)
    except ProtocolError as error:
        done.reason = str(error)
        return
    if isinstance(answer, headers.ErrorResponse):
        # The broker could not even read the request, so it gave it to nobody.
        done.outcome, done.reason = "REJECTED", answer.reason
    else:
        done.reason = reasons.reason(reasons.BAD_HEADER, "the broker answered with something else")
