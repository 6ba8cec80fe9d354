"""The first broker of a network: all of it is in its folder, or nothing is in the way of the next try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from famulus.broker.folder import Folder
from famulus.broker.founding import checked_place, found
from famulus.broker.keys import Secret
from famulus.broker.membership import Membership, look
from famulus.broker.passwords import derive_key
from famulus.broker.settings import Settings
from famulus.broker.tls import check_http, with_own_certificate
from famulus.core.config.edit_set import network_of
from famulus.core.config.effective import effective
from famulus.errors import SettingsError

PLACE: dict[str, Any] = {
    "family": "main",
    "host": "127.0.0.1",
    "frontend_port": 7100,
    "backend_port": 7101,
    "config_pub_port": 7102,
    "peer_port": 7103,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b1"


def test_what_is_founded_is_a_network_of_one_broker(path: Path) -> None:
    network, secret = found(path, "b1", PLACE, "ada", "pw")
    known, config, broker = look(path)
    assert known.network_id == network == network_of(known.root_public)
    assert known.identity == "b1"
    assert list(config.brokers) == ["b1"]
    assert config.broker_states == {"b1": "active"}
    assert list(config.families) == ["main"]
    assert broker.public_key == known.root_public
    assert (broker.host, broker.frontend_port, broker.peer_port) == ("127.0.0.1", 7100, 7103)
    assert (config.warnings, config.conflicts) == ((), ())
    ada = config.admins["main"]["ada"]
    key = derive_key(ada.hash, "pw")
    assert key is not None
    assert key.public == ada.public_key
    other = derive_key(ada.hash, "other")
    assert other is not None
    assert other.public != ada.public_key
    assert len(secret) >= 32
    assert "Secret(...)" in repr(secret)


def test_its_http_port_has_a_certificate_for_where_others_find_it(path: Path) -> None:
    found(path, "b1", PLACE | {"host": "b1.example"}, "ada", "pw")
    check_http(with_own_certificate(Settings(folder=str(path), http_host="0.0.0.0")))
    certificate = x509.load_pem_x509_certificate(Folder(path).certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "b1.example" in names.get_values_for_type(x509.DNSName)


def test_its_edits_are_all_valid_and_by_the_admin(path: Path) -> None:
    found(path, "b1", PLACE, "ada", "pw")
    membership = Membership(path)
    try:
        assert membership.damage == []
        assert membership.edits.version == 4
        assert {signed.edit.author for signed in membership.edits} == {"ada"}
        assert membership.edits.grant_of("b1", membership.key.public) == next(iter(membership.edits)).id
        assert membership.secret() == Folder(path).secret.read_text().strip()
    finally:
        membership.close()


def test_the_secret_may_be_there_before_the_network(path: Path) -> None:
    given = Secret("as many characters as nobody can guess")
    assert found(path, "b1", PLACE, "ada", "pw", given)[1] == given
    assert Folder(path).secret.read_text().strip() == given


def test_a_secret_that_can_be_guessed_is_refused(path: Path) -> None:
    with pytest.raises(SettingsError, match="a secret for joining has 32 characters at least"):
        found(path, "b1", PLACE, "ada", "pw", Secret("short"))
    assert not path.exists()


def test_two_networks_are_two_networks(tmp_path: Path) -> None:
    first, one_secret = found(tmp_path / "a", "b1", PLACE, "ada", "pw")
    second, other_secret = found(tmp_path / "b", "b1", PLACE, "ada", "pw")
    assert first != second
    assert one_secret != other_secret


def test_nobody_else_may_look_into_it(path: Path) -> None:
    found(path, "b1", PLACE, "ada", "pw")
    assert path.stat().st_mode & 0o077 == 0
    for part in path.iterdir():
        assert part.stat().st_mode & 0o077 == 0, part


def test_nothing_in_the_folder_tells_the_password(path: Path) -> None:
    found(path, "b1", PLACE, "ada", "a-password-of-note")
    for part in path.iterdir():
        assert b"a-password-of-note" not in part.read_bytes(), part


@pytest.mark.parametrize(
    ("identity", "word"), [("", "identity"), ("x" * 256, "identity"), ("b\n1", "identity"), ("b\x001", "identity")]
)
def test_names_that_cannot_be(path: Path, identity: str, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        found(path, identity, PLACE, "ada", "pw")
    assert_free(path)


@pytest.mark.parametrize("admin", ["", "a/b", "x" * 256, "a\nb"])
def test_names_of_admins_that_cannot_be(path: Path, admin: str) -> None:
    """A name with a slash would be that of an admin of a family that nobody has."""
    with pytest.raises(SettingsError, match="admin"):
        found(path, "b1", PLACE, admin, "pw")
    assert_free(path)


@pytest.mark.parametrize(
    ("place", "word"),
    [
        ({"frontend_port": 0}, "frontend_port"),
        ({"frontend_port": 65536}, "frontend_port"),
        ({"peer_port": -1}, "peer_port"),
        ({"peer_port": 7100}, "four different ports, not 7100, 7101, 7102, 7100"),
        ({"config_pub_port": "7102"}, "config_pub_port"),
        ({"host": ""}, "host"),
        ({"host": "a\nb"}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "*"}, "host"),
        ({"host": "tcp://here"}, "host"),
        ({"family": "a\nb"}, "family"),
        ({"family": "x" * 256}, "family"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_places_that_cannot_be(path: Path, place: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsError, match=word) as caught:
        found(path, "b1", PLACE | place, "ada", "pw")
    assert "\n" not in str(caught.value)
    assert_free(path)


@pytest.mark.parametrize("password", ["", "x" * 1025])
def test_passwords_that_cannot_be(path: Path, password: str) -> None:
    with pytest.raises(SettingsError, match="password"):
        found(path, "b1", PLACE, "ada", password)
    assert_free(path)


def test_a_folder_that_is_in_use_is_left_alone(path: Path) -> None:
    found(path, "b1", PLACE, "ada", "pw")
    before = {part.name: part.read_bytes() for part in path.iterdir()}
    with pytest.raises(SettingsError, match="is not empty"):
        found(path, "b1", PLACE, "ada", "pw")
    assert {part.name: part.read_bytes() for part in path.iterdir()} == before


def test_a_folder_with_anything_in_it_is_left_alone(path: Path) -> None:
    path.mkdir()
    (path / "letter.txt").write_text("mine")
    with pytest.raises(SettingsError, match="is not empty"):
        found(path, "b1", PLACE, "ada", "pw")
    assert [part.name for part in path.iterdir()] == ["letter.txt"]


def test_a_place_is_told_in_full(path: Path) -> None:
    told = checked_place("b1", {"family": "main", "host": "h"})
    assert told["frontend_port"] == 7100
    assert told["services"] == "all"
    assert told["public_key"] == "0" * 64


def test_a_disk_that_is_full_leaves_nothing_in_the_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SettingsError("edits.log: cannot be appended to (No space left on device)")

    with monkeypatch.context() as patched:
        patched.setattr("famulus.broker.edit_log.EditLog.append", full)
        with pytest.raises(SettingsError, match="No space left"):
            found(path, "b1", PLACE, "ada", "pw")
    assert_free(path)


def assert_free(path: Path) -> None:
    """Nothing is in the way of the next try."""
    network, secret = found(path, "b1", PLACE, "ada", "pw")
    assert isinstance(secret, Secret)
    assert look(path)[0].network_id == network


def test_the_config_is_the_same_however_it_is_read(path: Path) -> None:
    found(path, "b1", PLACE, "ada", "pw")
    membership = Membership(path)
    config = effective(membership.edits)
    membership.close()
    assert look(path)[1].to_bytes() == config.to_bytes()
