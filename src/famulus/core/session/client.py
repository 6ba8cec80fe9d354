"""A client's side of its connection: which tasks are open, and how each one ends. Knows no sockets and no clock.

A task is *unsent* until the connection has taken it; until then it provably did not run, and a client that gives up on
it says REJECTED. Once sent it ends with the broker's answer; if the broker is lost, or says nothing until well after
the deadline, it is UNKNOWN.

A client that knows several brokers has more to say. A task that its broker refused to take provably did not run, so it
can be sent to another one. And a task that is to run at least once is sent again when its broker is lost, under the
same message_id; from then on nobody can prove any more that it did not run.

Over which connection a task was sent is its *leg*: they are counted from 1, and one may end while another goes on.
"""

from __future__ import annotations

from collections.abc import Callable
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
#: Bodies of tasks that are to run at least once, from their submission to their outcome.
KEPT_BYTES_MAX: Final = 256 * 1024 * 1024
#: Bodies of other tasks that were sent, in case another broker is to have them. What does not fit is let go of.
SPARE_BYTES_MAX: Final = 64 * 1024 * 1024

_SENT: Frames = []
#: A client of more services than this asks for brokers of all services: one of them has to serve most of its own.
SERVICES_NAMED_MAX: Final = 8


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
        "leg",
        "message",
        "message_id",
        "outcome",
        "place",
        "reason",
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
        #: 0 until it is sent.
        self.leg = 0
        self.outcome: Outcome = "UNKNOWN"
        self.reason = ""
        self.body = b""


class Repeatable(Done):
    """A task that is to run at least once. Its message is kept until it has ended."""

    __slots__ = ("may_have_run",)

    def __init__(
        self, token: object, message_id: str, envelope: bytes, message: Frames, submitted_ns: int, deadline_ns: int
    ) -> None:
        super().__init__(token, message_id, envelope, message, submitted_ns, deadline_ns)
        #: It was sent to a broker that was lost: no later REJECTED can be believed.
        self.may_have_run = False


class ClientSession:
    def __init__(self, first_number: int = 0, new_id: Callable[[], str] | None = None, token: str = "") -> None:
        """`new_id` makes the ids of tasks that are to run at least once and have none.

        By the `token`, which is a secret, brokers tell its ids from those of others.
        """
        self._number = first_number
        self._token = token or None
        self._new_id = new_id
        self._pending: dict[bytes, Done] = {}
        self._unsent: list[Done] = []
        self._timers: Timers[Done] = Timers()
        self._headers: dict[tuple[str, int, int], bytes] = {}
        #: What was asked for so far: brokers that serve none of it are of no use.
        self._services: dict[str, None] = {}
        self._last_header: tuple[str, int, int, bytes] = ("", 0, 0, b"")
        #: Answers to nothing that is open: late ones, or those of a broker's former life.
        self.late = 0
        #: What is sent goes over this one.
        self.leg = 1
        # There may be tasks whose message is kept after it was sent. Only then has each of them to be looked at.
        self._keeps = False
        self._spare_bytes = SPARE_BYTES_MAX
        # Each is written by one thread only: those who submit may not be the one who hears the outcomes.
        self._kept_bytes = self._let_go_bytes = 0
        # See `on_brokers`.
        self._elsewhere = False
        self._tried = ""
        self._question = b""
        #: The body of an answer to `question`; to be taken away by whoever asked.
        self.told = b""
        #: Tasks that the broker would not have: `send_again` or `pass_on` must follow.
        self.refused: list[Done] = []
        #: They may have run, and the broker that we are with will not have them: they wait for the next one.
        self._resting: list[Done] = []

    def __len__(self) -> int:
        """How many tasks are open."""
        return len(self._pending)

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def keep(self, size: int) -> bool:
        """To be asked before a task is submitted that is to run at least once: is there room to keep its body?"""
        if self._kept_bytes - self._let_go_bytes + size > KEPT_BYTES_MAX:
            return False
        self._kept_bytes += size
        return True

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
        at_least_once: bool = False,
    ) -> None:
        self._number += 1
        envelope = self._number.to_bytes(8, "big")
        deadline_ns = now_ns + timeout_ms * NS_PER_MS
        if at_least_once:
            self._keeps = True
            if not message_id and self._new_id is not None:
                message_id = self._new_id()
        # Most tasks of a client differ only in their bodies, and the same header in the same bytes is cheap for all.
        last = self._last_header
        if service == last[0] and timeout_ms == last[1] and priority == last[2] and not message_id:
            header = last[3]
        else:
            header = self._header(service, timeout_ms, priority, message_id)
        message = [envelope, header, body]
        if at_least_once:
            pending: Done = Repeatable(token, message_id, envelope, message, now_ns, deadline_ns)
        else:
            pending = Done(token, message_id, envelope, message, now_ns, deadline_ns)
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
        leg = self.leg
        first = self._unsent[:count]
        if self._keeps:
            for pending in first:
                pending.leg = leg
                self._spare(pending)
        else:
            for pending in first:
                pending.leg = leg
                pending.message = _SENT  # the envelope is all that the answer needs; the body can go
        del self._unsent[:count]

    def on_messages(self, batch: list[Frames]) -> list[Done]:
        done: list[Done] = []
        all_pending, timers = self._pending, self._timers
        keeps = self._keeps
        for message in batch:
            pending = all_pending.get(message[0]) if len(message) == 3 else None
            if pending is None or not pending.leg:
                self._on_other(message)
                continue
            del all_pending[message[0]]
            timers.cancel(pending)
            header = message[1]
            if header.endswith(_OK_TAIL) and header.startswith(_OK_HEAD):
                pending.outcome = "OK"
                pending.body = message[2]
            else:
                _read_answer(pending, header, message[2])
                if self._is_refusal(pending):
                    self.refused.append(pending)
                    continue
                _doubt(pending)
            if keeps and pending.message:
                self._let_go(pending)
            done.append(pending)
        return done

    def on_lost(self, now_ns: int = 0, leg: int = 0) -> list[Done]:
        """A connection is gone, or all of them: what was sent may have run. What was not sent stays for the next one.

        What is to run at least once stays as well.
        """
        reason = reasons.reason(reasons.BROKER_LOST, "the connection was lost before the answer came")
        lost = [pending for pending in self._pending.values() if pending.leg and leg in (0, pending.leg)]
        again: list[Done] = []
        ended: list[Done] = []
        for pending in lost:
            if isinstance(pending, Repeatable) and pending.deadline_ns > now_ns:
                pending.may_have_run = True
                again.append(pending)
            else:
                ended.append(self._give_up(pending, "UNKNOWN", reason))
        self._send_first(again + self._take_resting())
        return ended

    def open_tokens(self) -> list[object]:
        """Of all tasks that have not ended."""
        return [pending.token for pending in (*self._pending.values(), *self.refused)]

    def on_tick(self, now_ns: int) -> list[Done]:
        done: list[Done] = []
        expired = 0
        for pending in self._timers.due(now_ns):
            if not pending.leg:
                expired += 1
                done.append(self._give_up(pending, "REJECTED", self._expired()))
            elif pending.deadline_ns + GRACE_NS <= now_ns:
                reason = reasons.reason(reasons.BROKER_LOST, "no answer within the time-out")
                done.append(self._give_up(pending, "UNKNOWN", reason))
            else:
                # Only the few that get this far are worth a second timer.
                self._timers.set(pending, pending.deadline_ns + GRACE_NS)
        if expired:
            self._unsent = [pending for pending in self._unsent if pending.envelope in self._pending]
            self._resting = [pending for pending in self._resting if pending.envelope in self._pending]
        return done

    def close(self) -> list[Done]:
        """End everything that is open."""
        reason = reasons.reason(reasons.BROKER_LOST, "the client was closed before the answer came")
        never = reasons.reason(reasons.EXPIRED, "the client was closed before it was sent")
        self._unsent.clear()
        self._resting.clear()
        refused, self.refused = self.refused, []
        ended = [self._end_refused(pending) for pending in refused]
        for pending in list(self._pending.values()):
            if pending.leg:
                ended.append(self._give_up(pending, "UNKNOWN", reason))
            else:
                ended.append(self._give_up(pending, "REJECTED", never))
        return ended

    @property
    def next_due_ns(self) -> int:
        return self._timers.next_due_ns

    # -- from broker to broker ----------------------------------------------------------------------------------

    def on_brokers(self, elsewhere: bool, tried: str) -> None:
        """Whether there is another broker to go to, and where one was looked for."""
        self._elsewhere = elsewhere
        self._keeps = self._keeps or elsewhere
        self._tried = tried

    def question(self) -> Frames:
        """A message that asks for brokers; `told` will have the body of its answer."""
        self._number += 1
        self._question = b"?" + self._number.to_bytes(8, "big")
        named = list(self._services) if len(self._services) <= SERVICES_NAMED_MAX else []
        return [self._question, headers.write("NEEDBROKER", "REQUEST", services=named, role="client"), b""]

    def next_leg(self) -> tuple[int, list[Done]]:
        """What is sent from now on goes over another connection. The leg that is over, and what is open on it."""
        leg = self.leg
        self.leg += 1
        self._question = b""
        self._send_first(self._take_resting())
        return leg, [pending for pending in self._pending.values() if pending.leg == leg]

    def is_open(self, done: Done, leg: int) -> bool:
        """Whether this leg may still bring its answer."""
        return done.leg == leg and self._pending.get(done.envelope) is done

    def send_again(self, now_ns: int) -> list[Done]:
        """Another broker is to have those that were refused; the ones for which it is too late have ended."""
        refused, self.refused = self.refused, []
        again: list[Done] = []
        ended: list[Done] = []
        for pending in refused:
            if pending.message and pending.deadline_ns > now_ns:
                again.append(pending)
            else:
                ended.append(self._end_refused(pending))
        self._send_first(again)
        return ended

    def pass_on(self, now_ns: int) -> list[Done]:
        """Nobody else can have those that were refused. They have ended, except those that may have run."""
        refused, self.refused = self.refused, []
        ended: list[Done] = []
        for pending in refused:
            if _may_have_run(pending) and pending.deadline_ns > now_ns:
                self._renew(pending)
                self._resting.append(pending)
            else:
                ended.append(self._end_refused(pending))
        return ended

    def _is_refusal(self, pending: Done) -> bool:
        """Whether another broker may have this task, by the answer of its own."""
        if pending.outcome == "REJECTED":
            refusal = self._elsewhere or isinstance(pending, Repeatable)
            return refusal and reasons.code_of(pending.reason) in (reasons.DISABLED, reasons.BROKER_LOST)
        if pending.outcome == "UNKNOWN" and isinstance(pending, Repeatable):
            pending.may_have_run = True
            return reasons.code_of(pending.reason) == reasons.BROKER_LOST
        return False

    def _send_first(self, again: list[Done]) -> None:
        for each in again:
            self._renew(each)
        self._unsent[:0] = again

    def _renew(self, pending: Done) -> None:
        """As if it had never been sent. Under a new envelope: no answer of a former broker is meant for it now."""
        _, header, body = pending.message
        if pending.leg and not isinstance(pending, Repeatable):
            self._spare_bytes += len(body)
        self._pending.pop(pending.envelope, None)
        self._number += 1
        pending.envelope = self._number.to_bytes(8, "big")
        pending.message = [pending.envelope, header, body]
        pending.leg = 0
        # The one that the broker made means nothing to the next one.
        pending.message_id = headers.read_fields(header).get("message_id", "")
        pending.outcome, pending.reason, pending.body = "UNKNOWN", "", b""
        self._pending[pending.envelope] = pending
        if pending.bucket is None:
            self._timers.set(pending, pending.deadline_ns)

    def _take_resting(self) -> list[Done]:
        resting, self._resting = self._resting, []
        return resting

    def _end_refused(self, pending: Done) -> Done:
        self._let_go(pending)
        _doubt(pending)
        return pending

    def _on_other(self, message: Frames) -> None:
        if self._question and message and message[0] == self._question:
            self._question = b""
            self.told = message[-1]
        else:
            self.late += 1

    # -- inside -------------------------------------------------------------------------------------------------

    def _expired(self) -> str:
        where = f"; tried {self._tried}" if self._tried else ""
        return reasons.reason(reasons.EXPIRED, f"no broker took it within the time-out{where}")

    def _give_up(self, pending: Done, outcome: Outcome, reason: str) -> Done:
        del self._pending[pending.envelope]
        if pending.bucket is not None:
            self._timers.cancel(pending)
        self._let_go(pending)
        pending.outcome = outcome
        pending.reason = reason
        _doubt(pending)
        return pending

    def _spare(self, pending: Done) -> None:
        """It was sent: keep its message if there may be a use for it, and room."""
        if isinstance(pending, Repeatable):
            return
        size = len(pending.message[2])
        if self._elsewhere and size <= self._spare_bytes:
            self._spare_bytes -= size
        else:
            pending.message = _SENT

    def _let_go(self, pending: Done) -> None:
        if not pending.message:
            return
        size = len(pending.message[2])
        if isinstance(pending, Repeatable):
            self._let_go_bytes += size
        elif pending.leg:
            self._spare_bytes += size
        pending.message = _SENT

    def _header(self, service: str, timeout_ms: int, priority: int, message_id: str) -> bytes:
        if service not in self._services and len(self._services) <= SERVICES_NAMED_MAX and _is_name(service):
            self._services[service] = None
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
                # Without an id there is nothing to ask for again, and the header can be the same as everybody's.
                client_token=self._token if message_id else None,
            )
            if not message_id:
                if len(self._headers) >= HEADERS_REMEMBERED:
                    self._headers.clear()
                self._headers[key] = header
        if not message_id:
            self._last_header = (service, timeout_ms, priority, header)
        return header


def _is_name(service: str) -> bool:
    """One that no broker will find fault with, wherever it is named."""
    return 0 < len(service) <= limits.NAME_CHARS_MAX and service.isprintable()


def _is_stale(pending: Done, now_ns: int) -> bool:
    return now_ns - pending.submitted_ns > (pending.deadline_ns - pending.submitted_ns) // STALE_PART


def _shorten_timeout(pending: Done, now_ns: int) -> None:
    envelope, header, body = pending.message
    fields = headers.read_fields(header)
    fields["timeout_ms"] = max(1, (pending.deadline_ns - now_ns) // NS_PER_MS)
    pending.message = [envelope, headers.write_fields(fields), body]


def _may_have_run(done: Done) -> bool:
    return isinstance(done, Repeatable) and done.may_have_run


def _doubt(done: Done) -> None:
    """That one broker did not run it says nothing about the one before."""
    if done.outcome == "REJECTED" and _may_have_run(done):
        done.outcome = "UNKNOWN"
        done.reason = reasons.reason(reasons.BROKER_LOST, f"the broker that had it was lost, and then: {done.reason}")


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
