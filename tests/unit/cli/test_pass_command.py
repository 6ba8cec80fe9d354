"""The file of a pass is the only copy of a key: it is there as long as the config may know that key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from famulus.wire import headers
from famulus.wire.curve import CurveKey

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Command, PlayedBroker

OLD, NEW = "1" * 64, "2" * 64
SHOP = {"public_keys": [OLD], "families": ["main"], "call": ["echo"]}
NONSENSE = b"nonsense"
REFUSED = headers.write("MANAGE", "RESPONSE", outcome="REJECTED", reason="overload: it could not be written")


def public_key(file: Path) -> str:
    return CurveKey(bytes.fromhex(json.loads(file.read_bytes())["secret_key"])).public.hex()


@pytest.mark.parametrize("answer", [b"", NONSENSE], ids=["no answer", "an answer that makes no sense"])
def test_a_pass_that_may_be_valid_stays(broker: PlayedBroker, famulus: Command, tmp_path: Path, answer: bytes) -> None:
    broker.spoiled = ("edit", answer)
    out = tmp_path / "shop.pass"
    failed = famulus("pass", "new", "shop", "--out", str(out), "--timeout", "0.5")
    assert failed.code != 0
    (key,) = broker.value("principal/shop")["public_keys"]
    assert public_key(out) == key
    assert f"{out} stays, since it may be a pass of shop now" in failed.err
    assert key in failed.err


def test_a_pass_that_is_valid_stays_although_the_wait_goes_wrong(
    broker: PlayedBroker, famulus: Command, tmp_path: Path
) -> None:
    broker.spoiled = ("seen", REFUSED)
    out = tmp_path / "shop.pass"
    failed = famulus("pass", "new", "shop", "--out", str(out), "--wait", "1")
    assert failed.code == 1
    assert [public_key(out)] == broker.value("principal/shop")["public_keys"]
    assert f"{out} is the pass of shop" in failed.err


def test_of_a_pass_that_was_refused_nothing_is_left(broker: PlayedBroker, famulus: Command, tmp_path: Path) -> None:
    out = tmp_path / "shop.pass"
    broker.meanwhile = lambda: broker.put("principal/shop", SHOP)
    assert famulus("pass", "new", "shop", "--out", str(out)).code == 5
    assert not out.exists()


def test_the_new_pass_of_a_rotation_stays_and_the_rotation_can_be_taken_back(
    broker: PlayedBroker, famulus: Command, tmp_path: Path
) -> None:
    broker.put("principal/shop", SHOP)
    broker.spoiled = ("edit", b"")
    out = tmp_path / "new.pass"
    assert famulus("pass", "rotate", "shop", "--out", str(out), "--timeout", "0.5").code == 7
    assert broker.value("principal/shop")["public_keys"] == [OLD, public_key(out)]
    broker.spoiled = ("", b"")
    again = famulus("pass", "rotate", "shop", "--out", str(tmp_path / "newer.pass"))
    assert again.code == 1
    assert "--finish, or with --cancel if the new pass was lost" in again.err
    cancelled = famulus("pass", "rotate", "shop", "--cancel")
    assert f"shop keeps its old key, {OLD}; its new one is forgotten: {public_key(out)}" in cancelled.err
    assert broker.value("principal/shop") == SHOP


def test_a_pass_that_is_of_no_use_elsewhere_says_so(broker: PlayedBroker, famulus: Command, tmp_path: Path) -> None:
    made = famulus("pass", "new", "near", "--out", str(tmp_path / "near.pass"))
    assert "since the broker is at 127.0.0.1; if not: famulus config set broker/b1 host=ADDRESS" in made.err
    broker.put("broker/b1", {**broker.value("broker/b1"), "host": "10.0.0.7"}, "root")
    assert "machine only" not in famulus("pass", "new", "far", "--out", str(tmp_path / "far.pass")).err


def test_the_end_of_a_rotation_says_which_key_is_kept(broker: PlayedBroker, famulus: Command) -> None:
    broker.put("principal/shop", {**SHOP, "public_keys": [OLD, NEW]})
    shown = famulus("pass", "show", "shop").out
    assert f"old public key  {OLD}" in shown
    assert f"new public key  {NEW}" in shown
    assert famulus("pass", "rotate", "shop", "--finish", "--cancel").code == 2
    finished = famulus("pass", "rotate", "shop", "--finish")
    assert f"shop keeps its new key, {NEW}; its old one is forgotten: {OLD}" in finished.err
    assert broker.value("principal/shop")["public_keys"] == [NEW]
    for end in ("--finish", "--cancel"):
        assert "one key only" in famulus("pass", "rotate", "shop", end).err
