"""Passwords: the right one is known, a key follows from it, and a hostile hash costs nothing."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.pwhash import argon2id

from famulus.broker import keys, passwords
from famulus.broker.passwords import check_password, derive_key, new_admin
from famulus.errors import SettingsError


def hash_password(password: str) -> str:
    """As brokers kept it before edits had proofs."""
    data = unicodedata.normalize("NFC", password).encode()
    return argon2id.str(data, opslimit=passwords.PASSES, memlimit=passwords.MEMORY_KIB * 1024).decode("ascii")


# Its salt is never the same. Names of tests must be, so none has a hash in it.
HASHED = hash_password("correct horse")


def test_the_right_password_and_a_wrong_one() -> None:
    assert check_password(HASHED, "correct horse")
    assert not check_password(HASHED, "correct horsf")
    assert not check_password(HASHED, "correct horse ")


def test_a_hash_of_another_argon2() -> None:
    """Made by argon2-cffi: ours is no argon2 of its own kind."""
    hashed = "$argon2id$v=19$m=19456,t=2,p=1$SwnD2fZ1+gf0VtaEwW05gQ$6bZ1j2aMeRKa5uAicFsmclmbKzlAw7gCrQ1xfRpm4JA"
    assert check_password(hashed, "correct horse")
    assert not check_password(hashed, "correct horsf")


@pytest.mark.parametrize("password", ["a", "x" * 1024, "ü" * 512, "\0", "a\0b", "\n"])
def test_passwords_that_can_be(password: str) -> None:
    hashed = hash_password(password)
    assert check_password(hashed, password)
    assert not check_password(hashed, password[:-1] + "?")


@pytest.mark.parametrize("password", ["", "x" * 1025, "ü" * 513, "\udcff", "x" * 10_000_000])
def test_passwords_that_cannot_be(password: str) -> None:
    assert check_password(HASHED, password) is False


def test_the_same_letters_from_another_keyboard() -> None:
    hashed = hash_password("caf\u00e9")
    assert check_password(hashed, "cafe\u0301")
    assert not check_password(hashed, "cafe")


def with_costs(memory_kib: object, passes: object, lanes: object = 1) -> str:
    return HASHED.replace("m=19456,t=2,p=1", f"m={memory_kib},t={passes},p={lanes}")


@pytest.mark.parametrize(
    "hashed",
    [
        with_costs(4_194_304, 2),
        with_costs(4_294_967_295, 2),
        with_costs(passwords.MEMORY_KIB_MAX + 1, 1),
        with_costs(10**12, 1),
        with_costs(8, 4_294_967_295),
        with_costs(19_456, passwords.PASSES_MAX + 1),
        with_costs(19_456, 2, 16_777_215),
    ],
    ids=itertools.count(),
)
def test_an_absurd_cost_is_not_paid(hashed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argon2id, "verify", lambda *_: pytest.fail("it is being paid"))
    assert check_password(hashed, "correct horse") is False


def test_a_dearer_hash_may_be_checked() -> None:
    """So that what is advised some day can be introduced one broker at a time."""
    dear = argon2id.str(b"correct horse", opslimit=passwords.PASSES_MAX, memlimit=passwords.MEMORY_KIB_MAX * 1024)
    assert check_password(dear.decode(), "correct horse")


@pytest.mark.parametrize(
    "hashed",
    [
        "",
        "correct horse",
        "$",
        HASHED[:-1],
        HASHED + "A",
        HASHED + "\n",
        HASHED + "\0",
        HASHED.replace("argon2id", "argon2i"),
        HASHED.replace("v=19", "v=16"),
        with_costs(0, 0),
        with_costs(1, 1),
        with_costs("00019456", 2),
        with_costs("-1", 2),
        with_costs("١٩٤٥٦", 2),
        "$argon2id$v=19$m=19456,t=2,p=1$$",
        "\udcff" * 98,
        "$argon2id" * 1_000_000,
    ],
    ids=itertools.count(),
)
def test_a_hostile_hash_has_no_password(hashed: str) -> None:
    for password in ("correct horse", "", "a"):
        assert check_password(hashed, password) is False


@given(st.text() | st.text("$argon2id=v19mtp,A", max_size=130))
def test_nor_has_rubbish(hashed: str) -> None:
    assert check_password(hashed, "correct horse") is False


# -- keys ---------------------------------------------------------------------------------------------------------


def test_the_same_password_gives_the_same_key_and_another_one_another() -> None:
    value = new_admin("correct horse")
    key, again = derive_key(value["hash"], "correct horse"), derive_key(value["hash"], "correct horse")
    assert key is not None
    assert again is not None
    assert key.public == again.public == value["public_key"]
    assert keys.verify(key.public, b"an edit", key.sign(b"an edit"))
    other = derive_key(value["hash"], "correct horsf")
    assert other is not None
    assert other.public != key.public


def test_two_admins_with_one_password_have_two_keys() -> None:
    assert new_admin("correct horse")["public_key"] != new_admin("correct horse")["public_key"]


def test_neither_key_nor_record_shows_what_is_secret() -> None:
    value = new_admin("correct horse")
    key = derive_key(value["hash"], "correct horse")
    assert repr(key) == f"KeyPair(public={value['public_key']!r})"
    assert value["hash"].startswith("$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.parametrize("password", ["", "x" * 1025, "\udcff", "x" * 10_000_000])
def test_there_is_no_key_of_what_cannot_be_a_password(password: str) -> None:
    with pytest.raises(SettingsError, match="password: expected 1 to 1024 bytes of UTF-8"):
        new_admin(password)
    assert derive_key(new_admin("x")["hash"], password) is None


@pytest.mark.parametrize(
    "how",
    [
        "",
        "$argon2id$v=19$m=4294967,t=2,p=1$" + 32 * "0",
        "$argon2id$v=19$m=19456,t=99,p=1$" + 32 * "0",
        "$argon2id$v=19$m=0,t=0,p=1$" + 32 * "0",
        "$argon2id$v=19$m=19456,t=2,p=1$" + 31 * "0",
        "$argon2id$v=19$m=19456,t=2,p=1$" + 32 * "0" + "\n",
    ],
)
def test_a_hostile_record_gives_no_key_and_costs_nothing(how: str) -> None:
    assert derive_key(how, "correct horse") is None
