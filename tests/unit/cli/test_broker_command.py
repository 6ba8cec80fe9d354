"""What the broker command says of its own settings."""

from __future__ import annotations

import pytest

from famulus.broker.settings import load
from famulus.cli.broker.broker import _out_of_reach


@pytest.mark.parametrize(
    ("host", "advertised", "remedy"),
    [
        ("0.0.0.0", "127.0.0.1", "host=ADDRESS"),
        ("10.0.0.7", "127.0.0.1", "host=10.0.0.7"),
        ("0.0.0.0", "10.0.0.7", ""),
        ("127.0.0.1", "127.0.0.1", ""),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_a_broker_that_others_are_told_to_look_for_on_their_own_machines(
    host: str, advertised: str, remedy: str, plain: bool
) -> None:
    settings = load(None, {"identity": "b1", "host": host, "advertised_host": advertised, "plain_on_purpose": plain})
    said = _out_of_reach(settings)
    assert f"famulus config set broker/b1 {remedy}; then make passes" in said if remedy else said == ""
