"""Who is logged in, and for how long. The clock stands still unless a test moves it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from famulus.admin.secret import Secret
from famulus.core.clock import NS_PER_S
from famulus.web.sessions import IDLE_NS, LIFETIME_NS, SESSIONS_MAX, Session, Sessions

PASSWORD = Secret("swordfish")
START_NS = 1000 * NS_PER_S


def ids() -> Iterator[str]:
    return (f"secret-{number}" for number in count())


@pytest.fixture
def sessions() -> Sessions:
    source = ids()
    return Sessions(lambda: next(source))


def found(sessions: Sessions, session: Session, now_ns: int, *, used: bool = False) -> bool:
    return sessions.find(session.id, session.token, now_ns, used=used) is session


def test_it_takes_both_secrets(sessions: Sessions) -> None:
    one, other = (sessions.open(name, PASSWORD, "10.0.0.9", START_NS) for name in ("ann", "ben"))
    assert len({one.id, one.token, other.id, other.token}) == 4
    assert found(sessions, one, START_NS)
    for session_id, token in [
        (one.id, ""),
        ("", one.token),
        ("", ""),
        (one.id, other.token),
        (one.token, one.id),
        (one.id, one.id),
        (one.id, one.token + "x"),
        (one.id, "\udcff☕"),
    ]:
        assert sessions.find(session_id, token, START_NS, used=True) is None


def test_it_ends_when_nobody_uses_it(sessions: Sessions) -> None:
    session = sessions.open("ann", PASSWORD, "10.0.0.9", START_NS)
    assert session.left_ns(START_NS) == IDLE_NS
    last_ns = START_NS + IDLE_NS - 1
    assert found(sessions, session, last_ns), "looking is no use"
    assert not found(sessions, session, last_ns + 1)
    assert len(sessions) == 0, "the password is gone with it"


def test_use_keeps_it_until_its_lifetime_is_over(sessions: Sessions) -> None:
    session = sessions.open("ann", PASSWORD, "10.0.0.9", START_NS)
    now_ns = START_NS
    while now_ns + IDLE_NS // 2 < START_NS + LIFETIME_NS:
        now_ns += IDLE_NS // 2
        assert found(sessions, session, now_ns, used=True)
    assert not found(sessions, session, START_NS + LIFETIME_NS, used=True)


def test_a_login_has_new_secrets_and_ends_the_session_before(sessions: Sessions) -> None:
    before = sessions.open("ann", PASSWORD, "10.0.0.9", START_NS)
    after = sessions.open("ann", PASSWORD, "10.0.0.9", START_NS, instead_of=before.id)
    assert (after.id != before.id, after.token != before.token) == (True, True)
    assert not found(sessions, before, START_NS)
    assert found(sessions, after, START_NS)


def test_there_are_only_so_many_and_the_idlest_makes_room(sessions: Sessions) -> None:
    opened = [sessions.open("ann", PASSWORD, "10.0.0.9", START_NS + number) for number in range(SESSIONS_MAX)]
    assert found(sessions, opened[0], START_NS + SESSIONS_MAX, used=True)
    sessions.open("ben", PASSWORD, "10.0.0.9", START_NS + SESSIONS_MAX + 1)
    assert len(sessions) == SESSIONS_MAX
    assert found(sessions, opened[0], START_NS + SESSIONS_MAX + 1)
    assert not found(sessions, opened[1], START_NS + SESSIONS_MAX + 1)


def test_old_ones_do_not_wait_for_somebody_to_look(sessions: Sessions) -> None:
    for _ in range(5):
        sessions.open("ann", PASSWORD, "10.0.0.9", START_NS)
    sessions.open("ben", PASSWORD, "10.0.0.9", START_NS + IDLE_NS)
    assert len(sessions) == 1


def test_it_shows_no_secret(sessions: Sessions) -> None:
    session = sessions.open("ann", PASSWORD, "10.0.0.9", START_NS)
    assert repr(session) == "Session('ann')"
