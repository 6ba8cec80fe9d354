"""Passes and invitations as an admin makes them: by commands, at a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.processes.conftest import wait_until
from tests.processes.networks import Member, Network, famulus, port_flags
from tests.processes.ports import free_ports

from famulus import Client
from famulus.core.steward.answers import Shown
from famulus.errors import OutcomeError


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with closing(Network(tmp_path_factory.mktemp("passes"))) as network:
        network.found("b1")
        network.wait_until_active()
        yield network


@pytest.fixture
def b1(network: Network) -> Member:
    return network["b1"]


def outcome(pass_file: Path, service: str) -> str:
    """How a task with this pass ends: nobody serves anything here, so well is `no_service`."""
    with Client(pass_file=pass_file, timeout=5) as client:
        try:
            client.request(service)
        except OutcomeError as error:
            return error.code
    return "OK"


def test_a_pass_is_made_shown_changed_and_taken_away(b1: Member, tmp_path: Path) -> None:
    out = tmp_path / "shop.pass"
    limits = ("--days", "30", "--tasks-per-s", "7", "--open-tasks-max", "9")
    made = b1.cli("pass", "new", "shop", "--call", "thumb.*,echo", "--out", str(out), *limits)
    assert f"{out} is the pass of shop" in made.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    file = json.loads(out.read_bytes())
    assert (file["name"], [each["identity"] for each in file["brokers"]]) == ("shop", ["b1"])
    assert file["secret_key"] not in made.stdout + made.stderr
    wait_until(lambda: outcome(out, "thumb.small") == "no_service", 10, "the shop let in")
    assert outcome(out, "other") == "not_allowed"

    again = b1.cli("pass", "new", "shop", code=1)
    assert "shop has a pass already" in again.stderr
    listed = b1.cli("pass", "list").stdout
    assert "shop  calls thumb.*, echo" in listed
    shown = b1.cli("pass", "show", "shop").stdout
    assert "may serve       nothing" in shown
    assert "tasks a second  7" in shown
    assert file["secret_key"] not in shown

    b1.cli("pass", "rights", "shop", "--call", "other", "--no-call", "echo", "--tasks-per-s", "0")
    wait_until(lambda: outcome(out, "other") == "no_service", 10, "more rights")
    assert outcome(out, "echo") == "not_allowed"
    unchanged = b1.cli("pass", "rights", "shop", "--call", "other")
    assert "nothing was sent" in unchanged.stdout
    assert "there is no echo to take away" in b1.cli("pass", "rights", "shop", "--no-call", "echo", code=1).stderr

    b1.cli("pass", "revoke", "shop")
    wait_until(lambda: outcome(out, "other") == "expired", 20, "the shop kept out")
    assert "there is no principal 'shop'" in b1.cli("pass", "revoke", "shop", code=1).stderr
    assert "nobody has a pass" in b1.cli("pass", "list").stdout


def test_nothing_is_left_of_a_pass_that_cannot_be_made(b1: Member, tmp_path: Path) -> None:
    there = tmp_path / "there.pass"
    there.write_text("mine")
    refused = b1.cli("pass", "new", "late", "--out", str(there), code=2)
    assert "is there already" in refused.stderr
    assert there.read_text() == "mine"
    assert "no name for a principal" in b1.cli("pass", "new", ".x", code=2).stderr
    out = tmp_path / "foreign.pass"
    foreign = b1.cli("pass", "new", "foreign", "--family", "nowhere", "--out", str(out), code=1)
    assert "there is no broker in nowhere" in foreign.stderr
    assert not out.exists()
    wrong = b1.cli("pass", "new", "late", "--out", str(out), password="wrong", code=8)
    assert wrong.stderr.count("\n") == 1
    assert not out.exists()
    assert "nobody has a pass" in b1.cli("pass", "list").stdout


def test_a_key_that_never_travels(b1: Member, tmp_path: Path) -> None:
    public = famulus("pass", "key", str(tmp_path / "press.key")).stdout.strip()
    assert (tmp_path / "press.key").stat().st_mode & 0o777 == 0o600
    out = tmp_path / "press.pass"
    b1.cli("pass", "new", "press", "--call", "print", "--public-key", public, "--out", str(out))
    assert json.loads(out.read_bytes())["secret_key"] is None
    wait_until(lambda: outcome(out, "print") == "no_service", 10, "the press let in")
    b1.cli("pass", "revoke", "press")


def test_an_admin_with_a_pass_asks_over_a_connection_with_keys(b1: Member, tmp_path: Path) -> None:
    out = tmp_path / "desk.pass"
    b1.cli("pass", "new", "desk", "--out", str(out))
    shown = b1.cli_json("config", "show", "--pass", str(out), "--broker", b1.frontend)
    assert Shown(**{name: shown[name] for name in ("network", "broker", "version", "digest", "keys")}).broker == "b1"
    b1.cli("pass", "revoke", "desk")
    kept_out = b1.cli("config", "show", "--pass", str(out), "--timeout", "2", code=7)
    assert "does not know the key of this pass of desk" in kept_out.stderr


def test_a_broker_that_is_trusted_joins_with_an_invitation_without_a_secret(network: Network, b1: Member) -> None:
    path, out = network.path / "b2", network.path / "b2.invitation"
    key = famulus("broker", "--folder", str(path), "--show-key").stdout.strip()
    b1.cli("broker-admin", "trust", key, "--identity", "b2", "--out", str(out))
    invitation = json.loads(out.read_bytes())
    assert (invitation["secret"], invitation["address"]) == ("", f"tcp://127.0.0.1:{b1.peer_port}")
    ports = free_ports(4)
    b2 = network.start("--folder", str(path), "--join", str(out), "--identity", "b2", *port_flags(ports))
    assert b1.admin.told("show")["brokers"].keys() == {"b1", "b2"}
    assert not (path / "join.secret").exists()
    b2.stop()
    told = famulus("invite", str(path), code=2)
    assert "was never told the network's secret" in told.stderr


def test_invitations_that_are_worth_nothing(network: Network, b1: Member) -> None:
    out = network.path / "b3.invitation"
    assert "valid for 1 to 30 days" in famulus("invite", str(b1.path), "--days", "31", code=2).stderr
    famulus("invite", str(b1.path), "--out", str(out), "--days", "1")
    join = ("broker", "--folder", str(network.path / "b3"), "--join", str(out), "--identity", "b3")
    out.chmod(0o644)
    assert "others may read this invitation" in famulus(*join, code=2).stderr
    out.chmod(0o600)
    invitation = json.loads(out.read_bytes())
    out.write_text(json.dumps(invitation | {"until_ms": 1}))
    assert "this invitation has expired" in famulus(*join, code=2).stderr
    out.write_text(json.dumps(invitation | {"secret": "0" * 64}))
    guessed = famulus(*join, code=2).stderr.splitlines()[-1]
    assert "the secret is not that of its network, or has expired" in guessed
    out.write_text("{}")
    assert "is not an invitation, or is damaged" in famulus(*join, code=2).stderr
