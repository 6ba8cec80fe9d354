"""Every world of three brokers and three edits, one by one: there is no order of events that breaks an invariant.

A state is what each broker was given so far. From it, a broker may make the next edit of a script, upon whatever it
sees, or any broker may give any other any one edit that it holds. Breadth first, until no new state is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, Literal

import pytest

from famulus.core.config import sync
from famulus.core.config.draft import Draft, parents_for
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import effective
from famulus.core.config.sync import Edits, Message
from famulus.lab.sim.config.invariants import Ledger, check_closure, check_heads, check_reading
from famulus.lab.sim.config.pen import Pen, root_pen, verify

ROOT = root_pen("b0")
PENS = [ROOT, Pen("b1", ROOT.network), Pen("b2", ROOT.network)]
FIRST = ROOT.write_root()
#: What all know from the beginning.
KNOWN = [FIRST, *(ROOT.write(pen.introduction(), FIRST.id, 0, 1) for pen in PENS[1:])]
GRANTS = [signed.id for signed in KNOWN]

Op = tuple[str, Literal["PUT", "DEL"], Any]
Given = frozenset[SignedEdit]

SCRIPTS: dict[str, list[Op]] = {
    "different keys": [("family/a", "PUT", {}), ("family/b", "PUT", {}), ("service/x", "PUT", {})],
    "one key": [("family/a", "PUT", {"heartbeat_ms": number}) for number in (100, 200, 300)],
    "a revoked admin": [
        ("admin/a/ann", "PUT", {"hash": "1"}),
        ("admin/a/ann", "DEL", None),
        ("admin/a/ann", "PUT", {"hash": "2"}),
    ],
    "a disabled broker": [("broker_state/b1", "PUT", {"state": state}) for state in ("active", "disabled", "joining")],
    "a family that is gone": [
        ("family/a", "PUT", {"fallback_families": ["a", "b"]}),
        ("family/b", "PUT", {"fallback_families": ["a"]}),
        ("family/a", "DEL", None),
    ],
}


@dataclass(frozen=True, slots=True)
class State:
    given: tuple[Given, Given, Given]
    #: How many edits of the script were made, in whatever became of them.
    made: int = 0
    #: Of the first broker.
    backup: Given = frozenset()


class Model:
    def __init__(self, script: list[Op], *, backups: bool = False) -> None:
        self.script = script
        self.backups = backups
        self.ledger = Ledger()
        self.sets: dict[Given, EditSet] = {}
        self.paired: set[frozenset[Given]] = set()
        self.stepped: set[tuple[Given, Given]] = set()
        self.transitions = 0

    def explore(self) -> int:
        """Every state that can be reached; how many there are."""
        nobody: Given = frozenset()
        start = State((nobody, nobody, nobody))
        seen = {start}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            self.check(state)
            for after, at, restored in self.steps(state):
                self.transitions += 1
                step = state.given[at], after.given[at]
                if not restored and step not in self.stepped:
                    self.stepped.add(step)
                    self.check_step(*step)
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        return len(seen)

    def steps(self, state: State) -> Iterator[tuple[State, int, bool]]:
        """What can happen next, to whom, and whether it was a restore."""
        for at in range(3):
            if state.made < len(self.script):
                signed = self.edit(state, at)
                yield self.give(state, at, signed, made=state.made + 1), at, False
            for other in range(3):
                for signed in self.edits(state.given[other]):
                    if signed not in KNOWN and signed not in state.given[at]:
                        yield self.give(state, at, signed, made=state.made), at, False
        if self.backups:
            yield State(state.given, state.made, state.given[0]), 0, False
            yield State((state.backup, *state.given[1:]), state.made, state.backup), 0, True

    def edit(self, state: State, at: int) -> SignedEdit:
        key, op, value = self.script[state.made]
        draft = Draft(key, op, value, parents_for(self.edits(state.given[at]), key))
        return PENS[at].write(draft, GRANTS[at], state.made, state.made)

    def give(self, state: State, at: int, signed: SignedEdit, made: int) -> State:
        one, two, three = (given | {signed} if place == at else given for place, given in enumerate(state.given))
        return State((one, two, three), made, state.backup)

    def edits(self, given: Given) -> EditSet:
        """The set of a broker that was given these: in whatever order, it is the same one."""
        if given not in self.sets:
            orders = permutations(sorted(given, key=lambda signed: signed.id))
            sets = [self.build(order) for order in orders]
            assert len({(edits.digest, tuple(map(edits.heads, edits.keys())), edits.orphans) for edits in sets}) == 1
            for edits in sets:
                check_closure(edits, edits)
                check_reading(self.ledger, edits, effective(edits))
            self.sets[given] = sets[0]
        return self.sets[given]

    def build(self, order: tuple[SignedEdit, ...]) -> EditSet:
        edits = EditSet(ROOT.network, verify)
        edits.add(KNOWN)
        for signed in order:
            edits.add([signed])
        return edits

    # -- what must hold -----------------------------------------------------------------------------------------

    def check(self, state: State) -> None:
        everything = {signed for given in state.given for signed in self.edits(given)}
        if not self.backups:
            assert len(everything) == len(KNOWN) + state.made, "an edit that was made is nowhere"
        for pair in combinations(state.given, 2):
            if frozenset(pair) not in self.paired:
                self.paired.add(frozenset(pair))
                self.check_exchange(*pair)

    def check_step(self, before: Given, after: Given) -> None:
        was, now = self.edits(before), self.edits(after)
        assert all(signed.id in now for signed in was), "a set shrank, and nobody restored it"
        keys = was.keys()
        heads = {key: {signed.id for signed in was.heads(key)} for key in keys}
        check_heads(heads, now, [signed for signed in now if signed.id not in was])

    def check_exchange(self, one: Given, other: Given) -> None:
        """Two that talk once hold the same; so, step by step, all do that are connected."""
        both = self.build(tuple(one)), self.build(tuple(other))
        union = self.build((*one, *other))
        pile: list[tuple[int, Message]] = [(place, sync.heartbeat(both[place])) for place in (0, 1)]
        while pile:
            sender, message = pile.pop(0)
            receiver = both[1 - sender]
            if isinstance(message, Edits):
                new = receiver.add(message.edits).new
                # Among them may be orphans that waited here, and that the other has never heard of.
                answers = sync.missing(receiver) + (sync.news(receiver, new) if new else [])
            else:
                answers = sync.answer(receiver, message)
            pile += [(1 - sender, answer) for answer in answers]
        held = {signed.id for edits in (self.edits(one), self.edits(other)) for signed in edits}
        assert both[0].digest == both[1].digest
        assert held <= {signed.id for signed in both[0]} <= {signed.id for signed in union}


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_order_of_three_edits_at_three_brokers_breaks_an_invariant(name: str) -> None:
    model = Model(SCRIPTS[name])
    states = model.explore()
    assert states > 1000


@pytest.mark.parametrize("name", SCRIPTS)
def test_nor_does_a_broker_that_is_restored_from_a_backup_at_any_time(name: str) -> None:
    model = Model(SCRIPTS[name][:2], backups=True)
    states = model.explore()
    assert states > 500
