"""What a broker says is checked, and no hash gets past this place, whatever it sends."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from famulus.admin.secret import Secret
from famulus.core.steward import answers
from famulus.core.steward.answers import Accepted, Cleared, SeenBy
from famulus.errors import Refused

ID = "a" * 64


def shown_with(key: str, value: Any) -> answers.Shown:
    head = {"id": ID, "op": "PUT", "value": value, "author": "ann", "broker": "b1", "hlc": 1, "chosen": True}
    keys = {key: {"op": "PUT", "value": value, "heads": [head]}}
    body = {"network": "n", "broker": "b1", "version": 1, "digest": "d", "keys": keys, "new_field": 1}
    return answers.read_shown(json.dumps(body).encode())


@pytest.mark.parametrize("value", [{"hash": "$argon2id$x", "other": "$argon2id$y"}, "$argon2id$z", ["$argon2id$"]])
def test_a_hash_that_a_broker_sends_by_mistake_is_hidden(value: Any) -> None:
    for told in (
        repr(shown_with("admin/main/ann", value)),
        repr(answers.read_history(json.dumps(past("admin/main/ann", value)).encode())),
        repr(answers.read_moved(json.dumps(moved("admin/main/ann", value)).encode())),
    ):
        assert "argon2id" not in told
        assert "hidden" in told


def past(key: str, value: Any) -> Any:
    return {"key": key, "edits": [{"id": ID, "op": "PUT", "value": value, "parents": [], "time_ms": 1}]}


def moved(key: str, value: Any) -> Any:
    return {"moved": [{"key": key, "heads": [ID], "difference": [{"field": "hash", "seen": value, "now": value}]}]}


def test_other_values_stay_what_they_are() -> None:
    value = {"hash": "no secret"}
    assert shown_with("service/echo", value).keys["service/echo"].value == value
    assert answers.read_history(json.dumps(past("service/echo", value)).encode()).edits[0].value == value
    (change,) = answers.read_moved(json.dumps(moved("service/echo", 5)).encode())[0].difference
    assert (change.seen, change.now) == (5, 5)


def test_an_absent_side_of_a_difference_stays_absent() -> None:
    body = {"moved": [{"key": "admin/a/b", "heads": [], "difference": [{"field": "hash", "now": "h"}]}]}
    (change,) = answers.read_moved(json.dumps(body).encode())[0].difference
    assert msgspec.to_builtins(change) == {"field": "hash", "now": "hidden"}
    assert answers.read_moved(b"") == ()
    assert answers.read_moved(b"{}") == ()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"seen": "2"}', b"\xff", b"[" * 10_000])
def test_an_answer_that_makes_no_sense_is_a_refusal(body: bytes) -> None:
    with pytest.raises(Refused, match="cannot be understood"):
        answers.read(SeenBy, body)


def test_fields_that_a_broker_may_leave_out() -> None:
    assert answers.read(Accepted, b'{"edits":["a"],"version":1,"seen":1,"brokers":2}').digest == ""
    assert answers.read(SeenBy, b'{"seen":1,"brokers":1}').missing == ()
    assert answers.read(Cleared, b'{"cleared":3}').cleared == 3


def test_a_secret_shows_nothing() -> None:
    secret = Secret("swordfish")
    assert "swordfish" not in f"{secret} {secret!r} {[secret]} {vars(Secret)}"
    assert secret.reveal() == "swordfish"
    assert secret
    assert not Secret("")
    assert not hasattr(secret, "__dict__")
