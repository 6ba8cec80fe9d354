"""What routers are told: this broker's own config, its family, and who can stand in for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from famulus.core.delivery import ServicePolicy
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.steward.books import book_of, is_host, offers_of
from famulus.core.steward.peer import Peer
from famulus.lab.sim.config.pen import broker_value
from famulus.wire.peers import Beat, Work

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Network


def book(network: Network, name: str = "b1", epoch: int = 7) -> Book:
    core = network[name].core
    made = book_of(core.config, name, core.alive(network.now_ns), epoch)
    assert made is not None
    return made


def beats(
    network: Network, name: str, work: dict[str, tuple[int, int, int]] | None = None, state: str = "active"
) -> None:
    """b1 hears this from one of its peers."""
    counts = {service: Work(*each) for service, each in (work or {}).items()}
    network["b1"].hears(network[name].core.post.write(Beat(1, "", state, counts)))


def others(network: Network) -> list[str]:
    return [other.identity for other in book(network).others]


def edit(network: Network, key: str, value: Any) -> None:
    network["b1"].edits(key, value)
    network.settle()


# -- itself -------------------------------------------------------------------------------------------------------


def test_the_book_is_what_the_config_says_of_this_broker(network: Network) -> None:
    edit(network, "family/a", {"heartbeat_ms": 500, "default_service": {"timeout_ms": 7}})
    edit(network, "service/echo", {"timeout_ms": 5})
    made = book(network)
    assert made.broker == BrokerAddress("b1", "a", "tcp://b1.example:7100", "tcp://b1.example:7101")
    assert made.heartbeat_ms == 500
    assert made.services == {"echo": ServicePolicy(timeout_ms=5)}
    assert made.default_policy == ServicePolicy(timeout_ms=7)
    assert made.version == network["b1"].core.edits.version
    assert made.epoch == 7


def test_a_host_with_colons_is_put_in_brackets(network: Network) -> None:
    edit(network, "broker/b1", broker_value(network.pens["b1"], host="::1", frontend_port=1, backend_port=2))
    assert book(network).broker == BrokerAddress("b1", "a", "tcp://[::1]:1", "tcp://[::1]:2")


def test_while_the_config_does_not_know_this_broker_there_is_no_book(network: Network) -> None:
    edit(network, "broker/b1", None)
    assert book_of(network["b1"].core.config, "b1", [], 1) is None


def test_a_family_that_nobody_knows_has_the_defaults(network: Network) -> None:
    edit(network, "broker/b1", broker_value(network.pens["b1"], family="nowhere"))
    assert book(network).heartbeat_ms == 1000
    assert book(network).family == ()


@pytest.mark.parametrize("state", ["active", "joining", "draining", "disabled"])
def test_the_state_is_the_brokers(network: Network, state: str) -> None:
    edit(network, "broker_state/b1", {"state": state})
    assert book(network).state == state


def test_equal_facts_give_an_equal_book_that_survives_the_way_to_the_routers(network: Network) -> None:
    beats(network, "b2", {"echo": (1, 2, 3)})
    assert book(network) == book(network)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(book(network)), type=Book) == book(network)


def test_whether_others_are_alive_is_nothing_that_workers_notice(network: Network) -> None:
    """Else each beat would give them a new config."""
    before = book(network).digest()
    beats(network, "b2", {"echo": (1, 2, 3)})
    assert book(network).digest() == before


# -- the family ---------------------------------------------------------------------------------------------------


def test_the_family_are_all_its_other_brokers_alive_or_not(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b4", "b3", "b2", b4="b")
    assert [each.identity for each in book(network).family] == ["b2", "b3"]
    assert book(network).family[0].backend == "tcp://b2.example:7101"


def test_workers_are_told_of_the_whole_family(network: Network) -> None:
    told = json.loads(book(network).worker_config("w", ["echo"]))
    assert [each["identity"] for each in told["family_config"]["brokers"]] == ["b1", "b2", "b3"]
    assert told["preferred_broker"] == "b1"
    assert "ann" not in json.dumps(told)
    assert "hash" not in json.dumps(told)


def test_workers_are_told_of_the_families_that_theirs_falls_back_on(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2", "b3", "b4", "b5", b3="second", b4="first", b5="stranger")
    edit(network, "family/a", {"fallback_families": ["first", "second"]})
    told = json.loads(book(network).worker_config("w", ["echo"]))["family_config"]["fallback"]
    assert [(each["identity"], each["family"]) for each in told] == [("b4", "first"), ("b3", "second")]


@pytest.mark.parametrize(("state", "there"), [("disabled", False), ("draining", True), ("joining", True)])
def test_of_the_family_those_are_left_out_that_are_disabled(network: Network, state: str, there: bool) -> None:
    edit(network, "broker_state/b2", {"state": state})
    assert ("b2" in [each.identity for each in book(network).family]) is there


def test_a_broker_that_moves_into_the_family_is_there(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2", b2="b")
    assert book(network).family == ()
    edit(network, "broker/b2", broker_value(network.pens["b2"]))
    assert [each.identity for each in book(network).family] == ["b2"]


# -- those who can stand in ---------------------------------------------------------------------------------------


def test_only_who_is_alive_can_stand_in(network: Network) -> None:
    assert others(network) == []
    beats(network, "b3")
    assert others(network) == ["b3"]
    network.now_ns += 3 * 10**9
    assert others(network) == []


def test_who_has_least_to_do_comes_first(network: Network) -> None:
    beats(network, "b2", {"echo": (1, 9, 0)})
    beats(network, "b3", {"echo": (5, 5, 0)})
    assert others(network) == ["b3", "b2"]
    assert [other.load for other in book(network).others] == [0.5, 0.9]
    beats(network, "b3", {"echo": (0, 10, 10)})
    assert others(network) == ["b2", "b3"]


def test_equally_busy_ones_come_by_name(network: Network) -> None:
    beats(network, "b3")
    beats(network, "b2")
    assert others(network) == ["b2", "b3"]


def test_the_own_family_comes_before_those_that_it_falls_back_on(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2", "b3", "b4", "b5", b3="second", b4="first", b5="stranger")
    edit(network, "family/a", {"fallback_families": ["first", "second"]})
    beats(network, "b2", {"echo": (0, 10, 90)})
    for name in ("b3", "b4", "b5"):
        beats(network, name)
    assert others(network) == ["b2", "b4", "b3"]
    edit(network, "family/first", {"fallback_families": ["stranger"]})
    assert others(network) == ["b2", "b4", "b3", "b5"], "those on which the fallbacks fall back come last"


def test_a_circle_of_families_names_nobody_twice(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2", "b3", b3="b")
    edit(network, "family/a", {"fallback_families": ["b", "a"]})
    edit(network, "family/b", {"fallback_families": ["a"]})
    beats(network, "b2")
    beats(network, "b3")
    assert others(network) == ["b2", "b3"]


@pytest.mark.parametrize("state", ["joining", "draining", "disabled"])
def test_who_is_not_active_does_not_stand_in(network: Network, state: str) -> None:
    """Be it that the config says so, or that it says so itself, since it knows more than we do."""
    beats(network, "b2")
    beats(network, "b3")
    edit(network, "broker_state/b2", {"state": state})
    assert others(network) == ["b3"]
    beats(network, "b3", state=state)
    assert others(network) == []


def test_the_answer_to_who_asks_for_a_broker(network: Network) -> None:
    beats(network, "b2", {"echo": (2, 1, 0)})
    named = json.loads(book(network).brokers())["brokers"]
    assert [(each["identity"], each["load"]) for each in named] == [("b1", 0.0), ("b2", 0.333)]
    assert named[1] == {
        "identity": "b2",
        "frontend": "tcp://b2.example:7100",
        "backend": "tcp://b2.example:7101",
        "family": "a",
        "load": 0.333,
    }
    edit(network, "broker_state/b1", {"state": "disabled"})
    assert [each["identity"] for each in json.loads(book(network).brokers())["brokers"]] == ["b2"]


@pytest.mark.parametrize(
    ("work", "load"),
    [
        ({}, 0.0),
        ({"a": (0, 0, 0)}, 0.0),
        ({"a": (4, 0, 0)}, 0.0),
        ({"a": (2, 2, 0)}, 0.5),
        ({"a": (0, 4, 0)}, 1.0),
        ({"a": (0, 4, 4)}, 2.0),
        ({"a": (4, 0, 0), "b": (0, 4, 0)}, 0.5),
        # Tasks wait, and nobody offers the service any more.
        ({"a": (0, 0, 3)}, 1.0),
    ],
)
def test_load(network: Network, work: dict[str, tuple[int, int, int]], load: float) -> None:
    peer = Peer("b2", network["b1"].core.config.brokers["b2"])
    peer.hear(Beat(1, "", "active", {name: Work(*each) for name, each in work.items()}), 1)
    assert peer.load() == load


# -- what the dispatcher is told -----------------------------------------------------------------------------------


def offers(network: Network) -> list[tuple[str, str, int, dict[str, int]]]:
    core = network["b1"].core
    return offers_of(core.config, "b1", core.alive(network.now_ns))


def test_the_dispatcher_is_told_who_has_slots_free_and_how_near_it_is(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2", "b3", "b4", "b5", b3="second", b4="first", b5="stranger")
    edit(network, "family/a", {"fallback_families": ["first", "second"]})
    for name in ("b2", "b3", "b4", "b5"):
        beats(network, name, {"echo": (3, 1, 0), "busy": (0, 4, 2), "without workers": (0, 0, 2)})
    free = {"echo": 3, "busy": 0}
    assert sorted(offers(network)) == [
        ("b2", "tcp://b2.example:7100", 0, free),
        ("b3", "tcp://b3.example:7100", 2, free),
        ("b4", "tcp://b4.example:7100", 1, free),
    ]


@pytest.mark.parametrize("state", ["joining", "draining", "disabled"])
def test_who_is_not_active_offers_nothing_but_is_there(network: Network, state: str) -> None:
    """It may still owe answers; who is not named is taken for lost, with all that was handed over to it."""
    beats(network, "b2", {"echo": (1, 0, 0)})
    beats(network, "b3", {"echo": (1, 0, 0)})
    edit(network, "broker_state/b2", {"state": state})
    assert {name: free for name, _, _, free in offers(network)} == {"b2": {}, "b3": {"echo": 1}}
    beats(network, "b3", {"echo": (1, 0, 0)}, state=state)
    assert {name: free for name, _, _, free in offers(network)} == {"b2": {}, "b3": {}}


def test_to_a_broker_that_the_network_does_not_know_nobody_offers_anything(network: Network) -> None:
    beats(network, "b2", {"echo": (1, 0, 0)})
    edit(network, "broker/b1", None)
    assert offers(network) == []


# -- places where nobody can be -------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["10.0.0.7", "b1", "b-1.example.org", "under_score", "::1", "fe80::1%eth0"])
def test_hosts(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("host", ["", "*", "no host", "a/b", "b1:\n", "é", "[::1]", "-x", "tcp://b1", "a;b"])
def test_what_is_no_host(host: str) -> None:
    assert not is_host(host)


def test_brokers_at_no_place_are_named_to_nobody(network: Network) -> None:
    """Whoever was told to connect there would stumble."""
    beats(network, "b2", {"echo": (1, 0, 0)})
    beats(network, "b3", {"echo": (1, 0, 0)})
    edit(network, "broker/b2", broker_value(network.pens["b2"], host="no host"))
    assert others(network) == ["b3"]
    assert [offer[0] for offer in offers(network)] == ["b3"]
    assert [each.identity for each in book(network).family] == ["b3"]


# -- what its own key says ----------------------------------------------------------------------------------------


def test_the_services_of_a_broker_are_in_the_book(network: Network) -> None:
    edit(network, "broker/b1", broker_value(network.pens["b1"], services=["echo"]))
    edit(network, "broker/b2", broker_value(network.pens["b2"], services=["sum"]))
    made = book(network)
    assert made.broker.services == ("echo",)
    assert {member.identity: member.services for member in made.family} == {"b2": ("sum",), "b3": None}


def test_nothing_is_handed_over_that_a_peer_does_not_serve(network: Network) -> None:
    """Its dispatcher may count slots of a worker that offers more than the broker is for."""
    edit(network, "broker/b2", broker_value(network.pens["b2"], services=["sum"]))
    beats(network, "b2", {"sum": (1, 0, 0), "echo": (5, 0, 0)})
    core = network["b1"].core
    offers = {identity: free for identity, _, _, free in offers_of(core.config, "b1", core.alive(network.now_ns))}
    assert offers == {"b2": {"sum": 1}}


def test_a_broker_may_have_a_heartbeat_of_its_own(network: Network) -> None:
    edit(network, "family/a", {"heartbeat_ms": 500})
    edit(network, "broker/b1", broker_value(network.pens["b1"], default_heartbeat_interval=2000))
    assert book(network).heartbeat_ms == 2000
    assert book(network, "b2").heartbeat_ms == 500


def test_a_broker_may_fall_back_elsewhere_than_its_family(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2", "b3", b2="b", b3="c")
    network.later(1000)
    edit(network, "family/a", {"fallback_families": ["b"]})
    assert others(network) == ["b2"]
    edit(network, "broker/b1", broker_value(network.pens["b1"], fallback_families=["c", "b"]))
    network.later(1000)
    assert others(network) == ["b3", "b2"]


def test_brokers_that_are_no_peers_do_not_help_each_other(network: Network) -> None:
    edit(network, "broker/b1", broker_value(network.pens["b1"], peers=["b2"]))
    network.later(2000)
    assert others(network) == ["b2"]
    assert [member.identity for member in book(network).family] == ["b2", "b3"], "workers may go there all the same"


# -- nothing about admins -----------------------------------------------------------------------------------------


def test_no_hash_of_an_admin_gets_into_what_routers_and_workers_are_told(network: Network) -> None:
    """The whole book, with all that is ever made of it: what is not in it, no worker can be told."""
    edit(network, "admin/a/ann", {"hash": "SECRET-1"})
    edit(network, "admin/b/bob", {"hash": "SECRET-2", "SECRET-3": 1})
    network["b2"].edits("admin/a/ann", {"hash": "SECRET-4"})
    network["b3"].edits("admin/a/ann", {"hash": "SECRET-5"})
    network.settle()
    network.later(1000)
    made = book(network)
    for data in (msgspec.msgpack.encode(made), made.worker_config("w1", ["echo"]), made.brokers()):
        for word in (b"SECRET", b"admin/", b"ann", b"bob", b"hash"):
            assert word not in data
