"""Where brokers listen, and who is told so: not where the config will have them one day."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from famulus.core.clock import NS_PER_S
from famulus.core.steward.books import book_of, offers_of
from famulus.core.steward.peer import SILENCE_NS
from famulus.lab.sim.config.pen import broker_value
from famulus.wire.peers import Beat, Place

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Network


@pytest.fixture
def network(networks: Callable[..., Network]) -> Network:
    network = networks("b1", "b2")
    network.listen("b1", "b2")
    return network


def moves(network: Network, name: str, **ports: int | str) -> None:
    network["b1"].edits(f"broker/{name}", broker_value(network.pens[name], **ports))
    network.later(1000)


def told(network: Network) -> dict[str, tuple[str, str]]:
    """What b1 answers to NEEDBROKER."""
    core = network["b1"].core
    book = book_of(core.located, "b1", core.alive(network.now_ns), 1)
    assert book is not None
    return {each["identity"]: (each["frontend"], each["backend"]) for each in json.loads(book.brokers())["brokers"]}


def test_clients_and_workers_are_told_where_brokers_listen_not_where_they_will(network: Network) -> None:
    before = told(network)
    moves(network, "b1", frontend_port=1, backend_port=2)
    moves(network, "b2", frontend_port=1, backend_port=2)
    assert told(network) == before
    core = network["b1"].core
    config = core.located.brokers
    assert (config["b1"].frontend_port, config["b2"].backend_port) == (7100, 7101)
    book = book_of(core.located, "b1", core.alive(network.now_ns), 1)
    assert book is not None
    assert [each.backend for each in (book.broker, *book.family)] == ["tcp://b1.example:7101", "tcp://b2.example:7101"]
    (offer,) = offers_of(core.located, "b1", core.alive(network.now_ns))
    assert offer[:2] == ("b2", "tcp://b2.example:7100")


def test_a_peer_whose_port_will_be_another_is_still_reached_where_it_listens(network: Network) -> None:
    aims = dict(network["b1"].core.aims)
    assert aims["b2"].peer_port == 7103
    moves(network, "b2", peer_port=9)
    assert network["b1"].core.aims == aims
    assert network["b1"].alive() == ["b2"]


def test_once_it_was_started_again_it_is_where_it_says(network: Network) -> None:
    moves(network, "b2", frontend_port=1, peer_port=9)
    network["b2"].core.place = Place("b2.example", 1, 7101, 7102, 9)
    before = network["b1"].core.aims["b2"]
    network.later(1000)
    after = network["b1"].core.aims
    assert (before.peer_port, after["b2"].peer_port) == (7103, 9)
    network.later(1000)
    assert network["b1"].core.aims == after, "it moves once"
    assert told(network)["b2"][0] == "tcp://b2.example:1"


def test_one_that_is_lost_is_looked_for_where_it_was_and_where_it_may_be_by_now(network: Network) -> None:
    """It may have been started again, or be cut off; and it may be waiting for us to do the same."""
    moves(network, "b2", peer_port=9)
    network.cut = {frozenset({"b1", "b2"})}
    ports = set()
    for _ in range(2 * SILENCE_NS // NS_PER_S + 4):
        network.later(1000)
        ports.add(network["b1"].core.aims["b2"].peer_port)
    assert ports == {7103, 9}


def test_who_listens_everywhere_is_reached_by_the_name_that_the_config_gives_it(network: Network) -> None:
    network["b1"].core.place = network["b2"].core.place = Place("", 7100, 7101, 7102, 7103)
    moves(network, "b2", host="elsewhere")
    assert told(network)["b2"][0] == "tcp://elsewhere:7100"


@pytest.mark.parametrize("host", ["not a host", "tcp://x", "a/b"])
def test_a_peer_that_says_nonsense_of_its_place_is_named_to_nobody(network: Network, host: str) -> None:
    beat = Beat(1, "", "active", {}, None, Place(host, 1, 2, 3, 4))
    network["b1"].hears(network["b2"].core.post.write(beat))
    assert set(told(network)) == {"b1"}
    core = network["b1"].core
    assert offers_of(core.located, "b1", core.alive(network.now_ns)) == []
