"""Which brokers a client is given: one or several, by argument or environment."""

from __future__ import annotations

import pytest

from famulus.errors import SettingsError
from famulus.net.addresses import FRONTEND, frontends


@pytest.mark.parametrize(
    ("wish", "addresses"),
    [
        ("a:1", ["tcp://a:1"]),
        ("tcp://a:1, b:2,", ["tcp://a:1", "tcp://b:2"]),
        (["a:1", "tcp://b:2"], ["tcp://a:1", "tcp://b:2"]),
        (("b:2", "a:1,c:3"), ["tcp://b:2", "tcp://a:1", "tcp://c:3"]),
        ((each for each in ("a:1", "a:1", "tcp://a:1")), ["tcp://a:1"]),
    ],
)
def test_what_is_wished_for(wish: str | list[str], addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMULUS_FRONTEND", "not:7")
    assert frontends(wish) == addresses


@pytest.mark.parametrize("nothing", [None, "", [], [""], ","])
def test_nothing_is_what_the_environment_says_or_the_default(
    nothing: str | list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAMULUS_FRONTEND", "a:1,b:2")
    assert frontends(nothing) == ["tcp://a:1", "tcp://b:2"]
    monkeypatch.delenv("FAMULUS_FRONTEND")
    assert frontends(nothing) == [FRONTEND]


@pytest.mark.parametrize("wish", ["a:1,x", ["a:1", "tcp://b:99999"]])
def test_each_of_them_is_checked(wish: str | list[str]) -> None:
    with pytest.raises(SettingsError, match="is not a broker's address"):
        frontends(wish)
