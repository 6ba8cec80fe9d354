"""One worker's session: what the dispatcher knows about a worker between its CONNECT and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.chooser import Candidate, mark_of
from famulus.core.rights import not_allowed
from famulus.wire.limits import HEARTBEATS_UNTIL_LOST

if TYPE_CHECKING:
    from famulus.core.dispatch.accounts import Account
    from famulus.core.dispatch.chooser import Chooser
    from famulus.core.dispatch.service import Service
    from famulus.core.dispatch.task import Task
    from famulus.wire.inner import SessionTerms


class Session(Candidate):
    __slots__ = (
        "account",
        "ended",
        "farewell",
        "greeted_ns",
        "identity",
        "peer",
        "ready",
        "running",
        "seen_ns",
        "services",
        "silence_ns",
        "token",
    )

    def __init__(
        self,
        account: Account,
        peer: bytes,
        identity: bytes,
        services: list[Service],
        terms: SessionTerms,
        now_ns: int,
        token: bytes = b"",
    ) -> None:
        #: Whose worker it is.
        self.account = account
        self.peer = peer
        self.identity = identity
        #: What identifies the same worker over another connection; empty if it gave none.
        self.token = token
        self.services = services
        self.slots = self.free = terms.slots
        self.mark = mark_of(identity)
        self.unlisted = [service.chooser for service in services]
        self.silence_ns = terms.heartbeat_ms * NS_PER_MS * HEARTBEATS_UNTIL_LOST
        #: Any message counts as a heartbeat: a busy worker must not look dead.
        self.seen_ns = now_ns
        #: True from its first PONG until it says goodbye: only then can its slots be chosen.
        self.ready = False
        #: When the PING came that made it ready.
        self.greeted_ns = 0
        self.ended = False
        #: Tickets that are out, with their tasks. A task that has already ended stays until its late answer comes,
        #: since the worker is still busy with it.
        self.running: dict[bytes, Task] = {}
        #: The answer to its DISCONNECT, kept until its last task is done.
        self.farewell: list[bytes] | None = None

    def lacks_rights(self) -> bool:
        """Whether it serves something that it may not (any more)."""
        account = self.account
        if account.is_void or not account.name:
            return account.is_void
        return bool(not_allowed(account.terms.serve, [each.name.decode() for each in self.services]))

    def enter(self, greeted_ns: int) -> None:
        """Its first PONG: its slots can be chosen."""
        self.ready = True
        self.greeted_ns = greeted_ns
        for service in self.services:
            service.slots += self.slots
        self._list()

    def give_back_slot(self) -> None:
        self.free += 1
        if self.unlisted and self.ready:
            self._list()

    def leave(self) -> None:
        """It gets no more tasks."""
        for service in self.services:
            service.chooser.leave(self)
            if self.ready:
                service.slots -= self.slots
                if not service.slots:
                    service.service_time.forget()
        self.ready = False

    def exchange(self, former: Chooser, chooser: Chooser) -> None:
        """One of its services chooses otherwise from now on."""
        if former in self.unlisted:
            self.unlisted.remove(former)
            self.unlisted.append(chooser)
        elif self.free:
            chooser.offer(self)
        else:
            self.unlisted.append(chooser)

    def _list(self) -> None:
        if self.free:
            for chooser in self.unlisted:
                chooser.offer(self)
            self.unlisted.clear()


def take_slot(service: Service, task: Task) -> Session | None:
    """A slot of the worker that is chosen for this task, or None if no slot is free."""
    taken = service.chooser.take(task.flow.key)
    assert taken is None or isinstance(taken, Session)
    return taken
