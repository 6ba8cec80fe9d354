"""What becomes of the edits of a broker that was forgotten: before, after, and by way of others."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from famulus.core.config.draft import Draft, parents_for
from famulus.core.config.edit import SignedEdit, public_key_in
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective
from famulus.core.config.revocation import ID_CHARS, KEPT_MAX, heads_among, revoked_key, values
from famulus.lab.sim.config.pen import Pen, broker_value, root_pen, verify


class Brokers:
    """One set of edits, in which brokers write as they like: `b2` and `b3` were made known by the root, `b4` by b2."""

    def __init__(self) -> None:
        root = root_pen("root")
        self.pens = {"root": root} | {name: Pen(name, root.network) for name in ("b2", "b3", "b4")}
        self.edits = EditSet(root.network, verify)
        self._clock = 0
        self.edits.add([root.write_root()])
        self.writes("root", "family/a", {})
        for name, by in (("b2", "root"), ("b3", "root"), ("b4", "b2")):
            self.writes(by, f"broker/{name}", broker_value(self.pens[name]))

    def key(self, name: str) -> str:
        return self.pens[name].public_key

    def writes(self, name: str, key: str, value: Any, parents: tuple[str, ...] | None = None) -> SignedEdit:
        """As that broker would, with the newest grant there ever was for it."""
        self._clock += 1
        seen = parents_for(self.edits, key) if parents is None else parents
        draft = Draft(key, "DEL" if value is None else "PUT", value, tuple(sorted(seen)))
        grant = [each for each in self.edits.history(f"broker/{name}") if public_key_in(each.edit) == self.key(name)]
        signed = self.pens[name].write(draft, grant[-1].id, self._clock, self._clock)
        assert self.edits.add([signed]).new == (signed,)
        return signed

    def forgets(self, by: str, name: str) -> list[SignedEdit]:
        public_key = self.key(name)
        told = [self.writes(by, f"broker/{name}", None)]
        for part, value in enumerate(values(name, "a", self.edits.signed_by(public_key))):
            told.append(self.writes(by, f"revoked/{public_key}/{part}", value))
        return told

    @property
    def config(self) -> Effective:
        return effective(self.edits)

    def timeout(self, service: str = "echo") -> int | None:
        policy = self.config.services.get(service)
        return policy.timeout_ms if policy is not None else None


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def test_what_it_said_before_is_kept_and_what_it_says_after_does_not_count(brokers: Brokers) -> None:
    brokers.writes("b2", "service/echo", {"timeout_ms": 1})
    brokers.forgets("root", "b2")
    assert brokers.timeout() == 1
    late = brokers.writes("b2", "service/echo", {"timeout_ms": 2})
    new = brokers.writes("b2", "service/more", {})
    assert brokers.timeout() == 1
    assert late.id in brokers.edits, "it is in the set all the same"
    assert brokers.edits.revocations.void == {late.id, new.id}
    assert "service/more" not in brokers.config.services
    assert brokers.edits.keys().count("service/more") == 0


def test_what_does_not_count_is_listed(brokers: Brokers) -> None:
    brokers.forgets("root", "b2")
    late = brokers.writes("b2", "service/echo", {})
    told = [(each.key, each.sentence) for each in brokers.config.warnings]
    assert told == [("service/echo", f"edit {late.id[:8]} at broker 'b2' does not count: it was forgotten before")]


def test_a_long_list_is_cut(brokers: Brokers) -> None:
    brokers.forgets("root", "b2")
    for number in range(60):
        brokers.writes("b2", f"service/s{number}", {})
    warnings = brokers.config.warnings
    assert len(warnings) == 51
    assert warnings[-1].sentence == "and 10 more edits do not count"


def test_nobody_listens_to_it_any_more_even_if_its_place_was_changed_at_the_same_time(brokers: Brokers) -> None:
    present = parents_for(brokers.edits, "broker/b2")
    brokers.forgets("root", "b2")
    brokers.writes("b3", "broker/b2", broker_value(brokers.pens["b2"], frontend_port=9), present)
    assert "b2" not in brokers.config.brokers, "whatever the clocks say"
    assert any("key was revoked" in each.sentence for each in brokers.config.warnings)


def test_a_later_edit_of_another_holds_and_makes_no_conflict(brokers: Brokers) -> None:
    before = brokers.writes("root", "service/echo", {"timeout_ms": 1})
    brokers.forgets("root", "b2")
    late = brokers.writes("b2", "service/echo", {"timeout_ms": 2}, (before.id,))
    assert brokers.edits.heads("service/echo") == (before,)
    mine = brokers.writes("b3", "service/echo", {"timeout_ms": 3})
    assert mine.edit.parents == (before.id,)
    # Somebody who had not heard yet built upon what does not count.
    other = brokers.writes("b3", "service/echo", {"timeout_ms": 4}, (late.id, mine.id))
    assert brokers.edits.heads("service/echo") == (other,)
    assert brokers.config.conflicts == ()


def test_what_builds_upon_a_void_edit_also_replaces_what_that_one_replaced(brokers: Brokers) -> None:
    before = brokers.writes("root", "service/echo", {"timeout_ms": 1})
    brokers.forgets("root", "b2")
    late = brokers.writes("b2", "service/echo", {"timeout_ms": 2}, (before.id,))
    other = brokers.writes("b3", "service/echo", {"timeout_ms": 3}, (late.id,))
    assert brokers.edits.heads("service/echo") == (other,)
    assert heads_among([before, late, other], frozenset({late.id})) == {other.id: other}


def test_whom_it_makes_known_afterwards_is_not_known(brokers: Brokers) -> None:
    brokers.forgets("root", "b2")
    brokers.pens["b9"] = Pen("b9", brokers.edits.network)
    brokers.writes("b2", "broker/b9", broker_value(brokers.pens["b9"]))
    said = brokers.writes("b9", "service/echo", {"timeout_ms": 9})
    assert "b9" not in brokers.config.brokers
    assert brokers.timeout() is None
    assert said.id in brokers.edits.revocations.void
    # Whom somebody else makes known as well, is.
    brokers.writes("b3", "broker/b9", broker_value(brokers.pens["b9"]))
    assert brokers.timeout() == 9


def test_whom_it_made_known_before_stays(brokers: Brokers) -> None:
    brokers.forgets("root", "b2")
    brokers.writes("b4", "service/echo", {"timeout_ms": 4})
    assert brokers.timeout() == 4
    assert "b4" in brokers.config.brokers


def test_nobody_takes_back_its_own_revocation(brokers: Brokers) -> None:
    brokers.forgets("b3", "b2")
    brokers.writes("b2", f"revoked/{brokers.key('b2')}/0", None)
    brokers.writes("b2", "broker/b2", broker_value(brokers.pens["b2"]))
    brokers.writes("b2", "service/echo", {})
    assert "b2" not in brokers.config.brokers
    assert brokers.timeout() is None


def test_an_admin_can_take_it_back_at_another_broker(brokers: Brokers) -> None:
    brokers.forgets("root", "b2")
    brokers.writes("b2", "service/echo", {"timeout_ms": 2})
    brokers.writes("b3", f"revoked/{brokers.key('b2')}/0", None)
    brokers.writes("b3", "broker/b2", broker_value(brokers.pens["b2"]))
    assert "b2" in brokers.config.brokers
    assert brokers.timeout() == 2
    assert brokers.edits.revocations.void == frozenset()


def test_whom_a_senior_forgot_has_no_say_about_others(brokers: Brokers) -> None:
    brokers.forgets("root", "b2")
    brokers.forgets("b2", "b3")
    brokers.forgets("b2", "root")
    assert set(brokers.config.brokers) == {"root", "b3", "b4"}
    brokers.writes("b3", "service/echo", {"timeout_ms": 3})
    assert brokers.timeout() == 3


def test_brokers_of_one_rank_can_forget_each_other_until_somebody_ends_it(brokers: Brokers) -> None:
    present = {name: parents_for(brokers.edits, f"broker/{name}") for name in ("b2", "b3")}
    known = {name: brokers.edits.signed_by(brokers.key(name)) for name in ("b2", "b3")}
    for by, name in (("b2", "b3"), ("b3", "b2")):
        brokers.writes(by, f"broker/{name}", None, present[name])
        (value,) = values(name, "a", known[name])
        brokers.writes(by, f"revoked/{brokers.key(name)}/0", value, ())
    assert set(brokers.config.brokers) == {"root", "b4"}
    for name in ("b2", "b3"):
        brokers.writes("root", f"revoked/{brokers.key(name)}/0", None)
    brokers.writes("root", "broker/b3", broker_value(brokers.pens["b3"]))
    assert "b3" in brokers.config.brokers


def test_the_verdict_is_the_same_in_whatever_order_the_edits_come(brokers: Brokers) -> None:
    before = len(brokers.edits)
    brokers.forgets("b3", "b2")
    brokers.writes("b2", "service/echo", {"timeout_ms": 2})
    brokers.forgets("b2", "b3")
    edits = list(brokers.edits)
    for order in permutations(edits[before:]):
        other = EditSet(brokers.edits.network, verify)
        other.add(edits[:before])
        other.add(order)
        assert effective(other).to_bytes() == brokers.config.to_bytes()
        assert other.revocations == brokers.edits.revocations


def test_many_edits_are_kept_in_several_parts() -> None:
    ids = [f"{number:064x}"[::-1] for number in range(KEPT_MAX + 1)]
    first, second = values("b2", "a", ids)
    assert [*first["kept"], *second["kept"]] == sorted(each[:ID_CHARS] for each in ids)  # type: ignore[misc]
    assert values("b2", "a", []) == [{"identity": "b2", "family": "a", "kept": []}]


def test_rubbish_in_a_revocation_keeps_nothing_and_breaks_nothing(brokers: Brokers) -> None:
    for number, value in enumerate((7, {"kept": 7}, {"kept": [7, None]}, [])):
        brokers.writes("root", f"revoked/{brokers.key('b2')}/{number}", value)
    brokers.writes("root", "revoked/", {})
    brokers.writes("root", "revoked/nobody", {})
    assert "b2" not in brokers.config.brokers
    assert revoked_key("revoked/k/0") == "k"
    assert revoked_key("service/k") == ""
