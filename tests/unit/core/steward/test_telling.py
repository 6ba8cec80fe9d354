"""What a steward tells the herald: never anything about admins."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from tests.unit.core.steward.conftest import PASSWORD, Network, hashed

from famulus.core import telling
from famulus.core.access import Access
from famulus.wire import status


def test_no_admin_and_no_hash_leaves_the_steward(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2")
    network["b1"].edits("admin/a/secretive-sue", {"hash": hashed("other")}, author="author-ann")
    network["b1"].edits("service/echo", {"timeout_ms": 5}, author="author-ann")
    network.cut.add(frozenset({"b1", "b2"}))
    network.later(5000)
    for name, timeout_ms in (("b1", 6), ("b2", 7)):
        network[name].edits("service/echo", {"timeout_ms": timeout_ms}, author="author-ann")
        network[name].edits("admin/a/secretive-sue", {"hash": hashed(name)}, author="author-ann")
    network.cut.clear()
    network.later(5000)
    config = telling.of_config(network["b1"].core)
    assert config.conflicts == 2, "the one about an admin is counted"
    told = status.write(config) + status.write(telling.of_steward(network["b1"].core, Access(), network.now_ns))
    for secret in ("sue", "author-ann", "hash-of", PASSWORD, "admin/"):
        assert secret.encode() not in told
    view = msgspec.json.decode(config.view)
    assert [conflict["key"] for conflict in view["conflicts"]] == ["service/echo"]
    history = msgspec.json.decode(config.history)
    assert [edit["key"] for edit in history[:2]] == ["service/echo", "service/echo"]
    assert {edit["value"]["timeout_ms"] for edit in history[:2]} == {6, 7}


def test_peers_are_told_with_their_work_and_their_silence(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2")
    network["b2"].core.on_work({"echo": (3, 1, 2), "other": (1, 0, 0)})
    network["b2"].core.dashboard = "http://b2.example:8400"
    network.later(3000)
    (peer,) = telling.of_steward(network["b1"].core, Access(), network.now_ns).peers
    assert (peer.identity, peer.alive, peer.state) == ("b2", True, "active")
    assert peer.dashboard == "http://b2.example:8400"
    assert (peer.free, peer.busy, peer.backlog, peer.services) == (4, 1, 2, 2)
    network.cut.add(frozenset({"b1", "b2"}))
    network.later(10_000)
    (peer,) = telling.of_steward(network["b1"].core, Access(), network.now_ns).peers
    assert not peer.alive
    assert peer.silent_ms >= 3000


def test_whether_the_ports_want_keys_is_told(networks: Callable[..., Network]) -> None:
    network = networks("b1")
    assert telling.of_steward(network["b1"].core, Access(), network.now_ns).keys == "none"
    network["b1"].edits("family/a", {"keys": "all"})
    assert telling.of_steward(network["b1"].core, Access(), network.now_ns).keys == "all"


def test_slots_of_a_worker_of_several_services_are_told_once(networks: Callable[..., Network]) -> None:
    network = networks("b1", "b2")
    network["b2"].core.on_work(dict.fromkeys(("echo", "sum", "resize"), (3, 1, 0)), (3, 1))
    network.later(3000)
    (peer,) = telling.of_steward(network["b1"].core, Access(), network.now_ns).peers
    assert (peer.free, peer.busy) == (3, 1)
    assert network["b1"].core.peers["b2"].load() == 0.25
