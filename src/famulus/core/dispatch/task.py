"""One task, from its acceptance to its one outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.backlog import Queueable
from famulus.core.dispatch.flows import Flow, tail
from famulus.wire.headers import write_text

if TYPE_CHECKING:
    from famulus.core.dispatch.accounts import Account
    from famulus.core.dispatch.repeats import Known
    from famulus.core.dispatch.service import Service

# The stages of a task.
NEW: Final = 0  # just accepted, for an instant
QUEUED: Final = 1  # in the backlog
RUNNING: Final = 2  # a worker or another broker has it
JUDGING: Final = 3  # it was answered; a router is reading the answer
DELAYED: Final = 4  # it waits for its time
DONE: Final = 5  # it has its outcome; its worker may still be busy with it

#: The life of a task: what may happen to it in each stage, and where that leads. A transition without a key is
#: impossible.
NEXT: Final[dict[str, dict[int, int]]] = {
    # To a free slot, here or at another broker. Whoever had it before is lost, or provably did not run it.
    "given": {NEW: RUNNING, QUEUED: RUNNING, RUNNING: RUNNING, JUDGING: RUNNING, DELAYED: RUNNING},
    # No slot is free.
    "queued": {NEW: QUEUED, RUNNING: QUEUED, JUDGING: QUEUED, DELAYED: QUEUED},
    # Its client wants nobody to have it before some time.
    "delayed": {NEW: DELAYED},
    # The answer has to be read.
    "answered": {RUNNING: JUDGING},
    # It has its one outcome.
    "ended": {NEW: DONE, QUEUED: DONE, RUNNING: DONE, JUDGING: DONE, DELAYED: DONE},
}
# What happens to every task is looked up by index: a dictionary would cost one percent of a task's time.
GIVEN: Final[list[int]] = list(NEXT["given"].values())
ENDED: Final[list[int]] = list(NEXT["ended"].values())
PUT_IN_QUEUE: Final[dict[int, int]] = NEXT["queued"]
ANSWERED: Final[dict[int, int]] = NEXT["answered"]
PUT_OFF: Final[dict[int, int]] = NEXT["delayed"]


class Task(Queueable):
    __slots__ = (
        "account",
        "arrived",
        "arrived_ns",
        "assigned",
        "attempt",
        "client",
        "deadline_ns",
        "delegate",
        "envelope",
        "flow",
        "is_cancelled",
        "known",
        "message_id",
        "noted",
        "queued_ns",
        "request_bytes",
        "service",
        "stage",
        "ticket",
        "worker",
    )

    def __init__(
        self,
        account: Account,
        client: bytes,
        envelope: bytes,
        body: bytes,
        arrived_ns: int,
        flow: Flow,
        message_id: bytes,
        arrived: object,
    ) -> None:
        #: Whose task it is, wherever it came from.
        self.account = account
        self.bucket = None
        self.client = client
        self.envelope = envelope
        self.body = body
        self.terms = flow.terms
        self.arrived_ns = arrived_ns
        self.deadline_ns = arrived_ns + flow.timeout_ns
        self.flow = flow
        self.service = flow.service
        #: A JSON text, as it appears in headers.
        self.message_id = message_id
        #: Where its outcome will be remembered, if its id is the client's own.
        self.known: Known | None = None
        self.attempt = 0
        self.stage = NEW
        #: Nobody wants it any more: it is given to nobody again.
        self.is_cancelled = False
        self.ticket = b""
        #: Since when it has been in the backlog; the time that it spent with a worker does not count.
        self.queued_ns = 0
        # For the journal: when it arrived; who had it last, a worker or another broker, and since when; in which state
        # it was recorded as open; its original size, since its body may be dropped. Instants are objects that the tasks
        # of a batch share.
        self.arrived = arrived
        self.worker = b""
        self.delegate = b""
        self.assigned: object = 0
        self.noted = b""
        self.request_bytes = len(body)

    def waits_for(self, ticket: bytes) -> bool:
        """Whether the attempt with this ticket is the one that counts."""
        return self.stage == RUNNING and self.ticket == ticket

    def worker_header(self, now_ns: int) -> bytes:
        """The header that the worker sees: what the router prepared, the id, the attempt and the time left."""
        flow = self.flow
        if self.attempt == 1 and now_ns == self.arrived_ns:
            return flow.worker_head + self.message_id + flow.first_tail
        left_ms = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
        return flow.worker_head + self.message_id + tail(self.attempt, left_ms)

    def delegate_header(self, now_ns: int, broker: bytes, token: bytes) -> bytes:
        """The header that another broker sees: as if from a client, with the brokers that the task has come through.

        `token` is this broker's own, for ids that it made.
        """
        left_ms = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
        visited = b",".join([write_text(name.decode()) for name in (*self.flow.visited, broker)])
        whose = self.flow.client_token or token
        if self.account.name:
            whose += b',"principal":' + write_text(self.account.name.decode())
        end = b',"timeout_ms":%d,"via":[%b],"client_token":%b}' % (left_ms, visited, whose)
        return self.flow.worker_head + self.message_id + end

    def client_header(self, end: bytes) -> bytes:
        """The header that the client sees: what the router prepared, the id, and how the task ended."""
        return self.flow.client_head + self.message_id + end


def next_task(service: Service) -> Task:
    """The next one in its backlog; there must be one."""
    task = service.backlog.head()
    assert isinstance(task, Task)
    return task
