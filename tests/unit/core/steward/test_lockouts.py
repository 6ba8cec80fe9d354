"""Who waits after wrong passwords, and who does not."""

from __future__ import annotations

import pytest

from famulus.core.clock import NS_PER_S
from famulus.core.steward.lockouts import ACCOUNTS_MAX, Lockouts, frontend_source


def test_each_failure_doubles_the_wait_up_to_five_minutes() -> None:
    lockouts = Lockouts()
    assert lockouts.wait_ns("here", "ada", 0) == 0
    now_ns = 7 * NS_PER_S
    waits = []
    for _ in range(40):
        waits.append(lockouts.failed("here", "ada", now_ns) // NS_PER_S)
        assert lockouts.wait_ns("here", "ada", now_ns) == waits[-1] * NS_PER_S
        now_ns += waits[-1] * NS_PER_S
        assert lockouts.wait_ns("here", "ada", now_ns - 1) == 1
        assert lockouts.wait_ns("here", "ada", now_ns) == lockouts.wait_ns("here", "ada", now_ns + 1) == 0
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256] + [300] * 31


def test_who_guesses_elsewhere_keeps_nobody_out_here() -> None:
    lockouts = Lockouts()
    for _ in range(10):
        lockouts.failed("there", "ada", 0)
    assert lockouts.wait_ns("there", "ada", 0) > 0
    assert lockouts.wait_ns("here", "ada", 0) == 0
    assert lockouts.wait_ns("there", "bob", 0) == 0


def test_where_the_right_password_came_from_nobody_waits_any_more() -> None:
    lockouts = Lockouts()
    for _ in range(5):
        lockouts.failed("here", "ada", 0)
    lockouts.succeeded("here", "ada")
    assert lockouts.wait_ns("here", "ada", 0) == 0
    for _ in range(100):
        lockouts.failed("here", "ada", 0)
    assert lockouts.wait_ns("here", "ada", 0) == 0


def test_a_full_list_forgets_who_has_not_failed_for_longest() -> None:
    lockouts = Lockouts()
    for number in range(ACCOUNTS_MAX):
        lockouts.failed("here", f"account {number}", 0)
    lockouts.failed("here", "account 0", 1)
    lockouts.failed("here", "one more", 2)
    assert len(lockouts._failures) == ACCOUNTS_MAX
    assert lockouts.wait_ns("here", "account 1", 2) == 0
    assert lockouts.wait_ns("here", "account 0", 2) > 0
    assert lockouts.wait_ns("here", "one more", 2) == NS_PER_S


def test_the_list_of_good_places_is_bounded_too() -> None:
    lockouts = Lockouts()
    for number in range(ACCOUNTS_MAX + 10):
        lockouts.succeeded("here", f"account {number}")
    assert len(lockouts.good) == ACCOUNTS_MAX
    assert lockouts.failed("here", "account 0", 0) == NS_PER_S


def test_a_good_place_is_one_after_a_restart() -> None:
    before = Lockouts()
    before.succeeded("here", "ada")
    before.succeeded("here", "ada")
    assert before.good == [("here", "ada")]
    after = Lockouts(before.good)
    after.failed("here", "ada", 0)
    after.failed("here", "bob", 0)
    assert after.wait_ns("here", "ada", 0) == 0
    assert after.wait_ns("here", "bob", 0) > 0


def test_an_admin_who_was_heard_at_the_frontend_lets_no_other_pass_guess_there() -> None:
    lockouts = Lockouts()
    lockouts.succeeded(frontend_source("desk", "10.0.0.7"), "ada")
    lockouts.succeeded(frontend_source("", "127.0.0.1"), "ada")
    for principal, host in (("shop", "10.0.0.9"), ("shop", "10.0.0.7"), ("desk", "10.0.0.9")):
        lockouts.failed(frontend_source(principal, host), "ada", 0)
        assert lockouts.wait_ns(frontend_source(principal, host), "ada", 0) == NS_PER_S
    for principal, host in (("desk", "10.0.0.7"), ("", "127.0.0.1")):
        lockouts.failed(frontend_source(principal, host), "ada", 0)
        assert lockouts.wait_ns(frontend_source(principal, host), "ada", 0) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [("127.0.0.1", "127.9.9.9"), ("127.0.0.1", "::1"), ("2001:db8::1", "2001:db8::5:6:7:8"), ("fe80::1%a", "fe80::2")],
)
def test_nobody_has_thousands_of_places_to_guess_from(one: str, other: str) -> None:
    assert frontend_source("shop", one) == frontend_source("shop", other)


def test_another_machine_is_another_place() -> None:
    hosts = ("127.0.0.1", "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8:0:1::1", "")
    assert len({frontend_source("shop", host) for host in hosts}) == len(hosts)
    assert len({frontend_source("", host) for host in hosts}) == 1, "they are all on the broker's own machine"
