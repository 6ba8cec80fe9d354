"""A steward: the real core with a thin shell. It writes to its disk before it says anything to anybody.

It does no networking: messages come in, and those that go out are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from famulus.core.config import sync
from famulus.core.config.clock import HybridClock
from famulus.core.config.draft import Draft, Moved, check
from famulus.core.config.edit import SignedEdit, Signer, public_key_in
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective
from famulus.core.config.sync import Edits, Ids, Message, Summary, Want
from famulus.lab.sim.config.disk import Disk
from famulus.lab.sim.config.pen import CHIEF, EVE, Pen, Person, verify

#: The set that a steward goes on with, and which of its edits were not there before.
Merged = tuple[EditSet, tuple[SignedEdit, ...]]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a steward merges; the wrong ways are in `mutants`."""

    answer: Callable[[EditSet, Summary | Ids | Want], list[Message]]
    merge: Callable[[EditSet, Edits], Merged]
    news: Callable[[EditSet, Sequence[SignedEdit]], list[Message]]


def _union(edits: EditSet, came: Edits) -> Merged:
    return edits, edits.add(came.edits).new


#: The union of the edits, where a conflict is shown until it is resolved.
RIGHT = Rules(sync.answer, _union, sync.news)


@dataclass(frozen=True, slots=True)
class SentLetters:
    #: To the sender of the message.
    replies: tuple[bytes, ...] = ()
    #: To everybody who listens.
    news: tuple[bytes, ...] = ()
    #: What was not in the set before.
    new: tuple[SignedEdit, ...] = ()


class Steward:
    rules: Rules = RIGHT

    def __init__(self, pen: Pen, random: Random) -> None:
        self.pen = pen
        self.name = pen.broker
        self.disk = Disk()
        self.alive = False
        self._random = random
        self._forget()

    def start(self, now_ms: int) -> None:
        """All it knows is what is on its disk."""
        self._forget()
        self.edits.add(self.disk.read())
        for signed in self.edits:
            self._clock.observe(signed.edit.hlc, now_ms)
        self.alive = True

    def die(self) -> None:
        self.alive = False
        self.disk.crash(self._random)
        self._forget()

    def _forget(self) -> None:
        self.edits = EditSet(self.pen.network, verify)
        self._clock = HybridClock()

    # -- what it does -------------------------------------------------------------------------------------------

    def heartbeat(self) -> bytes:
        return sync.write(sync.heartbeat(self.edits))

    def read(self) -> Effective:
        return effective(self.edits)

    def on_message(self, data: bytes, now_ms: int) -> SentLetters:
        message = sync.read(data)
        if not isinstance(message, Edits):
            return SentLetters(replies=_written(self.rules.answer(self.edits, message)))
        edits, new = self.rules.merge(self.edits, message)
        if edits is not self.edits:
            self.disk.restore()
            self.edits = edits
        return self._grown(new, sync.missing(self.edits), now_ms)

    def accept(self, draft: Draft, author: str, now_ms: int) -> tuple[SignedEdit, SentLetters] | Moved | None:
        """An admin's edit. None if this broker may not accept any: it or the admin is not known, or not yet here."""
        signers = self.signers(*CHIEF) if self.edits.needs_proofs else {}
        if not self._grant or signers is None:
            return None
        moved = check(self.edits, draft)
        if moved is not None:
            return moved
        hlc, nonce = self._clock.next(now_ms), self._random.getrandbits(64)
        return self._write(draft, hlc, nonce, CHIEF[0].name if signers else author, signers, now_ms)

    def forge(
        self, draft: Draft, hlc: int, nonce: int, now_ms: int, *, proven: bool
    ) -> tuple[SignedEdit, SentLetters] | None:
        """As a modified broker does: it signs what it likes, for its own admin or for nobody, and ignores rights."""
        signers = self.signers(EVE) if proven else {}
        if not self._grant or signers is None:
            return None
        return self._write(draft, hlc, nonce, EVE.name, signers, now_ms)

    @property
    def _grant(self) -> str:
        return self.edits.grant_of(self.name, self.pen.public_key)

    def signers(self, *people: Person) -> dict[str, Signer] | None:
        """What proves that an edit is theirs; None if they are not known here."""
        found: dict[str, Signer] = {}
        for person in people:
            grants = [each for each in self.edits.heads(person.key) if public_key_in(each.edit) == person.public_key]
            if not grants:
                return None
            found[grants[0].id] = person.sign
        return found

    def _write(
        self, draft: Draft, hlc: int, nonce: int, author: str, signers: dict[str, Signer], now_ms: int
    ) -> tuple[SignedEdit, SentLetters]:
        signed = self.pen.write(draft, self._grant, hlc, nonce, author, signers)
        return signed, self._grown(self.edits.add([signed]).new, [], now_ms)

    def _grown(self, new: tuple[SignedEdit, ...], replies: Sequence[Message], now_ms: int) -> SentLetters:
        if not new:
            return SentLetters(_written(replies))
        for signed in new:
            self.disk.append(signed)
            self._clock.observe(signed.edit.hlc, now_ms)
        self.disk.sync()
        return SentLetters(_written(replies), _written(self.rules.news(self.edits, new)), new)


def _written(messages: Sequence[Message]) -> tuple[bytes, ...]:
    return tuple(sync.write(message) for message in messages)
