"""One task of a client, from its submission to its outcome. Knows no sockets and no clock."""

from __future__ import annotations

from typing import Final

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import Outcome
from famulus.core.timers import Timed
from famulus.errors import ProtocolError
from famulus.wire import headers, reasons

Frames = list[bytes]

#: A task that waited for its connection for more than this part of its time-out tells the broker what is left of it.
#: Others keep their header as it is, since a header that the broker knows is cheap for it.
STALE_PART: Final = 8


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
        #: Empty once it was sent, unless it may have to be sent again.
        self.message = message
        self.submitted_ns = submitted_ns
        self.deadline_ns = deadline_ns
        #: 0 until it is sent.
        self.leg = 0
        self.outcome: Outcome = "UNKNOWN"
        self.reason = ""
        self.body = b""

    def is_stale(self, now_ns: int) -> bool:
        return now_ns - self.submitted_ns > (self.deadline_ns - self.submitted_ns) // STALE_PART

    def shorten_timeout(self, now_ns: int) -> None:
        """Tell the broker how much time is left."""
        envelope, header, body = self.message
        fields = headers.read_fields(header)
        fields["timeout_ms"] = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
        self.message = [envelope, headers.write_fields(fields), body]

    def renew(self, envelope: bytes) -> None:
        """As if it had never been sent."""
        _, header, body = self.message
        self.envelope = envelope
        self.message = [envelope, header, body]
        self.leg = 0
        # The one that the broker made means nothing to the next one.
        self.message_id = headers.read_fields(header).get("message_id", "")
        self.outcome, self.reason, self.body = "UNKNOWN", "", b""

    def read_answer(self, header: bytes, body: bytes) -> None:
        """What the broker says of it, whatever that is."""
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
            # The broker could not even read the request, so it gave it to nobody.
            self.outcome, self.reason = "REJECTED", answer.reason
        else:
            self.reason = reasons.reason(reasons.BAD_HEADER, "the broker answered with something else")


class Repeatable(Done):
    """A task that is to run at least once. Its message is kept until it has ended."""

    __slots__ = ("may_have_run",)

    def __init__(
        self, token: object, message_id: str, envelope: bytes, message: Frames, submitted_ns: int, deadline_ns: int
    ) -> None:
        super().__init__(token, message_id, envelope, message, submitted_ns, deadline_ns)
        #: It was sent to a broker that was lost: no later REJECTED can be believed.
        self.may_have_run = False


def may_have_run(done: Done) -> bool:
    return isinstance(done, Repeatable) and done.may_have_run


def doubt(done: Done) -> None:
    """That one broker did not run it says nothing about the one before."""
    if done.outcome == "REJECTED" and may_have_run(done):
        done.outcome = "UNKNOWN"
        done.reason = reasons.reason(reasons.BROKER_LOST, f"the broker that had it was lost, and then: {done.reason}")
