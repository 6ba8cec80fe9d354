"""Decides who gets a name that another worker has: nobody, while that one is there and answers. Uses no sockets.

The broker may not have noticed yet that the holder of the name is gone, so it asks. Any message from the holder ends
the claim; if its connection turns out to be closed, or it says nothing for a while, the name goes to the first one that
claimed it. A worker that was cut off and comes back proves with its token that the name is its own, and need not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.wire.limits import HEARTBEATS_UNTIL_LOST

if TYPE_CHECKING:
    from famulus.core.dispatch.questions import Question
    from famulus.core.dispatch.session import Session

#: A worker says something once per heartbeat anyway; one with a longer heartbeat than this has to answer.
ANSWER_NS: Final = 2 * NS_PER_S
#: How often we check whether it has said something. Nor is a name asked about more often than that.
LOOK_NS: Final = 20 * NS_PER_MS
#: Even two workers that claim the same name at once are most unlikely, and more than this is somebody's mistake.
CLAIMANTS_MAX: Final = 10

Frames = list[bytes]


class Claim:
    """Those who want a name, by connection: what each of them said, and what a router decided about it."""

    __slots__ = ("answer_by_ns", "claimants", "holder", "made_ns")

    def __init__(self, holder: Session, now_ns: int) -> None:
        self.holder = holder
        self.made_ns = now_ns
        self.answer_by_ns = now_ns + min(holder.silence_ns // HEARTBEATS_UNTIL_LOST, ANSWER_NS)
        self.claimants: dict[bytes, tuple[Question, Frames]] = {}


class Claims:
    def __init__(self) -> None:
        self._by_identity: dict[bytes, Claim] = {}
        self.next_due_ns: int = NEVER_NS

    def make(self, holder: Session, question: Question, decision: Frames, now_ns: int) -> bool | None:
        """Whether to ask the worker that has the name; None if too many others already claim it."""
        claim = former = self._by_identity.get(holder.identity)
        if claim is None or claim.holder is not holder:
            claim = self._by_identity[holder.identity] = Claim(holder, now_ns)
            if former is not None:
                claim.claimants = former.claimants
        if len(claim.claimants) >= CLAIMANTS_MAX and question.asker not in claim.claimants:
            return None
        claim.claimants[question.asker] = (question, decision)
        self.next_due_ns = min(self.next_due_ns, now_ns + LOOK_NS)
        return claim is not former

    def due(self, now_ns: int) -> list[tuple[Claim, bool]]:
        """The claims that are decided, and for each whether the present holder keeps the name."""
        if now_ns < self.next_due_ns:
            return []
        decided: list[tuple[Claim, bool]] = []
        for identity, claim in list(self._by_identity.items()):
            holder = claim.holder
            is_there = not holder.ended and holder.seen_ns > claim.made_ns
            if is_there or holder.ended or claim.answer_by_ns <= now_ns:
                decided.append((claim, is_there))
                del self._by_identity[identity]
        self.next_due_ns = now_ns + LOOK_NS if self._by_identity else NEVER_NS
        return decided

    def forgive(self, pause_ns: int) -> None:
        """We were asleep for this long ourselves, and could not hear anybody."""
        for claim in self._by_identity.values():
            claim.made_ns += pause_ns
            claim.answer_by_ns += pause_ns
