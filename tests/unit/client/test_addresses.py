"""Where a broker is: what may be given, and what is wrong with the rest."""

from __future__ import annotations

import pytest

from famulus.errors import SettingsError
from famulus.net import addresses


@pytest.mark.parametrize(
    ("wish", "address"),
    [
        ("tcp://127.0.0.1:7100", "tcp://127.0.0.1:7100"),
        ("127.0.0.1:7100", "tcp://127.0.0.1:7100"),
        ("broker.example.org:1", "tcp://broker.example.org:1"),
        ("[::1]:65535", "tcp://[::1]:65535"),
        ("ipc:///run/famulus", "ipc:///run/famulus"),
    ],
)
def test_addresses(wish: str, address: str) -> None:
    assert addresses.frontend(wish) == address
    assert addresses.backend(wish) == address


@pytest.mark.parametrize(
    "wish",
    ["x", "tcp://x", "tcp://:7100", "x:port", "x:0", "x:65536", "http://x:1", "-:1", "x:1 ", "ipc://", "inproc://x"],
)
def test_what_is_no_address_is_named(wish: str) -> None:
    with pytest.raises(SettingsError, match="is not a broker's address"):
        addresses.frontend(wish)


def test_the_environment_comes_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAMULUS_FRONTEND", raising=False)
    monkeypatch.delenv("FAMULUS_BACKEND", raising=False)
    assert addresses.frontend(None) == addresses.FRONTEND
    assert addresses.backend("") == addresses.BACKEND
    monkeypatch.setenv("FAMULUS_FRONTEND", "a:1")
    monkeypatch.setenv("FAMULUS_BACKEND", "b:2")
    assert addresses.frontend(None) == "tcp://a:1"
    assert addresses.backend(None) == "tcp://b:2"
    assert addresses.frontend("c:3") == "tcp://c:3"
