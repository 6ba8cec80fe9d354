"""Passwords: the right one is known, a hostile hash costs nothing, and wrong ones make wait."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.pwhash import argon2id

from famulus.broker import passwords
from famulus.broker.passwords import ACCOUNTS_MAX, Failures, check_password, hash_password
from famulus.core.clock import NS_PER_S
from famulus.errors import SettingsError

# Its salt is never the same. Names of tests must be, so none has a hash in it.
HASHED = hash_password("correct horse")


def test_the_right_password_and_a_wrong_one() -> None:
    assert check_password(HASHED, "correct horse")
    assert not check_password(HASHED, "correct horsf")
    assert not check_password(HASHED, "correct horse ")


def test_what_owasp_advises() -> None:
    assert HASHED.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_the_same_password_twice_has_two_hashes() -> None:
    assert hash_password("correct horse") != HASHED


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
    with pytest.raises(SettingsError, match="password: expected 1 to 1024 bytes of UTF-8"):
        hash_password(password)
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


# -- failures ----------------------------------------------------------------------------------------------------


def test_each_failure_doubles_the_wait_up_to_five_minutes() -> None:
    failures = Failures()
    assert failures.wait_ns("ada", 0) == 0
    now_ns = 7 * NS_PER_S
    waits = []
    for _ in range(40):
        waits.append(failures.failed("ada", now_ns) // NS_PER_S)
        assert failures.wait_ns("ada", now_ns) == waits[-1] * NS_PER_S
        now_ns += waits[-1] * NS_PER_S
        assert failures.wait_ns("ada", now_ns - 1) == 1
        assert failures.wait_ns("ada", now_ns) == failures.wait_ns("ada", now_ns + 1) == 0
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256] + [300] * 31


def test_a_success_ends_it() -> None:
    failures = Failures()
    for _ in range(5):
        failures.failed("ada", 0)
    failures.succeeded("ada")
    failures.succeeded("nobody")
    assert failures.wait_ns("ada", 0) == len(failures) == 0
    assert failures.failed("ada", 0) == NS_PER_S


def test_accounts_wait_for_themselves_only() -> None:
    failures = Failures()
    failures.failed("ada", 0)
    assert failures.wait_ns("bob", 0) == 0


def test_a_full_list_forgets_who_has_not_failed_for_longest() -> None:
    failures = Failures()
    for number in range(ACCOUNTS_MAX):
        failures.failed(f"account {number}", 0)
    failures.failed("account 0", 1)
    failures.failed("one more", 2)
    assert len(failures) == ACCOUNTS_MAX
    assert failures.wait_ns("account 1", 2) == 0
    assert failures.wait_ns("account 0", 2) > 0
    assert failures.wait_ns("account 2", 2) > 0
    assert failures.wait_ns("one more", 2) == NS_PER_S
