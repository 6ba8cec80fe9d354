"""A broker that its owner has changed signs what it likes; the others do not let it count, and say so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import zmq
from tests.processes.conftest import Raw, wait_until
from tests.processes.networks import Member, Network

from famulus.broker import keys
from famulus.broker.membership import Membership, nonce
from famulus.broker.passwords import derive_key, new_admin
from famulus.core.config import sync
from famulus.core.config.draft import Author, Draft, make, parents_for
from famulus.core.config.edit import SignedEdit, Signer, sign
from famulus.core.steward.post import Identity, Post
from famulus.wire import peers

BENS = "the password of ben"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path)
    yield network
    network.close()


class ChangedBroker:
    """What its owner can do with the folder of a broker, and the password of an admin of its family."""

    def __init__(self, member: Member, honest: Member) -> None:
        self._member = Membership(member.path)
        self._honest = honest
        me, key = self._member, self._member.key
        boot = int(time.time() * 1000) + 60_000
        self._post = Post(Identity(me.network.network_id, me.identity, key.public, key.sign, boot), keys.verify)

    def forges(self, key: str, value: object, *, as_ben: bool) -> SignedEdit:
        me, edits = self._member, self._member.edits
        (record,) = edits.heads("admin/other/ben")
        ben = derive_key(record.edit.value["hash"], BENS)
        assert ben is not None
        signers: dict[str, Signer] = {record.id: ben.sign} if as_ben else {}
        draft = Draft(key, "PUT", value, parents_for(edits, key))
        grant = edits.grant_of(me.identity, me.key.public)
        hlc = int(time.time() * 1000) << 10
        made = make(draft, Author("ben", signers), edits.network, me.identity, grant, hlc, nonce())
        return sign(made, me.key.sign, signers)

    def sends(self, *edits: SignedEdit) -> None:
        connection = Raw(zmq.Context.instance(), zmq.DEALER, f"tcp://127.0.0.1:{self._honest.peer_port}")
        frames = self._post.write(peers.Config(sync.write(sync.Edits(list(edits)))))
        connection.socket.send_multipart(frames)
        connection.socket.close(2000)

    def close(self) -> None:
        self._member.close()


def has_the_right_one(member: Member) -> bool:
    return bool(member.admin.value("family/other") == {"heartbeat_ms": 900})


def warns_of(member: Member, count: int) -> bool:
    return sum("does not count" in each["sentence"] for each in member.admin.told("show")["warnings"]) == count


def test_a_changed_broker_makes_nobody_an_admin_of_another_family(network: Network) -> None:
    honest = network.found("b1")
    network.join("b2", family="other")
    network.join("b3")
    honest.admin.told("set_password", family="other", name="ben", new_password=BENS, parents=[])
    wait_until(lambda: "admin/other/ben" in network["b2"].admin.told("show")["keys"], 20, "that ben is known there")
    network["b2"].kill()
    evil = ChangedBroker(network["b2"], honest)
    try:
        forged = [
            evil.forges("admin/main/mal", new_admin("mal"), as_ben=True),
            evil.forges("admin/main/mel", new_admin("mel"), as_ben=False),
            evil.forges("family/main", {"heartbeat_ms": 10}, as_ben=True),
            evil.forges("broker_state/b3", {"state": "disabled"}, as_ben=True),
        ]
        right = evil.forges("family/other", {"heartbeat_ms": 900}, as_ben=True)
        for _ in range(3):
            evil.sends(*forged)
        evil.sends(*forged, right)
    finally:
        evil.close()
    for member in (honest, network["b3"]):
        wait_until(partial(has_the_right_one, member), 20, "the edit that was right")
        wait_until(partial(warns_of, member, len(forged)), 20, "a warning of each that was not")
        shown = member.admin.told("show")
        assert [key for key in shown["keys"] if key.startswith("admin/main/")] == ["admin/main/admin"]
        assert shown["keys"]["family/main"]["value"] == {"keys": "remote"}
        assert shown["brokers"]["b3"]["state"] == "active"
        for signed in forged:
            said = f"edit {signed.id[:8]} "
            member.broker.wait_for_line(said)
            assert member.broker.output.count(said) == 1, "once"
