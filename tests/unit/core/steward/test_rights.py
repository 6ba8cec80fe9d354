"""Which keys an admin may change: those of its families, and those that are nobody's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.config.draft import Draft
from famulus.core.config.effective import Effective
from famulus.core.steward.rights import refusal, touched_families
from famulus.lab.sim.config.pen import broker_value

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Network


def draft(key: str, value: Any = None) -> Draft:
    return Draft(key, "DEL" if value is None else "PUT", value, ())


@pytest.fixture
def network(networks: Callable[..., Network]) -> Network:
    """b1 of family a, whose admin is ann; b2 of family b, whose admin is ben."""
    network = networks("b1", "b2", b2="b")
    network["b1"].edits("admin/b/ben", {"hash": "h"})
    return network


@pytest.fixture
def config(network: Network) -> Effective:
    return network["b1"].core.config


PLACE = {"host": "h", "public_key": "k"}


@pytest.mark.parametrize(
    ("key", "value", "families"),
    [
        ("family/a", {}, {"a"}),
        ("family/a", None, {"a"}),
        ("family/new", {}, {"new"}),
        ("admin/a/ann", {"hash": "h"}, {"a"}),
        ("admin/with/slash/ann", None, {"with/slash"}),
        ("broker/b2", None, {"b"}),
        ("broker/b2", PLACE | {"family": "b"}, {"b"}),
        ("broker/b2", PLACE | {"family": "a"}, {"a", "b"}),
        ("broker/b9", PLACE | {"family": "a"}, {"a"}),
        ("broker/b9", PLACE | {"family": 7}, set()),
        ("broker/b9", "nonsense", set()),
        ("broker/b9", None, set()),
        ("broker_state/b2", {"state": "disabled"}, {"b"}),
        # A state says nothing about families, whatever is in it.
        ("broker_state/b2", {"state": "disabled", "family": "a"}, {"b"}),
        ("broker_state/b9", {"state": "disabled"}, set()),
        ("worker/w1", {"family": "a", "state": "drained"}, {"a"}),
        ("worker/w1", None, set()),
        ("trusted_key/k1", {"family": "b"}, {"b"}),
        ("trusted_key/k1", {"family": 7}, set()),
        ("trusted_key/k1", None, set()),
        ("service/echo", {}, set()),
        ("whatever/else", {}, set()),
        ("", {}, set()),
    ],
)
def test_which_families_an_edit_is_about(config: Effective, key: str, value: Any, families: set[str]) -> None:
    assert touched_families(config, draft(key, value)) == families


def test_the_own_family_is_free_and_anothers_is_not(config: Effective) -> None:
    for key, value in [
        ("family/b", {}),
        ("family/b", None),
        ("admin/b/ben", None),
        ("admin/b/ann", {"hash": "h"}),
        ("broker/b2", None),
        ("broker_state/b2", {"state": "disabled"}),
        ("broker/b9", PLACE | {"family": "b"}),
    ]:
        assert refusal(config, ["b"], draft(key, value)) == ""
        assert refusal(config, ["a", "b"], draft(key, value)) == ""
        why = refusal(config, ["a"], draft(key, value))
        assert "family 'b'" in why
        assert key in why


def test_a_broker_does_not_move_between_families_without_both(config: Effective) -> None:
    to_a = draft("broker/b2", PLACE | {"family": "a"})
    assert refusal(config, ["a"], to_a)
    assert refusal(config, ["b"], to_a)
    assert not refusal(config, ["a", "b"], to_a)


def test_a_family_without_admins_is_anybodys(config: Effective) -> None:
    for key, value in [
        ("family/new", {}),
        ("admin/new/ann", {"hash": "h"}),
        ("broker/b9", PLACE | {"family": "new"}),
    ]:
        assert refusal(config, ["a"], draft(key, value)) == ""


def test_a_family_whose_last_admin_went_is_anybodys_again(network: Network) -> None:
    network["b1"].edits("admin/b/ben", None)
    assert refusal(network["b1"].core.config, ["a"], draft("family/b", {})) == ""


def test_services_and_unknown_keys_belong_to_none(config: Effective) -> None:
    assert refusal(config, ["a"], draft("service/echo", {})) == ""
    assert refusal(config, ["b"], draft("service/echo", {})) == ""
    assert refusal(config, ["b"], draft("some/new/kind", {})) == ""


def test_a_refusal_is_one_short_sentence(network: Network) -> None:
    name = "x" * 200
    network["b1"].edits(f"family/{name}", {})
    network["b1"].edits(f"admin/{name}/ben", {"hash": "h"})
    network["b1"].edits("broker/b2", broker_value(network.pens["b2"], family=name))
    why = refusal(network["b1"].core.config, ["a"], draft("broker/b2"))
    assert 0 < len(why) <= 200


# -- services -----------------------------------------------------------------------------------------------------


def test_a_service_with_an_owner_is_for_the_admins_of_that_family_only(network: Network) -> None:
    network["b1"].edits("service/echo", {"owner": "b"})
    config = network["b1"].core.config
    for value in ({"timeout_ms": 5}, {"timeout_ms": 5, "owner": "b"}, {"owner": ""}, None):
        assert refusal(config, ["b"], draft("service/echo", value)) == ""
        assert "family 'b'" in refusal(config, ["a"], draft("service/echo", value))
    assert refusal(config, ["a"], draft("service/echo", {"owner": "a"})), "it is not up to them to take it"
    assert refusal(config, ["b"], draft("service/echo", {"owner": "a"})), "nor to give it to those who did not ask"
    assert not refusal(config, ["a", "b"], draft("service/echo", {"owner": "a"}))


def test_a_service_without_an_owner_is_claimed_for_the_own_family(config: Effective) -> None:
    assert refusal(config, ["a"], draft("service/echo", {"owner": "a"})) == ""
    assert "family 'b'" in refusal(config, ["a"], draft("service/echo", {"owner": "b"}))


def test_a_service_is_not_claimed_for_a_family_that_does_not_serve_it(network: Network) -> None:
    network["b1"].edits("broker/b1", broker_value(network.pens["b1"], services=["sum"]))
    config = network["b1"].core.config
    assert "none of whose brokers serves it" in refusal(config, ["a"], draft("service/echo", {"owner": "a"}))
    assert refusal(config, ["a"], draft("service/sum", {"owner": "a"})) == ""
    assert refusal(config, ["b"], draft("service/echo", {"owner": "b"})) == ""
    assert refusal(config, ["a"], draft("service/echo", {"timeout_ms": 5})) == "", "without an owner, as ever"


def test_an_owner_that_there_is_not_is_said(network: Network) -> None:
    network["b1"].edits("service/echo", {"owner": "nobody", "timeout_ms": 5})
    config = network["b1"].core.config
    assert [each.sentence for each in config.warnings] == ["there is no family 'nobody' to own it"]
    assert config.services["echo"].timeout_ms == 5


def test_a_blank_family_is_the_default_one_also_where_rights_are_checked(config: Effective) -> None:
    assert touched_families(config, draft("broker/b9", PLACE | {"family": " "})) == {"main"}


def test_a_worker_is_drained_and_taken_back_by_the_admins_of_the_family_that_it_names(network: Network) -> None:
    wanted = draft("worker/w1", {"family": "b", "state": "drained"})
    assert refusal(network["b1"].core.config, ["a"], wanted)
    assert not refusal(network["b1"].core.config, ["b"], wanted)
    network["b1"].edits("worker/w1", {"family": "b", "state": "drained"})
    for value in (None, {"family": "a", "state": "active"}):
        assert "family 'b'" in refusal(network["b1"].core.config, ["a"], draft("worker/w1", value))
        assert not refusal(network["b1"].core.config, ["a", "b"], draft("worker/w1", value))
