"""A broker that the config knows no more hears nothing more of it, over connections that it has as well."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.processes.conftest import wait_until
from tests.processes.networks import Network
from tests.processes.secured import Refused, SealedLine, Secured, connect, is_sent_away

from famulus.broker.keys import BrokerKey
from famulus.core.steward.gate import join_keys
from famulus.wire import zmtp
from famulus.wire.curve import CurveKey


@pytest.fixture(autouse=True)
def subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own lines are never one: brokers subscribe by libzmq."""
    monkeypatch.setitem(zmtp.PARTNERS, b"SUB", (b"PUB",))


def lines(secured: Secured, key: CurveKey) -> tuple[SealedLine, SealedLine]:
    """To b1, with this key: one that hears the news of the config, and one for letters."""
    b1 = secured.b1
    _, _, news, letters = (f"tcp://127.0.0.1:{port}" for port in b1.ports)
    return SealedLine(news, key, secured.public_key(b1), b"SUB"), SealedLine(letters, key, secured.public_key(b1))


def test_a_forgotten_broker_is_told_so_and_then_nothing_more(tmp_path: Path) -> None:
    secured = Secured(tmp_path, "b2")
    try:
        key = BrokerKey.load(secured.network["b2"].path / "broker.key").curve_key()
        news, letters = lines(secured, key)
        secured.cli("config", "set", "service/echo", "timeout_ms=5000")
        head = news.read(2)
        assert head[0] & 4 == 0, "a message, and no command"
        secured.cli("broker-admin", "forget", "b2", "--force")
        assert is_sent_away(letters.socket)
        assert is_sent_away(news.socket, 1_000_000)
        with pytest.raises(Refused):
            lines(secured, key)
        wait_until(lambda: "not known to the network" in refusal(secured), 15, "that b2 knows")
    finally:
        secured.close()


def refusal(secured: Secured) -> str:
    return secured.cli("config", "set", "service/echo", "timeout_ms=1", "--json", at="b2", code=1)


def test_who_came_without_a_key_hears_nothing_more_once_everybody_needs_one(tmp_path: Path) -> None:
    with closing(Network(tmp_path)) as network:
        b1 = network.found("b1")
        connected = [connect(f"tcp://127.0.0.1:{port}") for port in b1.ports[2:]]
        for each, kind in zip(connected, (b"SUB", b"DEALER"), strict=True):
            each.sendall(zmtp.opening(kind))
            heard = b""
            while b"READY" not in heard:
                heard += each.recv(1000)
        b1.admin.put("family/main", {"keys": "all"})
        assert [is_sent_away(each, 1_000_000) for each in connected] == [True, True]


def test_who_was_invited_hears_no_news_before_it_is_a_broker(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    try:
        joiner = CurveKey(join_keys((secured.b1.path / "join.secret").read_text().strip())[0])
        with pytest.raises(Refused):
            lines(secured, joiner)
        peer_port = f"tcp://127.0.0.1:{secured.b1.ports[3]}"
        SealedLine(peer_port, joiner, secured.public_key(secured.b1)).socket.close()
    finally:
        secured.close()
