"""What the steward tells its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from famulus.core.steward.facts import StewardFacts
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
