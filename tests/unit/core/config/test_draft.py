"""What an admin wants: refused if the key is not what the admin saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from famulus.core.config import draft as drafts
from famulus.core.config.draft import Author, Draft, FieldChange, Moved, check, make, parents_for
from famulus.lab.sim.config import pen

if TYPE_CHECKING:
    from tests.unit.core.config.conftest import Network


def test_a_draft_of_what_is_there_is_fine(network: Network) -> None:
    assert check(network.edits, Draft("family/a", "PUT", {}, ())) is None
    a = network.put("family/a", {})
    assert check(network.edits, Draft("family/a", "PUT", {}, (a.id,))) is None
    b = network.put("family/a", {})
    assert check(network.edits, Draft("family/a", "DEL", None, (a.id, b.id))) is None
    assert check(network.edits, Draft("family/a", "DEL", None, (b.id, a.id))) is None


def test_a_draft_of_what_has_moved_on_is_refused_with_the_difference(network: Network) -> None:
    a = network.put("family/a", {"heartbeat_ms": 500, "drain_ms": 1, "same": 1})
    b = network.put("family/a", {"heartbeat_ms": 900, "same": 1, "new": None}, [a])
    moved = check(network.edits, Draft("family/a", "PUT", {}, (a.id,)))
    assert moved == Moved(
        "family/a",
        (b.id,),
        (FieldChange("drain_ms", seen=1), FieldChange("heartbeat_ms", 500, 900), FieldChange("new", now=None)),
    )
    told = msgspec.json.decode(msgspec.json.encode(moved))
    assert told["difference"][0] == {"field": "drain_ms", "seen": 1}
    assert told["difference"][2] == {"field": "new", "now": None}


def test_a_key_that_came_went_or_is_no_object_is_told_as_a_whole(network: Network) -> None:
    a = network.put("strange/thing", 1)
    new = check(network.edits, Draft("strange/thing", "PUT", 2, ()))
    assert new is not None
    assert new.difference == (FieldChange("", now=1),)
    b = network.put("strange/thing", [2], [a])
    other = check(network.edits, Draft("strange/thing", "PUT", 2, (a.id,)))
    assert other is not None
    assert other.difference == (FieldChange("", 1, [2]),)
    network.delete("strange/thing", [b])
    gone = check(network.edits, Draft("strange/thing", "PUT", 2, (b.id,)))
    assert gone is not None
    assert gone.difference == (FieldChange("", seen=[2]),)


def test_to_see_one_of_two_heads_is_not_enough(network: Network) -> None:
    a = network.put("family/a", {"heartbeat_ms": 500}, hlc=1)
    b = network.put("family/a", {"heartbeat_ms": 900}, hlc=2)
    moved = check(network.edits, Draft("family/a", "PUT", {}, (a.id,)))
    assert moved is not None
    assert moved.heads == tuple(sorted([a.id, b.id]))
    assert moved.difference == (FieldChange("heartbeat_ms", 500, 900),)
    same = check(network.edits, Draft("family/a", "PUT", {}, (b.id,)))
    assert same is not None
    assert same.difference == (), "what counts is the same, but there is a conflict now"


def test_what_the_admin_saw_elsewhere_may_not_be_here_yet(network: Network) -> None:
    a = network.put("family/a", {})
    ahead = network.put("family/a", {"heartbeat_ms": 500}, [a], add=False)
    moved = check(network.edits, Draft("family/a", "PUT", {}, (ahead.id,)))
    assert moved is not None
    assert moved.unknown == (ahead.id,)


def test_a_broker_makes_an_edit_of_it(network: Network) -> None:
    edit = make(
        Draft("family/a", "PUT", {"x": 1}, ("b" * 64, "a" * 64)), Author("ann"), network.id, "b1", "c" * 64, 5, "d" * 16
    )
    assert edit.parents == ("a" * 64, "b" * 64)
    assert (edit.network, edit.key, edit.op, edit.value) == (network.id, "family/a", "PUT", {"x": 1})
    assert (edit.author, edit.broker, edit.grant, edit.hlc, edit.nonce) == ("ann", "b1", "c" * 64, 5, "d" * 16)


def test_a_rollback_says_the_old_anew_and_names_all_heads(network: Network) -> None:
    a = network.put("family/a", {"heartbeat_ms": 500})
    b = network.delete("family/a", [a])
    c = network.put("family/a", {"heartbeat_ms": 900}, [b])
    d = network.put("family/a", {"heartbeat_ms": 800}, [b])
    assert pen.again(network.edits, a.id) == Draft(
        "family/a", "PUT", {"heartbeat_ms": 500}, tuple(sorted([c.id, d.id]))
    )
    again = pen.again(network.edits, b.id)
    assert (again.op, again.value) == ("DEL", None)
    network.edits.add([network.write(again)])
    assert len(network.edits.heads("family/a")) == 1
    assert len(network.edits.history("family/a")) == 5, "nothing is undone"


def test_a_conflict_is_resolved_for_one_of_its_heads(network: Network) -> None:
    old = network.put("family/a", {})
    a = network.put("family/a", {"heartbeat_ms": 500}, [old])
    b = network.delete("family/a", [old])
    for chosen in (a, b):
        resolution = pen.again(network.edits, chosen.id)
        assert resolution == Draft("family/a", chosen.edit.op, chosen.edit.value, tuple(sorted([a.id, b.id])))
        assert check(network.edits, resolution) is None


def test_more_heads_than_an_edit_can_name_are_brought_together_in_steps(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "PARENTS_MAX", 3)
    heads = [network.put("family/a", {"heartbeat_ms": 100 + number}) for number in range(7)]
    for left in (5, 3, 1):
        draft = pen.again(network.edits, network.edits.heads("family/a")[-1].id)
        assert len(draft.parents) == 3
        assert draft.parents == parents_for(network.edits, "family/a")
        assert check(network.edits, draft) is None
        network.edits.add([network.write(draft)])
        assert len(network.edits.heads("family/a")) == left
    assert len(network.edits.history("family/a")) == len(heads) + 3
