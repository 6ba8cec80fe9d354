"""Who may connect to a broker of a network, and what it may do there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from nacl import bindings as sodium

from famulus.core.config import schema
from famulus.core.config.effective import Effective
from famulus.core.config.schema import Broker, Family, Principal
from famulus.core.rights import Rights, allows, common
from famulus.core.steward.principals import admission, shared_keys
from famulus.wire import inner

NOW_MS = 1_000_000


def key(number: int) -> str:
    return bytes([number] * 32).hex()


def signing_key(number: int) -> str:
    return sodium.crypto_sign_seed_keypair(bytes([number] * 32))[0].hex()


BROKERS = {
    "b1": Broker("main", "10.0.0.1", signing_key(1)),
    "b2": Broker("main", "10.0.0.2", signing_key(2)),
    "c1": Broker("other", "10.0.0.3", signing_key(3)),
    "odd": Broker("other", "10.0.0.4", "not a key"),
}


def principal(*keys: int, families: tuple[str, ...] = ("main",), **more: Any) -> Principal:
    return Principal(tuple(map(key, keys)), families, **more)


def config(keys: schema.Keys = "all", **principals: Principal) -> Effective:
    return Effective(1, "", families={"main": Family(keys=keys)}, brokers=BROKERS, principals=principals)


def names(found: Effective, identity: str = "b1", now_ms: int = NOW_MS) -> set[str]:
    return {name for name in admission(found, identity, now_ms).keys.values() if "/" not in name}


def test_a_principal_gets_in_where_its_families_are() -> None:
    found = config(
        ann=principal(1), bob=principal(2, families=("other",)), eve=principal(3, families=("main", "other"))
    )
    assert names(found, "b1") == names(found, "b2") == {"ann", "eve"}
    assert names(found, "c1") == {"bob", "eve"}
    assert names(found, "nobody's") == set()


def test_where_nobody_needs_a_key_whoever_has_one_may_do_as_much() -> None:
    found = admission(config("none", bob=principal(2, serve=("b",), open_tasks_max=3)), "b1", NOW_MS)
    assert found.rights is None
    assert (found.terms["bob"].serve, found.terms["bob"].open_tasks_max) == (("*",), 3)


def test_rights_hold_everywhere() -> None:
    found = admission(config(bob=principal(2, families=("other",), call=("a",), serve=("b",))), "b1", NOW_MS)
    assert found.rights == {"bob": Rights(("a",), ("b",))}
    assert found.terms["bob"].serve == ("b",)


def test_both_keys_count_while_one_replaces_the_other() -> None:
    found = admission(config(ann=principal(1, 2), bob=principal(3, 3)), "b1", NOW_MS)
    mine = {each: name for each, name in found.keys.items() if "/" not in name}
    assert mine == {bytes([1] * 32): "ann", bytes([2] * 32): "ann", bytes([3] * 32): "bob"}


def test_who_has_expired_is_nobody() -> None:
    found = config(ann=principal(1, expires_ms=NOW_MS), bob=principal(2, expires_ms=NOW_MS + 5), eve=principal(3))
    assert names(found) == {"bob", "eve"}
    there = admission(found, "b1", NOW_MS)
    assert there.rights is not None
    assert "ann" not in there.rights
    assert "ann" not in there.terms
    assert there.next_expiry_ms == NOW_MS + 5
    assert admission(config(eve=principal(3)), "b1", NOW_MS).next_expiry_ms == 0


def test_a_key_of_two_is_nobodys() -> None:
    found = config(ann=principal(1, 2), bob=principal(2), eve=principal(1, families=("other",)))
    keys = admission(found, "b1", NOW_MS).keys
    assert keys[bytes([1] * 32)] == "ann"
    assert bytes([2] * 32) not in keys
    assert shared_keys(found) == [("bob", "ann")]


def test_other_brokers_are_principals() -> None:
    found = admission(config(), "b1", NOW_MS)
    assert sorted(found.keys.values()) == ["broker/b2", "broker/c1"]
    assert found.terms == {"broker/b2": inner.NO_TERMS, "broker/c1": inner.NO_TERMS}
    of_b2 = sodium.crypto_sign_ed25519_pk_to_curve25519(bytes.fromhex(signing_key(2)))
    assert found.keys[of_b2] == "broker/b2"


def test_a_broker_that_is_left_out_is_nobody() -> None:
    def known(identity: str) -> set[str]:
        alone = {**BROKERS, "b1": structs.replace(BROKERS["b1"], peers=("b2",))}
        found = admission(structs.replace(config(), brokers=alone), identity, NOW_MS)
        assert set(found.terms) == set(found.keys.values())
        return set(found.terms)

    assert known("b1") == {"broker/b2"}
    assert known("c1") == {"broker/b2"}, "nor is it for the other one"
    assert known("b2") == {"broker/b1", "broker/c1"}


def test_those_who_may_call_the_same_have_the_same_rights() -> None:
    found = admission(
        config(
            ann=principal(1, call=("a", "b")),
            amy=principal(2, call=("b", "a", "a"), serve=("c",)),
            bob=principal(3, call=("a",)),
        ),
        "b1",
        NOW_MS,
    )
    ann, amy, bob = (found.terms[name].rights for name in ("ann", "amy", "bob"))
    assert ann == amy != bob
    assert ann != b""


def test_what_the_dispatcher_is_told_arrives() -> None:
    ann = principal(1, call=("a",), serve=("b",), open_tasks_max=5, tasks_per_s=7)
    found = admission(config(ann=ann), "b1", NOW_MS)
    assert found.brokers.keys() == {"b2"}
    assert inner.read_principals(inner.write_principals(found.told(7))) == found.told(7)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"public_keys": [], "families": ["main"]},
        {"public_keys": [key(1)], "families": []},
        {"public_keys": [key(1), key(2), key(3)], "families": ["main"]},
        {"public_keys": [key(0xAB).upper()], "families": ["main"]},
        {"public_keys": [key(1)[:-1]], "families": ["main"]},
        {"public_keys": [key(1)], "families": ["main"], "tasks_per_s": -1},
        {"public_keys": [key(1)], "families": ["main"], "call": "echo"},
    ],
)
def test_what_is_no_principal(value: object) -> None:
    assert schema.read(schema.subject("principal/ann"), value).value is None


@pytest.mark.parametrize("name", ["", "a/b", "broker/b1", "a b", "a(b)", "-a", "a\n", "é"])
def test_what_is_no_name_of_one(name: str) -> None:
    assert schema.subject(f"principal/{name}") == schema.Subject()


PATTERNS = st.lists(st.text("ab*", min_size=1, max_size=3), max_size=4)


@given(PATTERNS, PATTERNS, st.text("ab*", min_size=1, max_size=4))
def test_what_is_common_is_what_both_allow(one: list[str], other: list[str], service: str) -> None:
    assert allows(common(one, other), service) == (allows(one, service) and allows(other, service))


def test_of_two_the_least_counts() -> None:
    one = principal(1, 2, families=("main", "other"), call=("img.*", "echo"), serve=("a",), expires_ms=9, tasks_per_s=5)
    other = principal(2, 3, call=("img.big.*", "more"), serve=("b",), open_tasks_max=7, tasks_per_s=3)
    least = principal(2, call=("img.big.*",), expires_ms=9, open_tasks_max=7, tasks_per_s=3)
    assert one.at_least(other) == least
    assert one.at_least(one) == one


def test_those_without_a_key_get_in_until_one_is_required() -> None:
    for keys, plain, rights in (
        ("none", True, None),
        ("remote", True, {"ann": Rights(("a",)), "": Rights(("*",), ("*",))}),
        ("all", False, {"ann": Rights(("a",))}),
    ):
        found = admission(config(keys, ann=principal(1, call=("a",))), "b1", NOW_MS)  # type: ignore[arg-type]
        assert (found.plain, found.rights) == (plain, rights)
    assert not admission(config("none"), "nobody's", NOW_MS).plain
