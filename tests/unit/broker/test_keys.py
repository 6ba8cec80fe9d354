"""A broker's key and the secrets of joining: what is signed is known, what is forged is not, and nothing is shown."""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.broker import keys
from famulus.broker.keys import BrokerKey, new_secret, verify
from famulus.core.steward.gate import check_proof, prove
from famulus.errors import SettingsError

#: The order of the group: S + L is the same number in another spelling.
L = 2**252 + 27742317777372353535851937790883648493


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.key"


@pytest.fixture
def key(path: Path) -> BrokerKey:
    return BrokerKey.create(path)


# -- the file ----------------------------------------------------------------------------------------------------


def test_a_key_comes_back_from_its_file(path: Path, key: BrokerKey) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    again = BrokerKey.load(path)
    assert again.public == key.public
    assert verify(key.public, b"message", again.sign(b"message"))


def test_two_keys_are_two(path: Path, key: BrokerKey) -> None:
    assert BrokerKey.create(path.with_name("other.key")).public != key.public


def test_a_key_is_not_overwritten(path: Path, key: BrokerKey) -> None:
    before = path.read_bytes()
    with pytest.raises(SettingsError, match=r"broker\.key: is there already; a key is not overwritten"):
        BrokerKey.create(path)
    assert path.read_bytes() == before


def test_a_key_that_cannot_be_written_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: object, offset: int) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SettingsError, match=r"broker\.key: cannot be created \(No space left on device\)"):
        BrokerKey.create(path)
    assert not path.exists()
    with pytest.raises(SettingsError, match=r"cannot be created \(No such file or directory\)"):
        BrokerKey.create(path / "key")


def test_it_is_on_the_disk_before_it_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    BrokerKey.create(path)
    assert synced == [path.stat().st_ino, path.parent.stat().st_ino]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644])
def test_a_key_that_others_may_touch_is_refused_with_the_remedy(path: Path, key: BrokerKey, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(SettingsError) as caught:
        BrokerKey.load(path)
    assert str(caught.value) == f"{path}: others may read this key (mode {mode:o}); run: chmod 600 {path}"
    path.chmod(0o400)
    assert BrokerKey.load(path).public == key.public


def test_no_key(path: Path) -> None:
    with pytest.raises(SettingsError, match=r"broker\.key: cannot be read \(No such file or directory\)"):
        BrokerKey.load(path)
    path.mkdir()
    with pytest.raises(SettingsError, match=r"broker\.key: cannot be read \(Is a directory\)"):
        BrokerKey.load(path)
    path.rmdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(SettingsError, match=r"broker\.key: is not the key of a broker"):
        BrokerKey.load(path)


def test_a_damaged_key_is_refused_and_not_shown(path: Path, key: BrokerKey) -> None:
    """Wherever it is damaged: any 32 bytes are a key, but not this broker's."""
    good = path.read_bytes()
    private = good.split()[5].decode()
    for place in range(len(good)):
        for damaged in (good[:place], good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(
                SettingsError, match=r"broker\.key: is (not the key of a broker, or is )?damaged"
            ) as caught:
                BrokerKey.load(path)
            assert private[:8] not in str(caught.value)
    path.write_bytes(good + b"\n")
    with pytest.raises(SettingsError, match="damaged"):
        BrokerKey.load(path)


# -- signatures --------------------------------------------------------------------------------------------------


def test_a_signature_holds_for_this_key_and_this_message_only(tmp_path: Path, key: BrokerKey) -> None:
    signature = key.sign(b"message")
    assert len(signature) == keys.SIGNATURE_BYTES
    assert verify(key.public, b"message", signature)
    assert not verify(key.public, b"messagf", signature)
    assert not verify(BrokerKey.create(tmp_path / "other.key").public, b"message", signature)
    assert not verify(key.public, signature + b"message", b"")
    for place in range(len(signature)):
        forged = signature[:place] + bytes([signature[place] ^ 1]) + signature[place + 1 :]
        assert not verify(key.public, b"message", forged)


def test_what_rfc_8032_says() -> None:
    assert verify(
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        b"\x72",
        bytes.fromhex(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    )


def test_a_signature_has_one_spelling(key: BrokerKey) -> None:
    signature = key.sign(b"message")
    s = int.from_bytes(signature[32:], "little") + L
    assert not verify(key.public, b"message", signature[:32] + s.to_bytes(32, "little"))
    assert not verify(key.public.upper(), b"message", signature)
    assert not verify(key.public + "\n", b"message", signature)
    assert not verify(f" {key.public}", b"message", signature)


@pytest.mark.parametrize("point", ["00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f"])
def test_a_key_that_would_sign_anything_signs_nothing(point: str) -> None:
    """Points of small order: with such a key some signatures fit many messages."""
    for first in (bytes.fromhex(point), bytes(32), b"\1" + bytes(31)):
        assert not verify(point, b"message", first + bytes(32))


@given(
    st.text() | st.binary(min_size=32, max_size=32).map(bytes.hex), st.binary(), st.binary() | st.binary(min_size=64)
)
def test_rubbish_is_no_signature_and_no_accident(public: str, message: bytes, signature: bytes) -> None:
    assert verify(public, message, signature) is False


@pytest.mark.parametrize("wrong", [None, 7, 1.5, [], {}, "text", b"bytes"])
def test_nor_are_things_of_the_wrong_kind(key: BrokerKey, wrong: Any) -> None:
    signature = key.sign(b"message")
    assert verify(wrong, b"message", signature) is False
    assert verify(key.public, wrong, signature) is False
    assert verify(key.public, signature + b"message", wrong) is False


# -- secrets -----------------------------------------------------------------------------------------------------


def test_secrets_are_long_and_differ() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(secret) for secret in made} == {43}


def test_a_proof_holds_for_this_secret_role_and_nonces_only() -> None:
    secret = new_secret()
    proof = prove(secret, "joiner", b"mine", b"yours")
    assert check_proof(proof, secret, "joiner", b"mine", b"yours")
    assert check_proof(proof, str(secret), "joiner", b"mine", b"yours")
    assert not check_proof(proof, new_secret(), "joiner", b"mine", b"yours")
    assert not check_proof(proof, secret, "member", b"mine", b"yours")
    assert not check_proof(proof, secret, "joiner", b"yours", b"mine")
    assert not check_proof(proof, secret, "joiner", b"mine")
    # The same bytes in other parts.
    assert not check_proof(proof, secret, "joiner", b"miney", b"ours")
    assert not check_proof(proof, secret, "joiner", b"mine", b"yours", b"")
    for rubbish in (b"", proof[:-1], proof + b"\0", bytes(32)):
        assert not check_proof(rubbish, secret, "joiner", b"mine", b"yours")


def test_without_a_secret_nobody_proves_anything() -> None:
    assert not check_proof(prove("", "joiner", b"nonce"), "", "joiner", b"nonce")


def test_proofs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def spy(one: bytes, other: bytes) -> bool:
        compared.append({one, other})
        return False

    monkeypatch.setattr(hmac, "compare_digest", spy)
    assert not check_proof(prove("secret", "joiner"), "secret", "joiner")
    assert compared == [{prove("secret", "joiner")}]


@given(st.text(), st.lists(st.binary()))
def test_any_text_is_a_secret(secret: str, nonces: list[bytes]) -> None:
    assert check_proof(prove(secret, "joiner", *nonces), secret, "joiner", *nonces) is (secret != "")


def test_what_was_typed_badly_is_only_wrong() -> None:
    assert not check_proof(prove("\udcff", "joiner"), "secret", "joiner")


# -- nothing is shown --------------------------------------------------------------------------------------------


def test_neither_key_nor_secret_is_shown(path: Path, key: BrokerKey) -> None:
    private = path.read_text().split()[5]
    for shown in (repr(key), str(key), f"{key}", repr([key]), repr({"key": BrokerKey.load(path)})):
        assert key.public in shown
        assert private not in shown
        assert repr(bytes.fromhex(private)) not in shown
    secret = new_secret()
    assert repr([secret]) == "[Secret(...)]"
    assert f"{secret!r}" == "Secret(...)"
    assert f"{secret}" == str(secret)
