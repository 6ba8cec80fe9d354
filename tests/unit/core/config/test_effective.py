"""What the edits amount to: alike for all, whatever they are."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.config.effective import Effective, Notice, effective, from_heads
from famulus.core.config.schema import Admin, Broker, Family
from famulus.core.delivery import ServicePolicy
from famulus.core.objective import Objective
from famulus.lab.sim.config.pen import broker_value

if TYPE_CHECKING:
    from tests.unit.core.config.conftest import Network


@pytest.fixture
def settled(network: Network) -> Network:
    """With the family that its brokers belong to."""
    network.put("family/a", {})
    return network


def read(network: Network) -> Effective:
    return effective(network.edits)


# -- one head -----------------------------------------------------------------------------------------------------


def test_one_head_counts(settled: Network) -> None:
    settled.put("service/echo", {"max_attempts": 5, "objective": {"share": 0.999, "within_ms": 500}})
    settled.put("admin/a/ann", {"hash": "h"})
    settled.put("broker_state/b2", {"state": "draining"})
    config = read(settled)
    assert config.families == {"a": Family()}
    assert config.brokers == {
        name: Broker("a", f"{name}.example", settled.pens[name].public_key) for name in ("b2", "root")
    }
    assert config.broker_states == {"b2": "draining", "root": "active"}
    assert config.services == {"echo": ServicePolicy(max_attempts=5)}
    assert config.objectives == {"echo": Objective(0.999, 500)}
    assert config.admins == {"a": {"ann": Admin("h")}}
    assert config.conflicts == ()
    assert config.warnings == ()
    assert (config.version, config.digest) == (settled.edits.version, settled.edits.digest)


def test_what_was_deleted_is_not_there(settled: Network) -> None:
    for key, value in [("family/b", {}), ("service/echo", {}), ("admin/a/ann", {"hash": "h"})]:
        settled.delete(key, [settled.put(key, value)])
    settled.delete("broker/b2", settled.edits.heads("broker/b2"))
    config = read(settled)
    assert set(config.families) == {"a"}
    assert set(config.brokers) == set(config.broker_states) == {"root"}
    assert config.services == {}
    assert config.admins == {}


def test_nothing_amounts_to_nothing(network: Network) -> None:
    config = effective(network.empty())
    assert (config.families, config.brokers, config.conflicts) == ({}, {}, ())


def test_a_state_that_was_deleted_or_makes_no_sense_is_disabled(settled: Network) -> None:
    first = settled.put("broker_state/b2", {"state": "active"})
    deleted = settled.delete("broker_state/b2", [first])
    assert read(settled).broker_states["b2"] == "disabled"
    settled.put("broker_state/b2", {"state": "asleep"}, [deleted])
    assert read(settled).broker_states["b2"] == "disabled"


# -- several heads ------------------------------------------------------------------------------------------------


def test_the_latest_counts_and_the_conflict_is_listed(settled: Network) -> None:
    late = settled.put("service/echo", {"max_attempts": 5}, hlc=900)
    early = settled.put("service/echo", {"max_attempts": 7}, hlc=800, by="b2")
    config = read(settled)
    assert config.services["echo"].max_attempts == 5
    (conflict,) = config.conflicts
    assert (conflict.key, conflict.chosen) == ("service/echo", late.id)
    assert [head.id for head in conflict.heads] == sorted([late.id, early.id])
    assert {head.broker for head in conflict.heads} == {"root", "b2"}


def test_a_conflict_lasts_until_an_edit_names_all_heads(settled: Network) -> None:
    a, b, c = (settled.put("service/echo", {"max_attempts": number}) for number in (1, 2, 3))
    d = settled.put("service/echo", {"max_attempts": 4}, [a, b])
    (conflict,) = read(settled).conflicts
    assert {head.id for head in conflict.heads} == {c.id, d.id}
    settled.put("service/echo", {"max_attempts": 5}, [c, d])
    config = read(settled)
    assert config.conflicts == ()
    assert config.services["echo"].max_attempts == 5


def test_among_equal_clocks_the_larger_id_counts(settled: Network) -> None:
    edits = [settled.put("service/echo", {"max_attempts": number}, hlc=5) for number in (1, 2, 3)]
    (conflict,) = read(settled).conflicts
    assert conflict.chosen == max(signed.id for signed in edits)


def test_a_later_delete_of_a_service_counts_and_an_earlier_one_does_not(settled: Network) -> None:
    first = settled.put("service/echo", {})
    settled.put("service/echo", {"max_attempts": 5}, [first], hlc=500)
    settled.delete("service/echo", [first], hlc=400)
    assert "echo" in read(settled).services
    settled.delete("service/echo", [first], hlc=600)
    assert "echo" not in read(settled).services


def test_any_revocation_of_an_admin_counts_however_early(settled: Network) -> None:
    first = settled.put("admin/a/ann", {"hash": "old"}, hlc=100)
    settled.put("admin/a/ann", {"hash": "new"}, [first], hlc=2**53 - 1)
    assert read(settled).admins == {"a": {"ann": Admin("new")}}
    revoked = settled.delete("admin/a/ann", [first], hlc=0)
    config = read(settled)
    assert config.admins == {}
    assert config.conflicts[0].chosen == revoked.id


def test_of_several_hashes_of_an_admin_the_latest_counts_unless_one_makes_no_sense(settled: Network) -> None:
    settled.put("admin/a/ann", {"hash": "one"}, hlc=1)
    settled.put("admin/a/ann", {"hash": "two"}, hlc=2)
    assert read(settled).admins == {"a": {"ann": Admin("two")}}
    settled.put("admin/a/ann", {"word": "pass"}, hlc=0)
    assert read(settled).admins == {}


@pytest.mark.parametrize(
    "states",
    [
        ("active", "joining"),
        ("joining", "draining"),
        ("draining", "disabled"),
        ("active", "draining"),
        ("active", "disabled"),
        ("joining", "disabled"),
    ],
)
def test_the_most_restrictive_state_counts_however_early(settled: Network, states: tuple[str, str]) -> None:
    free, strict = states
    settled.put("broker_state/b2", {"state": free}, hlc=900)
    settled.put("broker_state/b2", {"state": strict}, hlc=1)
    assert read(settled).broker_states["b2"] == strict


@pytest.mark.parametrize("state", ["active", "joining", "draining", "disabled"])
def test_a_state_that_was_deleted_elsewhere_is_disabled(settled: Network, state: str) -> None:
    settled.put("broker_state/b2", {"state": state}, hlc=900)
    deleted = settled.delete("broker_state/b2", hlc=1)
    config = read(settled)
    assert config.broker_states["b2"] == "disabled"
    assert config.conflicts[0].chosen == deleted.id


@pytest.mark.parametrize("other", [{"family": "a", "state": "active"}, {"family": "a", "state": "asleep"}, None])
def test_a_worker_is_drained_if_any_edit_says_so_however_early(settled: Network, other: Any) -> None:
    drained = settled.put("worker/w1", {"family": "a", "state": "drained"}, hlc=1)
    if other is None:
        settled.delete("worker/w1", hlc=900)
    else:
        settled.put("worker/w1", other, hlc=900)
    config = read(settled)
    assert config.drained_workers("b2") == ["w1"]
    assert config.conflicts[0].chosen == drained.id


def test_a_worker_is_drained_at_the_brokers_of_its_family_alone_until_that_is_taken_back(settled: Network) -> None:
    settled.put("family/b", {})
    add_broker(settled, "b3", family="b")
    first = settled.put("worker/w1", {"family": "b", "state": "drained"})
    settled.put("worker/w2", {"family": "b"})
    config = read(settled)
    assert [config.drained_workers(name) for name in ("b2", "b3", "nobody")] == [[], ["w1"], []]
    settled.delete("worker/w1", [first])
    assert read(settled).drained_workers("b3") == []


# -- what cannot be used ------------------------------------------------------------------------------------------


def test_dangling_references_are_flagged(network: Network) -> None:
    network.put("family/b", {"fallback_families": ["nobody", "b"]})
    network.put("broker_state/ghost", {"state": "active"})
    network.put("admin/z/ann", {"hash": "h"})
    network.put("worker/w1", {"family": "z", "state": "drained"})
    config = read(network)
    assert set(config.warnings) == {
        Notice("broker/b2", "there is no family 'a': it belongs to none"),
        Notice("broker/root", "there is no family 'a': it belongs to none"),
        Notice("family/b", "there is no family 'nobody' to fall back on"),
        Notice("broker_state/ghost", "there is no broker 'ghost'"),
        Notice("admin/z/ann", "there is no family 'z'"),
        Notice("worker/w1", "there is no family 'z': no broker does what it says"),
    }
    assert set(config.brokers) == {"b2", "root"}, "peers must still find it, to learn of the family"
    assert config.broker_states.keys() == config.brokers.keys()


def test_unknown_keys_and_fields_are_kept_and_flagged(settled: Network) -> None:
    strange = settled.put("strange/thing", [1, 2])
    settled.put("service/echo", {"colour": "red"})
    config = read(settled)
    assert config.warnings == (
        Notice("service/echo", "the field 'colour' is unknown and ignored"),
        Notice("strange/thing", "no such key is known; it is ignored"),
    )
    assert settled.edits.heads("strange/thing") == (strange,)


def test_fallback_goes_to_near_families_first_and_ends_where_it_began(network: Network) -> None:
    for name, others in {"a": "bc", "b": "da", "c": "ea", "d": "ab", "e": "e?", "f": ""}.items():
        network.put(f"family/{name}", {"fallback_families": list(others)})
    config = read(network)
    assert config.fallback_order("a") == ["b", "c", "d", "e"]
    assert config.fallback_order("d") == ["a", "b", "c", "e"]
    assert config.fallback_order("e") == []
    assert config.fallback_order("nobody") == []


# -- equal bytes --------------------------------------------------------------------------------------------------


def test_equal_edits_give_equal_bytes_in_whatever_order_they_came(settled: Network) -> None:
    settled.put("service/b", {"max_attempts": 1})
    settled.put("service/a", {"max_attempts": 2}, by="b2")
    settled.put("service/a", {"max_attempts": 3})
    written = read(settled).to_bytes()
    for order in permutations(settled.edits):
        edits = settled.empty()
        edits.add(order)
        assert effective(edits).to_bytes() == written


def test_the_order_of_the_keys_makes_no_difference(settled: Network) -> None:
    for key in ("service/b", "service/a"):
        settled.put(key, {})
        settled.put(key, {}, by="b2")
    keys = settled.edits.keys()
    shuffled = {key: settled.edits.heads(key) for key in reversed(keys)}
    assert from_heads(settled.edits.version, settled.edits.digest, shuffled) == read(settled)


# -- what others may see ------------------------------------------------------------------------------------------


@pytest.fixture
def secretive(settled: Network) -> Network:
    settled.put("admin/a/ann", {"hash": "SECRET-1"})
    settled.put("admin/a/ann", {"hash": "SECRET-2"}, by="b2")
    settled.put("admin/z/bob", {"hash": "SECRET-3", "SECRET-4": 1})
    settled.put("service/echo", {"max_attempts": 1})
    settled.put("service/echo", {"max_attempts": 2})
    settled.put("strange/thing", 1)
    return settled


def test_no_conflict_shows_a_value(secretive: Network) -> None:
    assert "SECRET" not in str(read(secretive).conflicts)


# -- brokers and their peers --------------------------------------------------------------------------------------


def add_broker(network: Network, name: str, **fields: Any) -> None:
    known = network.introduce(name)
    network.put(f"broker/{name}", broker_value(network.pens[name], **fields), [known])


def test_brokers_talk_to_each_other_unless_one_leaves_the_other_out(settled: Network) -> None:
    add_broker(settled, "b3", peers=["b2"])
    config = read(settled)
    assert config.are_peers("root", "b2")
    assert config.are_peers("b2", "b3")
    assert config.are_peers("b3", "b2")
    assert not config.are_peers("root", "b3")
    assert not config.are_peers("b3", "root")
    assert not config.are_peers("b2", "b2")
    assert config.warnings == ()


def test_a_broker_that_no_chain_of_peers_leads_to_is_flagged(settled: Network) -> None:
    add_broker(settled, "b3", peers=["nobody"])
    assert [(each.key, each.sentence) for each in read(settled).warnings] == [
        ("broker/b3", "there is no broker 'nobody' to be its peer"),
        # From the first one's side of the gap, all others are beyond it.
        ("broker/b3", "no chain of peers connects it with the other brokers"),
    ]


def test_a_broker_falls_back_where_it_says_or_else_where_its_family_does(settled: Network) -> None:
    for name in ("b", "c"):
        settled.put(f"family/{name}", {})
    settled.put("family/a", {"fallback_families": ["b"]}, settled.edits.heads("family/a"))
    add_broker(settled, "b3", fallback_families=["c", "nobody", "c", "a"])
    add_broker(settled, "b4", fallback_families=[])
    config = read(settled)
    assert config.fallbacks_of("b2") == ["b"]
    assert config.fallbacks_of("b3") == ["c"]
    assert config.fallbacks_of("b4") == []
    assert ("broker/b3", "there is no family 'nobody' to fall back on") in [
        (each.key, each.sentence) for each in config.warnings
    ]


def test_error_workers_are_those_of_the_family_and_of_the_broker(settled: Network) -> None:
    settled.put("family/a", {"error_workers": ["w2", "w1"]}, settled.edits.heads("family/a"))
    add_broker(settled, "b3", error_workers=["w3", "w1"])
    config = read(settled)
    assert config.error_workers("b2") == {"family/a": ("w2", "w1"), "broker/b2": ()}
    assert config.error_workers("b3") == {"family/a": ("w2", "w1"), "broker/b3": ("w3", "w1")}
    assert config.error_workers("nobody") == {}


def test_the_public_view_shows_nothing_about_admins(secretive: Network) -> None:
    view = read(secretive).public_view()
    for word in ("SECRET", "admin", "ann", "bob"):
        assert word not in str(view)


def test_the_public_view_has_the_rest(secretive: Network) -> None:
    view = read(secretive).public_view()
    assert set(view["families"]) == {"a"}
    assert view["brokers"]["b2"]["host"] == "b2.example"
    assert view["broker_states"] == {"b2": "active", "root": "active"}
    assert set(view["services"]) == {"echo"}
    assert [conflict["key"] for conflict in view["conflicts"]] == ["service/echo"]
    assert [warning["key"] for warning in view["warnings"]] == ["strange/thing"]
    assert (view["version"], view["digest"]) == (secretive.edits.version, secretive.edits.digest)
