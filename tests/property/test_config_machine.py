"""Three stewards to whom anything may happen at any time, one thing after the other, and the invariants after each."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.longer import examples

from famulus.core.config.draft import Draft, Moved, parents_for
from famulus.lab.sim.config.disk import SimulatedCrash
from famulus.lab.sim.config.invariants import Ledger, check_agreement, check_closure, check_growth, check_reading
from famulus.lab.sim.config.pen import Pen, again, root_pen
from famulus.lab.sim.config.steward import SentLetters, Steward

PLACES = st.integers(0, 2)
KEYS = st.sampled_from(["family/a", "service/x", "admin/a/ann", "broker_state/b1"])
VALUES: dict[str, list[Any]] = {
    "family": [{"fallback_families": ["a"]}, {"heartbeat_ms": 500}],
    "service": [{"max_attempts": 1}, {"max_attempts": 2}],
    "admin": [{"hash": "one"}, {"hash": "two"}],
    "broker_state": [{"state": "active"}, {"state": "draining"}, {"state": "disabled"}],
}
NOW_MS = 1_800_000_000_000


class StewardsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        root = root_pen("b0")
        pens = [root, Pen("b1", root.network), Pen("b2", root.network)]
        self.stewards = [Steward(pen, Random(pen.broker)) for pen in pens]
        self.ledger = Ledger()
        #: Under way: sender, receiver, message.
        self.pile: list[tuple[int, int, bytes]] = []
        self.cut: set[frozenset[int]] = set()
        self.backups: list[tuple[bytes, ...]] = []
        self.now_ms = [NOW_MS] * 3
        first = root.write_root()
        self.first = [first, *(root.write(pen.introduction(), first.id, 0, 1) for pen in pens[1:])]

    @initialize(told=st.lists(st.booleans(), min_size=2, max_size=2))
    def begin(self, told: list[bool]) -> None:
        for steward, knows in zip(self.stewards, [True, *told], strict=True):
            for signed in self.first if knows else ():
                steward.disk.append(signed)
            steward.disk.sync()
            steward.start(NOW_MS)
            self.ledger.note(steward.name, steward.edits)
            self.backups.append(steward.disk.records)

    # -- admins -------------------------------------------------------------------------------------------------

    @rule(at=PLACES, key=KEYS, data=st.data())
    def edit(self, at: int, key: str, data: st.DataObject) -> None:
        choice = data.draw(st.sampled_from(VALUES[key.partition("/")[0]]))
        self.submit(at, Draft(key, "PUT", choice, parents_for(self.stewards[at].edits, key)))

    @rule(at=PLACES, key=KEYS)
    def delete_or_revoke(self, at: int, key: str) -> None:
        self.submit(at, Draft(key, "DEL", None, parents_for(self.stewards[at].edits, key)))

    @rule(at=PLACES, seen_at=PLACES, key=KEYS)
    def edit_what_was_seen_elsewhere(self, at: int, seen_at: int, key: str) -> None:
        seen = parents_for(self.stewards[seen_at].edits, key)
        moved = seen != parents_for(self.stewards[at].edits, key)
        answer = self.submit(at, Draft(key, "PUT", {}, seen))
        assert isinstance(answer, Moved) == (moved and self.accepts(at))

    @rule(at=PLACES, data=st.data())
    def resolve(self, at: int, data: st.DataObject) -> None:
        steward = self.stewards[at]
        conflicts = steward.read().conflicts if steward.alive else ()
        if conflicts:
            conflict = data.draw(st.sampled_from(conflicts))
            chosen = data.draw(st.sampled_from(conflict.heads))
            self.submit(at, again(steward.edits, chosen.id))

    def accepts(self, at: int) -> bool:
        steward = self.stewards[at]
        return steward.alive and bool(steward.edits.grant_of(steward.name, steward.pen.public_key))

    def submit(self, at: int, draft: Draft) -> object:
        steward = self.stewards[at]
        if not steward.alive:
            return None
        try:
            answer = steward.accept(draft, "ann", self.now_ms[at])
        except SimulatedCrash:
            steward.die()
            return None
        if isinstance(answer, tuple):
            signed, outgoing = answer
            self.send(at, None, outgoing)
            self.ledger.acknowledged.add(signed.id)
        return answer

    # -- messages -----------------------------------------------------------------------------------------------

    @rule(sender=PLACES, receiver=PLACES)
    def beat(self, sender: int, receiver: int) -> None:
        if self.stewards[sender].alive and sender != receiver:
            self.pile.append((sender, receiver, self.stewards[sender].heartbeat()))

    @precondition(lambda self: self.pile)
    @rule(data=st.data(), again=st.booleans())
    def deliver(self, data: st.DataObject, again: bool) -> None:
        """Any of them: others are overtaken. Again: it stays under way and comes twice."""
        at = data.draw(st.integers(0, len(self.pile) - 1))
        sender, receiver, message = self.pile[at] if again else self.pile.pop(at)
        if frozenset({sender, receiver}) not in self.cut:
            self.arrive(sender, receiver, message)

    @precondition(lambda self: self.pile)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.pile.pop(data.draw(st.integers(0, len(self.pile) - 1)))

    @precondition(lambda self: self.pile)
    @rule()
    def deliver_all(self) -> None:
        """Without it hardly any exchange would ever come to its end."""
        for _ in range(60):
            if not self.pile:
                break
            sender, receiver, message = self.pile.pop(0)
            if frozenset({sender, receiver}) not in self.cut:
                self.arrive(sender, receiver, message)

    def arrive(self, sender: int, receiver: int, message: bytes) -> None:
        steward = self.stewards[receiver]
        if not steward.alive:
            return
        try:
            outgoing = steward.on_message(message, self.now_ms[receiver])
        except SimulatedCrash:
            steward.die()
            return
        self.send(receiver, sender, outgoing)

    def send(self, at: int, asker: int | None, outgoing: SentLetters) -> None:
        check_growth(self.ledger, self.stewards[at], outgoing.new)
        self.pile += [(at, asker, reply) for reply in outgoing.replies if asker is not None]
        self.pile += [(at, other, news) for news in outgoing.news for other in range(3) if other != at]
        # More than this would only make for long examples.
        del self.pile[:-30]

    # -- faults -------------------------------------------------------------------------------------------------

    @rule(one=PLACES, other=PLACES)
    def part(self, one: int, other: int) -> None:
        self.cut.add(frozenset({one, other}))

    @rule()
    def heal(self) -> None:
        self.cut.clear()

    @rule(at=PLACES)
    def crash_before_sync(self, at: int) -> None:
        self.stewards[at].disk.armed = True

    @rule(at=PLACES)
    def kill(self, at: int) -> None:
        self.stewards[at].die()

    @rule(at=PLACES)
    def start(self, at: int) -> None:
        steward = self.stewards[at]
        if not steward.alive:
            steward.start(self.now_ms[at])
            check_growth(self.ledger, steward, list(steward.edits))

    @rule(at=PLACES)
    def back_up(self, at: int) -> None:
        self.backups[at] = self.stewards[at].disk.records

    @rule(at=PLACES)
    def restore(self, at: int) -> None:
        self.stewards[at].die()
        self.stewards[at].disk.restore(self.backups[at])
        self.strike(at)

    @rule(at=PLACES)
    def damage_record(self, at: int) -> None:
        self.stewards[at].die()
        self.stewards[at].disk.damage(Random(len(self.ledger.acknowledged)))
        self.strike(at)

    @rule(at=PLACES, jump_ms=st.sampled_from([-(10**12), -5000, 5000, 10**12]))
    def jump_clock(self, at: int, jump_ms: int) -> None:
        self.now_ms[at] += jump_ms

    def strike(self, at: int) -> None:
        steward = self.stewards[at]
        steward.start(self.now_ms[at])
        self.ledger.note_loss(steward.name, steward.edits)

    # -- what must hold -----------------------------------------------------------------------------------------

    @invariant()
    def every_set_is_closed_and_amounts_to_something(self) -> None:
        for steward in self.stewards:
            if steward.alive:
                check_closure(steward.edits, steward.edits)
                check_reading(self.ledger, steward.edits, steward.read())

    def teardown(self) -> None:
        """Everything heals, and after as many heartbeats as it takes to cross the network all hold the same."""
        self.cut.clear()
        for at, steward in enumerate(self.stewards):
            steward.disk.armed = False
            self.start(at)
        self.agree()
        peacemaker = next((at for at in range(3) if self.accepts(at)), None)
        if peacemaker is not None:
            steward = self.stewards[peacemaker]
            for conflict in steward.read().conflicts:
                self.submit(peacemaker, again(steward.edits, conflict.chosen))
            self.agree()
            assert all(not steward.read().conflicts for steward in self.stewards)

    def agree(self) -> None:
        for sender in range(3):
            for receiver in range(3):
                self.beat(sender, receiver)
            while self.pile:
                self.arrive(*self.pile.pop(0))
        check_agreement(self.ledger, self.stewards)


TestStewards = StewardsMachine.TestCase
# Not explained: that takes longer than a test may.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
TestStewards.settings = settings(max_examples=examples(20), stateful_step_count=50, deadline=None, phases=PHASES)
