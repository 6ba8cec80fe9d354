"""What the steward tells its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from famulus.core.access import JOIN, PEER, Refusal
from famulus.core.clock import NS_PER_S
from famulus.core.steward.facts import ACCESS_NS, EXPIRES_NS, INSTANT_MS_MAX, StewardFacts
from famulus.wire.rows import LAYOUTS

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Network


def named(table: str, rows: Sequence[tuple[object, ...]]) -> list[dict[str, Any]]:
    return [dict(zip([name for name, _ in LAYOUTS[table]], row, strict=True)) for row in rows]


def test_an_edit_is_accepted_here_and_applied_elsewhere(network: Network) -> None:
    here, there = StewardFacts(network["b1"].core), StewardFacts(network["b2"].core)
    (signed,) = network["b1"].edits("service/echo", {"timeout_ms": 5})
    network.settle()
    for facts, event in ((here, b"accepted"), (there, b"applied")):
        (row,) = named("config", facts.look(network.now_ns))
        assert (row["event"], row["edit"], row["key"]) == (event, signed.id.encode(), b"service/echo")
        assert (row["author"], row["accepted_by"]) == (b"ann", b"b1")
        assert row["version"] == network["b1"].core.edits.version
        assert row["digest"] == network["b1"].core.edits.digest.encode()
        assert abs(row["edited"] / 1000 - network.now_ms) < 1000
        assert facts.look(network.now_ns) == []


def test_a_conflict_is_seen_and_resolved_once(network: Network) -> None:
    facts = StewardFacts(network["b3"].core)
    network["b1"].edits("service/echo", {"timeout_ms": 5})
    (higher,) = network["b2"].edits("service/echo", {"timeout_ms": 6})
    network.settle()
    rows = named("config", facts.look(network.now_ns))
    assert [row["event"] for row in rows] == [b"applied", b"applied", b"conflict"]
    (conflict,) = [row for row in rows if row["event"] == b"conflict"]
    heads = network["b3"].core.edits.heads("service/echo")
    assert conflict["edit"].decode() == max(heads, key=lambda head: (head.edit.hlc, head.id)).id
    assert higher.id in {head.id for head in heads}
    (resolution,) = network["b1"].edits("service/echo", {"timeout_ms": 7})
    network.settle()
    assert [(row["event"], row["edit"]) for row in named("config", facts.look(network.now_ns))] == [
        (b"applied", resolution.id.encode()),
        (b"resolved", resolution.id.encode()),
    ]


def test_peers_are_heard_and_lost_and_their_load_is_sampled(network: Network) -> None:
    facts = StewardFacts(network["b1"].core)
    network["b2"].core.on_work({"echo": (3, 1, 2), "other": (1, 0, 0)})
    network.later(1000)
    rows = named("peers", facts.look(network.now_ns))
    assert [(row["peer"], row["event"]) for row in rows if row["event"] == b"heard"] == [
        (b"b2", b"heard"),
        (b"b3", b"heard"),
    ]
    (load,) = [row for row in rows if row["event"] == b"load" and row["peer"] == b"b2"]
    assert (load["slots_free"], load["slots_busy"], load["backlog"]) == (4, 1, 2)
    network.cut.add(frozenset({"b1", "b2"}))
    network.later(5000)
    assert [(row["peer"], row["event"]) for row in named("peers", facts.look(network.now_ns))] == [(b"b2", b"lost")]


def test_what_was_refused_is_told_once_a_second(network: Network) -> None:
    facts = StewardFacts(network["b1"].core)
    facts.look(network.now_ns)
    facts.access.refuse(Refusal(PEER, JOIN, b"not_allowed", address=b"10.0.0.7"), network.now_ns)
    assert facts.look(network.now_ns + ACCESS_NS - 1) == []
    (row,) = named("access", facts.look(network.now_ns + ACCESS_NS))
    assert (row["port"], row["wanted"], row["address"], row["times"]) == (b"peer", b"join", b"10.0.0.7", 1)


def principal(**more: Any) -> dict[str, Any]:
    return {"public_keys": ["ab" * 32], "families": ["a"], **more}


def test_an_edit_of_a_principal_says_when_it_expires(network: Network) -> None:
    facts = StewardFacts(network["b1"].core)
    facts.look(network.now_ns)
    for expires_ms in (5_000, 0, INSTANT_MS_MAX + 1):
        network["b1"].edits("principal/shop", principal(expires_ms=expires_ms))
    network["b1"].edits("principal/shop", None)
    network["b1"].edits("service/echo", {"timeout_ms": 5})
    rows = named("config", facts.look(network.now_ns))
    assert [row["expires"] for row in rows] == [5_000_000, 0, 0, 0, 0]


def test_what_expires_is_told_at_the_start_and_every_day(network: Network) -> None:
    network["b1"].edits("principal/ever", principal())
    (signed,) = network["b1"].edits("principal/shop", principal(public_keys=["cd" * 32], expires_ms=7_000))
    core = network["b1"].core
    core.taken.clear()
    facts = StewardFacts(core)
    for now_ns in (network.now_ns, network.now_ns + EXPIRES_NS):
        (row,) = named("config", [row for row in facts.look(now_ns) if row[1] == b"expires"])
        assert (row["key"], row["edit"], row["expires"]) == (b"principal/shop", signed.id.encode(), 7_000_000)
        assert not [row for row in facts.look(now_ns + EXPIRES_NS - NS_PER_S) if row[1] == b"expires"]


def test_the_objectives_that_hold_are_told_by_service(network: Network) -> None:
    facts = StewardFacts(network["b1"].core)
    facts.look(network.now_ns)
    network["b1"].edits("service/echo", {"objective": {"share": 0.999, "within_ms": 500, "days": 7}})
    network["b1"].edits("service/echo", {"timeout_ms": 5})
    network["b1"].edits("service/sum", {"objective": {"share": 0.9}})
    rows = [row for row in facts.look(network.now_ns) if row[1] == b"objective"]
    (row,) = named("brokers", rows)
    assert (row["service"], row["detail"]) == (b"sum", b'{"share":0.9,"within_ms":null,"days":30}')
    network["b1"].edits("service/sum", {"objective": {"share": 2}})
    (row,) = named("brokers", [row for row in facts.look(network.now_ns) if row[1] == b"objective"])
    assert (row["service"], row["detail"]) == (b"sum", b"null")
