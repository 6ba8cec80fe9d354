"""`famulus broker-admin`, `admins` and `errors` against a broker that is played by hand."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest
from tests.unit.cli.conftest import NEW_PASSWORD, Command, Peer, PlayedBroker, toy_hash

# -- broker-admin -------------------------------------------------------------------------------------------------


@pytest.fixture
def second(broker: PlayedBroker) -> PlayedBroker:
    """With another broker, b2."""
    broker.put("broker/b2", {"family": "main", "host": "h", "public_key": "k"})
    broker.peers["b2"] = Peer()
    return broker


@pytest.mark.parametrize(("command", "state"), [("disable", "disabled"), ("drain", "draining"), ("enable", "active")])
def test_the_state_of_a_broker_is_set(second: PlayedBroker, famulus: Command, command: str, state: str) -> None:
    done = famulus("broker-admin", command, "b2")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("accepted, seen by 1 of 2 brokers")
    assert second.value("broker_state/b2") == {"state": state}
    again = famulus("broker-admin", command, "b2")
    assert (again.code, again.out) == (0, f"b2 is {state} already; nothing was sent\n")


def test_a_state_replaces_another_and_ends_a_conflict(second: PlayedBroker, famulus: Command) -> None:
    second.put("broker_state/b2", {"state": "active", "note": "kept"}, parents=())
    second.put("broker_state/b2", {"state": "disabled", "note": "kept"}, parents=())
    done = famulus("broker-admin", "disable", "b2", "--json")
    assert done.json["edits"] == second.heads("broker_state/b2")
    assert second.value("broker_state/b2") == {"state": "disabled", "note": "kept"}


def test_an_unknown_broker_is_named_with_those_that_there_are(second: PlayedBroker, famulus: Command) -> None:
    for command in ("disable", "forget"):
        wrong = famulus("broker-admin", command, "b3")
        assert (wrong.code, wrong.err) == (1, "famulus: there is no broker 'b3'; there is b1, b2\n")
    assert famulus("broker-admin", "disable", "b3", "--force").code == 0
    assert second.value("broker_state/b3") == {"state": "disabled"}


def test_forget_deletes_a_broker_and_its_state_in_one_request(second: PlayedBroker, famulus: Command) -> None:
    second.put("broker_state/b2", {"state": "disabled"})
    alive = famulus("broker-admin", "forget", "b2")
    assert (alive.code, "is alive" in alive.err) == (1, True)
    second.peers["b2"].alive = False
    assert famulus("broker-admin", "forget", "b2").code == 0
    assert second.commands().count("edit") == 1
    assert [draft["op"] for draft in second.requests[-1][1]["drafts"]] == ["DEL", "DEL"]
    assert second.value("broker/b2") is None
    assert second.value("broker_state/b2") is None
    assert famulus("broker-admin", "forget", "b2").code == 1


def test_forget_of_a_broker_without_a_state_and_by_force(second: PlayedBroker, famulus: Command) -> None:
    assert famulus("broker-admin", "forget", "b2", "--force").code == 0
    assert [draft["key"] for draft in second.requests[-1][1]["drafts"]] == ["broker/b2"]


# -- admins -------------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the admin types at prompts, one after the other."""
    words: list[str] = []
    monkeypatch.setattr(getpass, "getpass", lambda prompt: words.pop(0))
    return words


def test_an_admin_is_added_and_listed(broker: PlayedBroker, famulus: Command, typed: list[str]) -> None:
    typed += [NEW_PASSWORD, NEW_PASSWORD]
    assert famulus("admins", "add", "ben").code == 0
    assert broker.requests[-1] == (
        "set_password",
        {"family": "main", "name": "ben", "new_password": "taken", "parents": []},
    )
    assert broker.value("admin/main/ben") == {"hash": toy_hash(NEW_PASSWORD)}
    assert famulus("admins", "list").out.splitlines() == [
        "main  ann  since 2026-01-01 00:00:03Z by root",
        "main  ben  since 2026-01-01 00:00:04Z by ann",
    ]
    listed = famulus("admins", "list", "--json").json["admins"]
    assert [(each["family"], each["name"], each["author"]) for each in listed] == [
        ("main", "ann", "root"),
        ("main", "ben", "ann"),
    ]


def test_the_new_password_can_come_from_a_file(broker: PlayedBroker, famulus: Command, tmp_path: Path) -> None:
    file = tmp_path / "new"
    file.write_text(f"{NEW_PASSWORD}\n")
    file.chmod(0o600)
    done = famulus("admins", "add", "ben", "--family", "paris", "--new-password-file", str(file), "--json")
    assert done.json["edits"] == broker.heads("admin/paris/ben")
    assert broker.value("admin/paris/ben") == {"hash": toy_hash(NEW_PASSWORD)}
    assert "ben" not in famulus("admins", "list", "--family", "main").out
    assert "ben" in famulus("admins", "list", "--family", "paris").out


def test_two_different_passwords_change_nothing(broker: PlayedBroker, famulus: Command, typed: list[str]) -> None:
    typed += [NEW_PASSWORD, "marlin-9"]
    wrong = famulus("admins", "add", "ben")
    assert (wrong.code, "two different" in wrong.err) == (2, True)
    assert "marlin-9" not in wrong.err
    assert broker.heads("admin/main/ben") == []


def test_an_admin_changes_the_own_password_and_goes_on_with_it(
    broker: PlayedBroker, famulus: Command, typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed += [NEW_PASSWORD, NEW_PASSWORD]
    assert famulus("admins", "passwd", "--wait", "5").code == 0
    assert broker.commands()[-1] == "seen"
    assert broker.value("admin/main/ann") == {"hash": toy_hash(NEW_PASSWORD)}
    assert famulus("admins", "list").code == 8
    monkeypatch.setenv("FAMULUS_ADMIN_PASSWORD", NEW_PASSWORD)
    assert famulus("admins", "list").code == 0


def test_somebody_elses_password(broker: PlayedBroker, famulus: Command, typed: list[str]) -> None:
    before = broker.put("admin/main/ben", {"hash": "x"})
    typed += [NEW_PASSWORD, NEW_PASSWORD]
    assert famulus("admins", "passwd", "ben", "--wait", "5").code == 0
    assert broker.requests[-2][1]["parents"] == [before]
    assert broker.value("admin/main/ben") == {"hash": toy_hash(NEW_PASSWORD)}


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_password_that_moved_shows_no_hash(
    broker: PlayedBroker, famulus: Command, typed: list[str], words: tuple[str, ...]
) -> None:
    broker.put("admin/main/ben", {"hash": toy_hash("1")})
    typed += [NEW_PASSWORD, NEW_PASSWORD]
    broker.meanwhile = lambda: broker.put("admin/main/ben", {"hash": toy_hash("2")})
    moved = famulus("admins", "passwd", "ben", *words)
    assert moved.code == 5
    assert "hidden" in moved.out + moved.err


def test_a_new_password_ends_a_conflict(broker: PlayedBroker, famulus: Command, typed: list[str]) -> None:
    broker.put("admin/main/ben", {"hash": "x"}, parents=())
    broker.delete("admin/main/ben", parents=())
    assert "may do nothing until it is resolved" in famulus("admins", "list").out
    typed += [NEW_PASSWORD, NEW_PASSWORD]
    assert famulus("admins", "passwd", "ben").code == 0
    assert len(broker.heads("admin/main/ben")) == 1


def test_adding_twice_and_changing_nobody(broker: PlayedBroker, famulus: Command) -> None:
    twice = famulus("admins", "add", "ann")
    assert (twice.code, "already" in twice.err) == (1, True)
    for words in (("passwd", "ben"), ("remove", "ben")):
        nobody = famulus("admins", *words)
        assert (nobody.code, "ben is not an admin of main" in nobody.err) == (1, True)
    for name in ("a/b", "", "x" * 300):
        odd = famulus("admins", "add", name)
        assert (odd.code, "cannot be the name of an admin" in odd.err) == (2, True)
    assert broker.edits.version == 3


def test_an_admin_is_removed(broker: PlayedBroker, famulus: Command) -> None:
    broker.put("admin/main/ben", {"hash": "x"})
    assert famulus("admins", "remove", "ben", "--wait", "5").code == 0
    assert broker.value("admin/main/ben") is None
    assert famulus("admins", "remove", "ben").code == 1


def test_oneself_is_removed_by_force_only_and_not_waited_for(broker: PlayedBroker, famulus: Command) -> None:
    refused = famulus("admins", "remove", "ann")
    assert (refused.code, "that is you" in refused.err) == (1, True)
    assert famulus("admins", "remove", "ann", "--force", "--wait", "5").code == 0
    assert broker.value("admin/main/ann") is None
    assert famulus("admins", "list").code == 8


# -- trusted keys -------------------------------------------------------------------------------------------------

KEY = "ab" * 32


def test_a_key_is_trusted_for_a_family_and_a_name(broker: PlayedBroker, famulus: Command) -> None:
    assert famulus("broker-admin", "trust", KEY).code == 0
    assert broker.value(f"trusted_key/{KEY}") == {"family": "main"}
    assert "trusted already" in famulus("broker-admin", "trust", KEY).out
    famulus("broker-admin", "trust", KEY, "--identity", "b2", "--family", "other")
    assert broker.value(f"trusted_key/{KEY}") == {"family": "other", "identity": "b2"}
    assert famulus("broker-admin", "distrust", KEY).code == 0
    assert broker.value(f"trusted_key/{KEY}") is None
    assert famulus("broker-admin", "distrust", KEY).code == 1


@pytest.mark.parametrize("key", ["ab", KEY.upper(), KEY + "0", "g" * 64])
def test_what_is_no_key_is_not_trusted(broker: PlayedBroker, famulus: Command, key: str) -> None:
    refused = famulus("broker-admin", "trust", key)
    assert (refused.code, "64 digits" in refused.err) == (2, True)
    assert broker.commands() == []


# -- errors -------------------------------------------------------------------------------------------------------


def test_error_workers_are_listed_and_forgiven(broker: PlayedBroker, famulus: Command) -> None:
    assert famulus("errors", "list").out == "no worker is ignored\n"
    broker.faulty |= {name: {"faults": 5, "ignored_s": 7.6} for name in ("w1", "w2", "w3")}
    assert famulus("errors", "list").out.splitlines()[0] == "w1  5 faults  ignored for 8 s more"
    broker.faulty["w3"] = {"faults": 2, "ignored_s": 0}
    assert famulus("errors", "list").out.splitlines()[2] == "w3  2 faults  not ignored now"
    listed = famulus("errors", "list", "--json").json["workers"]
    assert listed[0] == {"identity": "w1", "faults": 5, "ignored_s": 7.6, "by": ""}
    assert famulus("errors", "clear", "w1").out == "1 worker forgiven\n"
    assert list(broker.faulty) == ["w2", "w3"]
    assert famulus("errors", "clear", "--json").json == {"cleared": 2}
    assert broker.faulty == {}


def test_a_worker_is_put_on_the_list_of_the_family(broker: PlayedBroker, famulus: Command) -> None:
    broker.put("family/main", {"heartbeat_ms": 700})
    assert famulus("errors", "add", "w1").out.startswith("accepted")
    assert famulus("errors", "add", "w2", "--family", "main").code == 0
    assert broker.value("family/main") == {"heartbeat_ms": 700, "error_workers": ["w1", "w2"]}
    assert famulus("errors", "add", "w1").out == "w1 is on the list of family/main already; nothing was sent\n"
    missing = famulus("errors", "add", "w1", "--family", "nobodys")
    assert (missing.code, missing.err) == (1, "famulus: there is no family/nobodys in the config\n")


def test_who_is_named_in_the_config_is_told_apart(
    broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = [{"identity": "w1", "by": "family/main"}]
    monkeypatch.setattr(broker, "_on_errors", lambda user: {"workers": workers})
    assert famulus("errors", "list").out == "w1  named in the config  by family/main\n"


def test_a_broker_that_does_not_count_whom_it_forgives(
    broker: PlayedBroker, famulus: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_on_errors_clear", lambda user, identity: {"cleared": True})
    assert famulus("errors", "clear").out == "forgiven\n"
