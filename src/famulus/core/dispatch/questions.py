"""Decides which router is asked what, and asks another one when a router is lost. Uses no sockets.

A question is a header that somebody must read. Routers are stateless, so any of them may be asked; the one with the
least to do is. A router is asked only so much at a time; the rest waits here, where the askers can take turns. What a
lost router left unanswered goes to another. A question that killed three routers is poison, and is given up.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.wire import inner

if TYPE_CHECKING:
    from famulus.core.dispatch.accounts import Account
    from famulus.core.dispatch.bounds import Bounds
    from famulus.core.dispatch.counters import Counters
    from famulus.core.dispatch.task import Task

ROUTER_HEARTBEAT_NS: Final = 500 * NS_PER_MS
ROUTER_SILENCE_NS: Final = 3 * ROUTER_HEARTBEAT_NS
OFFERS_MAX: Final = 3
#: How much a router is asked before it has answered: two full batches, so that it has one to read while we read its
#: answers to the other. Whoever comes next waits for no more than these.
ASKED_MAX: Final = 256


class Question:
    """A header that a router must read."""

    __slots__ = (
        "account", "asker", "body", "envelope", "header", "is_cancelled", "number", "offers", "origin", "router",
        "seen_ns", "task",
    )  # fmt: skip

    def __init__(
        self,
        account: Account,
        origin: bytes,
        asker: bytes,
        envelope: bytes,
        header: bytes,
        body: bytes,
        seen_ns: int,
        task: Task | None = None,
    ) -> None:
        #: Who is behind the connection.
        self.account = account
        self.origin = origin
        self.asker = asker
        self.envelope = envelope
        self.header = header
        self.body = body
        self.seen_ns = seen_ns
        self.task = task
        #: It is about a task that its client does not want any more.
        self.is_cancelled = False
        self.number = b""
        self.offers = 0
        self.router: AskedRouter | None = None


class AskedRouter:
    __slots__ = ("asked", "id", "outbox", "seen_ns")

    def __init__(self, router_id: bytes, now_ns: int) -> None:
        self.id = router_id
        self.seen_ns = now_ns
        self.asked: dict[bytes, Question] = {}
        #: What it will be asked with the next batch.
        self.outbox: list[list[bytes]] = []


class Turns:
    """Decides whose question is next when more is asked than routers can read: everybody in turn.

    Each asker's questions stay in order. However many one of them has, all others get one in first; and however many
    clients and strangers there are, every other question is about a task or a worker that we know.
    """

    def __init__(self) -> None:
        #: By asker; after a turn, an asker goes to the end.
        self._outsiders: OrderedDict[bytes, deque[Question]] = OrderedDict()
        self._workers: OrderedDict[bytes, deque[Question]] = OrderedDict()
        self._outsider_was_last = False

    def __bool__(self) -> bool:
        return bool(self._outsiders) or bool(self._workers)

    def add(self, question: Question) -> None:
        askers = self._outsiders if _is_outsider(question) else self._workers
        waiting = askers.get(question.asker)
        if waiting is None:
            askers[question.asker] = deque((question,))
        else:
            waiting.append(question)

    def take(self) -> Question:
        """The next one; there must be one."""
        self._outsider_was_last = bool(self._outsiders) and not (self._outsider_was_last and self._workers)
        askers = self._outsiders if self._outsider_was_last else self._workers
        asker, waiting = askers.popitem(last=False)
        question = waiting.popleft()
        if waiting:
            askers[asker] = waiting
        return question


def _is_outsider(question: Question) -> bool:
    return question.origin == inner.FROM_CLIENT or question.origin == inner.FROM_STRANGER


class Questions:
    def __init__(self, first_number: int, bounds: Bounds, counters: Counters) -> None:
        self._counters = counters
        # Needed in every turn of the loop; reading them from a struct costs compiled code ten times as much.
        self._max = bounds.questions_max
        self._bytes_max = bounds.questions_bytes_max
        # Numbers start at random, so that what a former dispatcher asked or handed out means nothing to this one.
        self._number = first_number
        self._routers: dict[bytes, AskedRouter] = {}
        self._open: dict[bytes, Question] = {}
        #: Those that no router has been asked yet. One that was decided in the meantime is skipped.
        self._waiting = Turns()
        self._poison: list[Question] = []
        #: Of headers and bodies.
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Question]:
        return iter(self._open.values())

    @property
    def has_room_for_clients(self) -> bool:
        """If not, routers are behind: what clients send can wait in their sockets, which is the cheapest place."""
        return len(self._open) < self._max and self.held_bytes < self._bytes_max

    @property
    def has_room_for_workers(self) -> bool:
        """Workers are read for longer than clients: their answers make room."""
        return len(self._open) < 2 * self._max and self.held_bytes < 2 * self._bytes_max

    @property
    def routers(self) -> list[bytes]:
        return list(self._routers)

    def next_number(self) -> bytes:
        """Eight bytes that are unique in this dispatcher's life: a question's number or a task's ticket."""
        self._number = (self._number + 1) & 0xFFFFFFFFFFFFFFFF
        return self._number.to_bytes(8, "big")

    def ask(self, question: Question) -> None:
        self._number = number = (self._number + 1) & 0xFFFFFFFFFFFFFFFF
        question.number = number.to_bytes(8, "big")
        self.held_bytes += len(question.header) + len(question.body)
        self._offer(question)

    def heard(self, router_id: bytes, now_ns: int) -> None:
        router = self._routers.get(router_id)
        if router is not None:
            router.seen_ns = now_ns

    def answered(self, number: bytes) -> Question | None:
        """The question behind a decision; None if it was already decided, by this router or another."""
        question = self._open.pop(number, None)
        if question is None:
            return None
        if question.router is not None:  # otherwise its router was taken for lost, but was only slow
            del question.router.asked[number]
        self.held_bytes -= len(question.header) + len(question.body)
        return question

    def router_alive(self, router_id: bytes, now_ns: int) -> None:
        self._routers.setdefault(router_id, AskedRouter(router_id, now_ns)).seen_ns = now_ns

    def router_gone(self, router_id: bytes) -> None:
        router = self._routers.pop(router_id, None)
        if router is None:
            return
        self.never_asked(router.outbox)
        for question in router.asked.values():
            self._counters.asked_again += 1
            self._offer(question)

    def take_batches(self) -> list[tuple[bytes, list[list[bytes]]]]:
        """What to send now: for each router that has something to answer, all of its questions."""
        batches: list[tuple[bytes, list[list[bytes]]]] = []
        if not self._open:
            return batches
        if self._waiting:
            self._ask_waiting()
        for router in self._routers.values():
            if router.outbox:
                batches.append((router.id, router.outbox))
                router.outbox = []
        return batches

    def never_asked(self, questions: list[list[bytes]]) -> None:
        """These were never sent, so they are not to blame for whatever became of their router."""
        for number, *_ in questions:
            question = self._open.get(number)
            if question is not None:
                question.offers -= 1

    def take_poison(self) -> list[Question]:
        poison, self._poison = self._poison, []
        return poison

    def on_tick(self, now_ns: int) -> None:
        for router in list(self._routers.values()):
            if router.seen_ns + ROUTER_SILENCE_NS <= now_ns:
                self.router_gone(router.id)

    def forgive(self, pause_ns: int) -> None:
        for router in self._routers.values():
            router.seen_ns += pause_ns

    @property
    def next_due_ns(self) -> int:
        due_ns = NEVER_NS
        if not self._open:
            return due_ns
        for router in self._routers.values():
            # A silent router matters only while it owes an answer.
            if router.asked and router.seen_ns + ROUTER_SILENCE_NS < due_ns:
                due_ns = router.seen_ns + ROUTER_SILENCE_NS
        return due_ns

    def _offer(self, question: Question) -> None:
        if question.offers >= OFFERS_MAX:
            self._open.pop(question.number, None)
            self.held_bytes -= len(question.header) + len(question.body)
            self._poison.append(question)
            return
        self._open[question.number] = question
        router = None if self._waiting else self._least_burdened()
        if router is None:
            question.router = None
            self._waiting.add(question)
        else:
            _give(question, router)

    def _ask_waiting(self) -> None:
        while self._waiting and (router := self._least_burdened()) is not None:
            question = self._waiting.take()
            # It may have been decided in the meantime, or be with a router again.
            if question.router is None and question.number in self._open:
                _give(question, router)

    def _least_burdened(self) -> AskedRouter | None:
        """None if there is no router, or if all have enough to read."""
        routers = self._routers
        if not routers:
            return None
        router = min(routers.values(), key=_burden) if len(routers) > 1 else next(iter(routers.values()))
        return router if len(router.asked) < ASKED_MAX else None


def _give(question: Question, router: AskedRouter) -> None:
    question.offers += 1
    question.router = router
    router.asked[question.number] = question
    router.outbox.append([question.number, question.origin, question.account.name, question.header])


def _burden(router: AskedRouter) -> int:
    return len(router.asked)
