"""Who called what, and who was refused, is in the journal of a real broker."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.processes.conftest import wait_until
from tests.processes.networks import Member, Network

from famulus import Client
from famulus.errors import OutcomeError
from famulus.journal.listing import last_rows
from famulus.journal.reading import JournalReader
from famulus.wire import curve, zmtp
from famulus.wire.curve import CurveKey

#: Of ZMTP: whoever is not let in hears less.
GREETING_BYTES = 64
ECHO_WORKER = Path(__file__).parent / "echo_worker.py"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path, journals=True)
    yield network
    network.close()


def pass_of(member: Member, name: str, path: Path) -> tuple[Path, CurveKey]:
    key = CurveKey(os.urandom(curve.KEY_BYTES))
    own = curve.of_signer(bytes.fromhex(member.admin.value(f"broker/{member.identity}")["public_key"]))
    assert own is not None
    broker = {"frontend": member.frontend, "backend": member.backend, "public_key": own.hex()}
    told = {"famulus_pass": 1, "network": "n", "name": name, "secret_key": key.secret.hex(), "brokers": [broker]}
    path.write_text(json.dumps(told))
    path.chmod(0o600)
    return path, key


def is_let_in_without_a_key(port: int) -> bool:
    heard = b""
    with socket.create_connection(("127.0.0.1", port), 10) as raw, suppress(ConnectionResetError):
        raw.sendall(zmtp.opening(b"DEALER"))
        while len(heard) < GREETING_BYTES and (more := raw.recv(1000)):
            heard += more
    return len(heard) >= GREETING_BYTES


def access(member: Member) -> list[dict[str, Any]]:
    return last_rows(JournalReader(member.path / "journal"), "access", 1000)


def refused(member: Member) -> set[tuple[Any, ...]]:
    names = ("port", "wanted", "why", "principal", "key", "address", "service")
    return {tuple(row[name] for name in names) for row in access(member) if row["why"] is not None}


def test_who_called_what_and_who_was_refused(network: Network, tmp_path: Path) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text("journal_roll_s = 1\n")
    member = network.found("b1", "--config", str(settings))
    admin = member.admin
    shop, key = pass_of(member, "shop", tmp_path / "shop.pass")
    stranger, unknown = pass_of(member, "nobody", tmp_path / "stranger.pass")
    rights = {"public_keys": [key.public.hex()], "families": ["main"], "call": ["echo"], "serve": ["echo"]}
    admin.put("principal/shop", {**rights, "expires_ms": 4_000_000_000_000})
    admin.put("family/main", {"keys": "remote"})
    assert admin.ask("show", password="wrong")[0]
    network.run("b1", str(ECHO_WORKER), member.backend, "1", "echo").wait_for_line("is ready: ")
    with Client(pass_file=shop) as client:
        # The broker hears a little later that it may come in.
        wait_until(lambda: _answered(client, "echo") == "OK", 20, "an answer")
        assert client.request("echo", b"hello", timeout=20) == b"hello"
        assert _answered(client, "other") == "not_allowed"
    with Client(pass_file=stranger) as client:
        assert _answered(client, "echo", 2) != "OK"
    admin.put("family/main", {"keys": "all"})
    wait_until(lambda: not is_let_in_without_a_key(member.ports[0]), 20, "keys from everybody")
    assert not is_let_in_without_a_key(member.peer_port)
    expected = {
        ("frontend", "call", "not_allowed", "shop", None, "127.0.0.1", "other"),
        ("frontend", "connect", "unknown_key", None, unknown.public.hex(), "127.0.0.1", None),
        ("frontend", "connect", "no_key", None, None, "127.0.0.1", None),
        ("peer", "connect", "no_key", None, None, "127.0.0.1", None),
        ("frontend", "manage", "wrong_password", None, None, "127.0.0.1", None),
    }
    wait_until(lambda: refused(member) >= expected, 30, "all refusals in the journal")
    called = [row for row in access(member) if row["why"] is None]
    assert {(row["port"], row["wanted"], row["principal"], row["service"]) for row in called} == {
        ("frontend", "call", "shop", "echo")
    }
    assert sum(row["times"] for row in called) >= 2
    assert all(row["busy_ns"] > 0 for row in called)
    edits = last_rows(JournalReader(member.path / "journal"), "config", 1000)
    expires = [row["expires"] for row in edits if row["key"] == "principal/shop"]
    assert [each.year for each in expires] == [2096]


def _answered(client: Client, service: str, timeout: float = 5) -> str:
    try:
        client.request(service, timeout=timeout)
    except OutcomeError as error:
        return error.code
    return "OK"
