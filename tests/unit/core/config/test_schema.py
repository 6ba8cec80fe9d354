"""What values mean. Whatever they are, reading gives a value or says why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from famulus.core.config import schema
from famulus.core.config.schema import (
    Admin,
    Broker,
    BrokerState,
    Family,
    Revoked,
    Service,
    Subject,
    TrustedKey,
    Value,
    View,
)
from famulus.core.delivery import ServicePolicy
from famulus.core.objective import Objective


def read(key: str, value: Any) -> View:
    return schema.read(schema.subject(key), value)


@pytest.mark.parametrize(
    ("key", "about"),
    [
        ("family/a", Subject("family", "a")),
        ("family/a/b", Subject("family", "a/b")),
        ("broker/b-1.example", Subject("broker", "b-1.example")),
        ("broker_state/b1", Subject("broker_state", "b1")),
        ("service/www.example.com/path", Subject("service", "www.example.com/path")),
        ("admin/a/ann", Subject("admin", "ann", "a")),
        ("admin/a/b/ann", Subject("admin", "ann", "a/b")),
        ("admin/ann", Subject()),
        ("admin//ann", Subject()),
        ("admin/a/", Subject()),
        ("family/", Subject()),
        ("family", Subject()),
        ("", Subject()),
        ("/", Subject()),
        ("Family/a", Subject()),
        ("strange/thing", Subject()),
        ("family/" + "x" * 255, Subject("family", "x" * 255)),
        ("family/" + "x" * 256, Subject()),
    ],
)
def test_whom_a_key_is_about(key: str, about: Subject) -> None:
    assert schema.subject(key) == about


BROKER = {"family": "a", "host": "b1.example", "public_key": "ab"}


@pytest.mark.parametrize(
    ("key", "value", "meaning"),
    [
        ("family/a", {}, Family((), 1000, 30_000, ServicePolicy())),
        ("family/a", {"fallback_families": ["b", "c"], "heartbeat_ms": 500}, Family(("b", "c"), 500)),
        ("family/a", {"default_service": {"timeout_ms": 5}}, Family(default_service=ServicePolicy(timeout_ms=5))),
        ("broker/b1", BROKER, Broker("a", "b1.example", "ab", 7100, 7101, 7102, 7103, "all")),
        ("broker/b1", {**BROKER, "services": ["x"]}, Broker("a", "b1.example", "ab", services=("x",))),
        ("broker/b1", {**BROKER, "peer_port": 1}, Broker("a", "b1.example", "ab", peer_port=1)),
        ("broker_state/b1", {"state": "draining"}, BrokerState("draining")),
        ("service/x", {"max_attempts": 5, "delivery": "at_least_once"}, Service("at_least_once", max_attempts=5)),
        ("service/x", {"owner": "a"}, Service(owner="a")),
        ("service/x", {"objective": {"share": 0.99, "days": 7}}, Service(objective=Objective(0.99, None, 7))),
        (
            "family/a",
            {"preferred_brokers": {"w1": "b2"}, "preferred_brokers_of_services": {"echo": "b3"}},
            Family(preferred_brokers={"w1": "b2"}, preferred_brokers_of_services={"echo": "b3"}),
        ),
        ("admin/a/ann", {"hash": "scrypt..."}, Admin("scrypt...")),
        ("broker/b1", {**BROKER, "peers": ["b2"]}, Broker("a", "b1.example", "ab", peers=("b2",))),
        ("broker/b1", {**BROKER, "config_sub_ports": [1, 2]}, Broker("a", "b1.example", "ab", config_sub_ports=(1, 2))),
        (
            "broker/b1",
            {**BROKER, "default_heartbeat_interval": 50, "fallback_families": [], "error_workers": ["w"]},
            Broker("a", "b1.example", "ab", default_heartbeat_interval=50, fallback_families=(), error_workers=("w",)),
        ),
        ("family/a", {"error_workers": ["w1"]}, Family(error_workers=("w1",))),
        ("trusted_key/ab", {"family": "a", "identity": "b2"}, TrustedKey("a", "b2")),
        ("revoked/ab/0", {"identity": "b2", "family": "a", "kept": ["12"]}, Revoked("b2", "a", ("12",))),
    ],
)
def test_a_value_and_its_meaning(key: str, value: Any, meaning: Value) -> None:
    assert read(key, value) == View(meaning)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("family/a", {"heartbeat_ms": 5}, "heartbeat_ms"),
        ("family/a", {"heartbeat_ms": "fast"}, "heartbeat_ms"),
        ("family/a", {"fallback_families": "b"}, "fallback_families"),
        ("family/a", {"default_service": 5}, "default_service"),
        ("family/a", {"default_service": {"timeout_ms": 0}}, "default_service.timeout_ms"),
        ("broker/b1", {"family": "a", "host": "h"}, "public_key"),
        ("broker/b1", {**BROKER, "frontend_port": 0}, "frontend_port"),
        ("broker/b1", {**BROKER, "frontend_port": 65536}, "frontend_port"),
        ("broker/b1", {**BROKER, "services": "some"}, "services"),
        ("broker/b1", {**BROKER, "host": "a\nb"}, "host"),
        ("broker_state/b1", {"state": "asleep"}, "state"),
        ("broker_state/b1", {}, "state"),
        ("service/x", {"max_attempts": 0}, "max_attempts"),
        ("service/x", {"objective": {"share": 2}}, "objective.share"),
        ("service/x", {"objective": {"within_ms": 500}}, "share"),
        ("service/x", {"objective": 0.99}, "objective"),
        ("admin/a/ann", {"hash": ""}, "hash"),
        ("admin/a/ann", {"hash": None}, "hash"),
        ("broker/b1", {**BROKER, "peers": "b2"}, "peers"),
        ("broker/b1", {**BROKER, "config_sub_ports": [0]}, "config_sub_ports"),
        ("broker/b1", {**BROKER, "config_sub_ports": 7102}, "config_sub_ports"),
        ("broker/b1", {**BROKER, "default_heartbeat_interval": 5}, "default_heartbeat_interval"),
        ("broker/b1", {**BROKER, "fallback_families": "b"}, "fallback_families"),
        ("broker/b1", {**BROKER, "error_workers": [7]}, "error_workers"),
        ("family/a", {"error_workers": "w1"}, "error_workers"),
        ("trusted_key/ab", {}, "family"),
        ("revoked/ab/0", {"identity": "b2", "family": "a", "kept": 7}, "kept"),
        ("family/a", None, "not an object"),
        ("family/a", [], "not an object"),
        ("family/a", "text", "not an object"),
        ("strange/thing", {}, "no such key"),
    ],
)
def test_what_cannot_be_understood_is_said_in_words(key: str, value: Any, words: str) -> None:
    view = read(key, value)
    assert view.value is None
    (warning,) = view.warnings
    assert words in warning
    assert "ignored" in warning


def test_where_only_some_words_can_be_said_they_are_named() -> None:
    (warning,) = read("service/echo", {"policy": "random"}).warnings
    assert warning.endswith("(lru, least_busy, ewma or key)")


def test_unknown_fields_are_ignored_with_a_warning() -> None:
    view = read("service/x", {"max_attempts": 5, "colour": "red"})
    assert view == View(Service(max_attempts=5), ("the field 'colour' is unknown and ignored",))
    view = read("service/x", {"objective": {"share": 0.9, "within": 5}})
    assert view == View(Service(objective=Objective(0.9)), ("the field 'objective.within' is unknown and ignored",))
    view = read("family/a", {"b": 1, "a": 1, "default_service": {"timeout_ms": 5, "colour": "red"}})
    assert view.value == Family(default_service=ServicePolicy(timeout_ms=5))
    assert view.warnings == ("the fields 'a', 'b', 'default_service.colour' are unknown and ignored",)


def test_a_warning_does_not_grow_with_what_it_is_about() -> None:
    view = read("service/x", {f"{number:04}{'x' * 50}": 1 for number in range(1000)})
    (warning,) = view.warnings
    assert len(warning) < 400
    assert "995 more" in warning


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_family_is_the_default_one(blank: str) -> None:
    for key in ("broker/b1", "trusted_key/k"):
        value = read(key, {"family": blank, "host": "h", "public_key": "k"}).value
        assert isinstance(value, Broker | TrustedKey)
        assert value.family == schema.DEFAULT_FAMILY == "main"
