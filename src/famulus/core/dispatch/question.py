"""One question: a header that a router must read; and the router that was asked it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from famulus.core.dispatch.task import Task


class Question:
    __slots__ = ("asker", "body", "envelope", "header", "number", "offers", "origin", "router", "seen_ns", "task")

    def __init__(
        self,
        origin: bytes,
        asker: bytes,
        envelope: bytes,
        header: bytes,
        body: bytes,
        seen_ns: int,
        task: Task | None = None,
    ) -> None:
        self.origin = origin
        self.asker = asker
        self.envelope = envelope
        self.header = header
        self.body = body
        self.seen_ns = seen_ns
        self.task = task
        self.number = b""
        self.offers = 0
        self.router: AskedRouter | None = None


class AskedRouter:
    __slots__ = ("asked", "id", "outbox", "seen_ns")

    def __init__(self, router_id: bytes, now_ns: int) -> None:
        self.id = router_id
        self.seen_ns = now_ns
        self.asked: dict[bytes, Question] = {}
        #: What it is to be asked with the next batch.
        self.outbox: list[list[bytes]] = []
