"""Passes requests of admins to the steward, with who sent them, and its answers back. Reads neither.

The steward may be away, or slow (checking a password is slow on purpose): what it does not answer in time is answered
here. Bounded: admins are few. Nothing here knows who is one. So one client has only a few requests open, the steward
has only a few in total, and the next one that it gets is from a client with as few open ones as any. When too many
wait, the client with the most of them has its oldest refused: whoever fills the list keeps nobody out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.dispatch.strangers import host_of
from famulus.wire import reasons
from famulus.wire.headers import write_error

if TYPE_CHECKING:
    from famulus.core.dispatch.outgoing import Outgoing
    from famulus.core.dispatch.questions import Question

OPEN_MAX: Final = 100
OPEN_OF_ONE_MAX: Final = 8
#: With the steward at the same time; the others wait here, where they can still be refused.
PASSED_ON_MAX: Final = 16
ANSWER_NS: Final = 20 * NS_PER_S

_NOBODY: Final = write_error(reasons.NOT_ALLOWED, "this broker belongs to no network, so there is nothing to manage")
_AWAY: Final = write_error(reasons.BROKER_LOST, "the steward is away, and is started again; try again")
_BUSY: Final = write_error(reasons.OVERLOAD, "too many admins at once")
_SILENT: Final = write_error(reasons.BROKER_LOST, "the steward did not answer; look before you try again")


class Managing:
    def __init__(self, out: Outgoing) -> None:
        self._out = out
        #: The routing id of the steward's connection; empty while there is none.
        self.steward = b""
        #: What distinguishes the last steward from those before and after it; empty if there was none.
        self._life = b""
        #: None has been there yet, but one will be: whoever asks before that waits for it.
        self.is_expected = False
        #: Oldest first, and when each has waited long enough.
        self._open: dict[bytes, Question] = {}
        self._due_ns: dict[bytes, int] = {}
        #: Those that the steward has not been given yet.
        self._waiting: dict[bytes, Question] = {}
        #: How many are open, by client.
        self._counts: dict[bytes, int] = {}

    def ask(self, question: Question, now_ns: int) -> None:
        if not self.steward and not self.is_expected:
            self._out.clients.append([question.asker, question.envelope, _AWAY if self._life else _NOBODY, b""])
        elif self._counts.get(question.asker, 0) >= OPEN_OF_ONE_MAX:
            self._out.clients.append([question.asker, question.envelope, _BUSY, b""])
        else:
            if len(self._open) >= OPEN_MAX:
                self._give_up([max(self._waiting, key=self._open_of_its_client)])
            self._counts[question.asker] = self._counts.get(question.asker, 0) + 1
            self._open[question.number] = self._waiting[question.number] = question
            self._due_ns[question.number] = now_ns + ANSWER_NS
            self._pass_on()

    def on_steward(self, steward: bytes, number: bytes, header: bytes, body: bytes) -> None:
        """An answer; or, without a number, the message that the steward is there, and which one it is."""
        self.steward = steward
        if not number:
            self._meet(body)
        if number in self._open:
            self._answer(number, header, body)
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting and self.steward and len(self._open) - len(self._waiting) < PASSED_ON_MAX:
            # Among equals, the oldest is found first.
            number = min(self._waiting, key=self._open_of_its_client)
            request = self._waiting.pop(number)
            whose, host = request.account.name, host_of(request.asker)
            self._out.steward.append([self.steward, number, whose, host, request.header, request.body])

    def _meet(self, life: bytes) -> None:
        """This steward knows nothing of what a former one was asked."""
        if life != self._life:
            self._life = life
            self.is_expected = False
            self._give_up([number for number in self._open if number not in self._waiting])

    def on_steward_gone(self) -> None:
        self.steward = b""

    def on_tick(self, now_ns: int) -> None:
        self._give_up([number for number, due_ns in self._due_ns.items() if due_ns <= now_ns])
        self._pass_on()

    def _give_up(self, numbers: list[bytes]) -> None:
        for number in numbers:
            self._answer(number, _SILENT if number not in self._waiting else _BUSY if self.steward else _AWAY, b"")

    def _open_of_its_client(self, number: bytes) -> int:
        return self._counts[self._waiting[number].asker]

    def _answer(self, number: bytes, header: bytes, body: bytes) -> None:
        request = self._open.pop(number)
        del self._due_ns[number]
        self._waiting.pop(number, None)
        if left := self._counts.pop(request.asker) - 1:
            self._counts[request.asker] = left
        self._out.clients.append([request.asker, request.envelope, header, body])

    @property
    def next_due_ns(self) -> int:
        due_ns: int = NEVER_NS
        for each_ns in self._due_ns.values():
            due_ns = min(due_ns, each_ns)
        return due_ns
