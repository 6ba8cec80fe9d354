"""One task, from its acceptance to its one outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS
from famulus.core.timers import Timed

if TYPE_CHECKING:
    from famulus.core.dispatch.service import Service
    from famulus.wire.inner import Terms

# Stages. A task moves only forward, except that a lost worker sends an at-least-once task from RUNNING to QUEUED.
NEW = 0  # just accepted, for an instant
QUEUED = 1  # in the backlog
RUNNING = 2  # in the wait queue: a worker has it
JUDGING = 3  # the worker answered; a router reads the answer
DONE = 4  # it has its outcome; its worker may still be busy with it


class Task(Timed):
    __slots__ = (
        "arrived_ns",
        "attempt",
        "body",
        "client",
        "client_head",
        "deadline_ns",
        "envelope",
        "message_id",
        "queued_ns",
        "service",
        "stage",
        "terms",
        "ticket",
        "worker_head",
    )

    def __init__(
        self,
        client: bytes,
        envelope: bytes,
        body: bytes,
        arrived_ns: int,
        service: Service,
        terms: Terms,
        worker_head: bytes,
        client_head: bytes,
        message_id: bytes,
    ) -> None:
        self.bucket = None
        self.client = client
        self.envelope = envelope
        self.body = body
        self.arrived_ns = arrived_ns
        self.deadline_ns = arrived_ns + terms.timeout_ms * NS_PER_MS
        self.service = service
        self.terms = terms
        #: Headers up to the hole for the message_id, which is a JSON text here.
        self.worker_head = worker_head
        self.client_head = client_head
        self.message_id = message_id
        self.attempt = 0
        self.stage = NEW
        self.ticket = b""
        #: Since when it has been in the backlog; the time that a worker had it for does not count.
        self.queued_ns = 0

    def worker_header(self, now_ns: int) -> bytes:
        """The header that the worker sees: what the router prepared, the id, the attempt and the time left."""
        left_ms = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
        return b'%b%b,"attempt":%d,"timeout_ms":%d}' % (self.worker_head, self.message_id, self.attempt, left_ms)
