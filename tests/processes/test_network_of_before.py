"""A network that was made before edits had proofs: it starts, keeps its edits, and its admins go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from nacl.pwhash import argon2id
from tests.processes.networks import PASSWORD, Member, Network, famulus, port_flags

from famulus.broker.edit_log import EditLog
from famulus.broker.membership import Membership
from famulus.broker.passwords import MEMORY_KIB, PASSES
from famulus.core.config.edit import SignedEdit, sign

NEW_PASSWORD = "another password of these tests"


def turn_back(path: Path) -> None:
    """Make of a new folder one as brokers wrote it before: no proofs, a hash in the place of a key."""
    member = Membership(path)
    edits, key = list(member.edits), member.key
    member.close()
    hashed = argon2id.str(PASSWORD.encode(), opslimit=PASSES, memlimit=MEMORY_KIB * 1024).decode()
    made: list[SignedEdit] = []
    for signed in edits:
        value = {"hash": hashed} if signed.edit.key.startswith("admin/") else signed.edit.value
        grant = made[0].id if made else ""
        made.append(sign(structs.replace(signed.edit, value=value, grant=grant, proofs_needed=False), key.sign))
    (path / "edits.log").unlink()
    with EditLog(path / "edits.log") as log:
        log.append(msgspec.msgpack.encode([signed.data, signed.signature]) for signed in made)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path)
    yield network
    network.close()


def of_before(network: Network) -> Member:
    member = network.members["b1"] = Member(network, "b1")
    place = ("--host", member.machine.host, *port_flags(member.ports))
    famulus("init", str(member.path), "--identity", "b1", *place, env={"FAMULUS_ADMIN_PASSWORD": PASSWORD})
    turn_back(member.path)
    return member.start()


def test_a_network_of_before_keeps_its_edits_and_its_admins_go_on(network: Network) -> None:
    first = of_before(network)
    assert first.admin.told("show")["version"] == 4
    first.admin.put("service/echo", {"max_attempts": 2})
    second = network.join("b2")
    network.wait_until_in_step(20)
    second.admin.put("service/echo", {"max_attempts": 3})
    # From now on the admin has a key, and proves what it need not.
    parents = second.admin.heads("admin/main/admin")
    second.admin.told("set_password", family="main", name="admin", new_password=NEW_PASSWORD, parents=parents)
    draft = {"key": "family/main", "op": "PUT", "value": {"heartbeat_ms": 900}}
    heads = second.admin.told("show", password=NEW_PASSWORD)["keys"]["family/main"]["heads"]
    draft["parents"] = [head["id"] for head in heads]
    second.admin.told("edit", password=NEW_PASSWORD, drafts=[draft])
    first.kill()
    first.start()
    shown = first.admin.told("show", password=NEW_PASSWORD)
    assert shown["keys"]["service/echo"]["value"] == {"max_attempts": 3}
    assert shown["keys"]["family/main"]["value"] == {"heartbeat_ms": 900}
    assert not [warning for warning in shown["warnings"] if "does not count" in warning["sentence"]]
