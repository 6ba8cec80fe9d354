"""One task of a client, from its submission to its outcome. Uses no socket and no clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import Outcome
from famulus.core.session.retry import Retry
from famulus.core.session.task_kind import TaskKind
from famulus.core.timers import Timed
from famulus.errors import ProtocolError
from famulus.wire import headers, reasons

Frames = list[bytes]

#: A task that waited longer than this part of its time-out for a connection tells the broker how much is left. Others
#: keep their header as it is, since a header that the broker knows is cheap for it.
STALE_PART: Final = 8


class Done(Timed):
    """A task of this client: only its session knows it while it is open, and whoever gets it then learns how it ended.

    One object serves as both, since each object costs every task.
    """

    __slots__ = (
        "body",
        "broker",
        "content",
        "deadline_ns",
        "envelope",
        "header",
        "kind",
        "leg",
        "message_id",
        "outcome",
        "place",
        "reason",
        "submitted_ns",
        "token",
        "tries",
    )

    def __init__(
        self,
        token: object,
        kind: TaskKind,
        message_id: str,
        envelope: bytes,
        header: bytes,
        content: bytes,
        submitted_ns: int,
        deadline_ns: int,
    ) -> None:
        self.bucket = None
        #: What the caller passed when it submitted the task, and the task's place among several.
        self.token = token
        self.place = 0
        self.kind = kind
        #: For a plain OK, this is only the id that the caller gave, if any.
        self.message_id = message_id
        self.envelope = envelope
        #: What is asked for. Both are empty once it was sent, unless it may have to be sent again: see `is_kept`.
        self.header = header
        self.content = content
        self.submitted_ns = submitted_ns
        self.deadline_ns = deadline_ns
        #: 0 until it is sent.
        self.leg = 0
        #: How often it was refused and is sent again.
        self.tries = 0
        self.outcome: Outcome = "UNKNOWN"
        self.reason = ""
        self.body = b""
        # For people: unless it ended OK, the address of the broker that it was sent to.
        self.broker = ""

    @property
    def service(self) -> str:
        return self.kind.service

    @property
    def retry(self) -> Retry | None:
        return self.kind.retry

    @property
    def is_kept(self) -> bool:
        """Whether it can be sent, or sent again."""
        return bool(self.header)

    def message(self) -> Frames:
        # Made when it is sent, and gone after it: a list for each open task would be one more thing for Python's
        # collector to look at, time and again.
        return [self.envelope, self.header, self.content]

    def let_go(self) -> None:
        """The envelope is all that its answer needs."""
        self.header = self.content = b""

    def is_stale(self, now_ns: int) -> bool:
        return now_ns - self.submitted_ns > (self.deadline_ns - self.submitted_ns) // STALE_PART

    @property
    def has_delay(self) -> bool:
        """Whether its header says how long it has to wait. No text in a header looks like this: quotes are escaped."""
        return b',"delay_ms":' in self.header

    def shorten_timeout(self, now_ns: int) -> None:
        """Tell the broker how much time is left, and how much of it the task has to wait."""
        fields = headers.read_fields(self.header)
        delay_ns = 0
        if "delay_ms" in fields:
            # Its time-out begins when its delay is over, so its deadline says when that is.
            delay_ns = self.deadline_ns - fields["timeout_ms"] * NS_PER_MS - now_ns
        if delay_ns > 0:
            fields["delay_ms"] = -(-delay_ns // NS_PER_MS)
        else:
            fields.pop("delay_ms", None)
            fields["timeout_ms"] = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
        self.header = headers.write_fields(fields)

    def renew(self, envelope: bytes) -> None:
        """As if it had never been sent."""
        self.envelope = envelope
        self.leg = 0
        # An id that one broker made means nothing to the next one.
        self.message_id = headers.read_fields(self.header).get("message_id", "")
        self.outcome, self.reason, self.body = "UNKNOWN", "", b""

    def read_answer(self, header: bytes, body: bytes) -> None:
        """Take in what the broker says about it, whatever that is."""
        told = headers.read_task_response(header)
        if told is not None:
            self.outcome, self.message_id, self.reason, self.body = told.outcome, told.message_id, told.reason, body
            return
        try:
            answer = headers.read(header)
        except ProtocolError as error:
            self.reason = str(error)
            return
        if isinstance(answer, headers.ErrorResponse):
            # The broker could not even read the request, so it did not give it to anybody.
            self.outcome, self.reason = "REJECTED", answer.reason
        else:
            self.reason = reasons.reason(reasons.BAD_HEADER, "the broker answered with something else")


class Repeatable(Done):
    """A task that may run more than once. Its message is kept until it has ended."""

    __slots__ = ("begins_ns", "doubt", "hedge", "may_have_run")

    def __init__(
        self,
        token: object,
        kind: TaskKind,
        message_id: str,
        envelope: bytes,
        header: bytes,
        content: bytes,
        submitted_ns: int,
        deadline_ns: int,
    ) -> None:
        super().__init__(token, kind, message_id, envelope, header, content, submitted_ns, deadline_ns)
        #: When its delay is over, if it has one.
        self.begins_ns = submitted_ns
        #: Nobody knows what became of an attempt: no later REJECTED can be trusted. And why nobody knows.
        self.may_have_run = False
        self.doubt = ""
        #: The second attempt, while nobody knows yet how that ends.
        self.hedge: Hedge | None = None

    def note_doubt(self, reason: str) -> None:
        """An attempt is UNKNOWN."""
        self.may_have_run = True
        self.doubt = reason

    def keep_name(self, make_id: Callable[[], str] | None, token: str) -> None:
        """Before it is sent again: whoever has run it should recognise it, by its broker's id if that is known."""
        fields = headers.read_fields(self.header)
        if "message_id" not in fields and (self.message_id or make_id is not None):
            fields["message_id"] = self.message_id or (make_id() if make_id is not None else "")
            if token:
                fields["client_token"] = token
            self.header = headers.write_fields(fields)

    def hedged(self, now_ns: int) -> Hedge:
        """A second attempt. Its broker knows by the envelope which one is the first."""
        fields = headers.read_fields(self.header)
        fields.pop("message_id", None)
        fields.pop("client_token", None)
        fields.pop("delay_ms", None)
        fields["timeout_ms"] = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
        fields["hedge"] = True
        envelope = self.envelope + headers.HEDGE_ENDING
        header = headers.write_fields(fields)
        kind = TaskKind(self.service, self.kind.timeout_ms)  # it is not sent again
        self.hedge = hedge = Hedge(self.token, kind, "", envelope, header, self.content, now_ns, self.deadline_ns)
        hedge.first = self
        hedge.place = self.place
        return hedge


class Hedge(Done):
    """The second attempt at a task. Callers never see it: whichever attempt is answered first, the task ends so."""

    __slots__ = ("first",)

    def __init__(
        self,
        token: object,
        kind: TaskKind,
        message_id: str,
        envelope: bytes,
        header: bytes,
        content: bytes,
        submitted_ns: int,
        deadline_ns: int,
    ) -> None:
        super().__init__(token, kind, message_id, envelope, header, content, submitted_ns, deadline_ns)
        #: The task, for as long as this attempt matters to it.
        self.first: Repeatable | None = None


def may_have_run(done: Done) -> bool:
    return isinstance(done, Repeatable) and done.may_have_run


def doubt(done: Done) -> None:
    """That one attempt did not run says nothing about the attempt before."""
    if done.outcome == "REJECTED" and isinstance(done, Repeatable) and done.may_have_run:
        done.outcome = "UNKNOWN"
        code = reasons.code_of(done.doubt)
        if code == reasons.BROKER_LOST or not code:
            code, before = reasons.BROKER_LOST, "the broker that had it was lost"
        else:
            before = "an attempt before may have run"
        done.reason = reasons.reason(code, f"{before}, and then: {done.reason}")
