"""What people are told of a worker, and when it is too late to wait for its first broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.homes import Homes
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.net.line import Line
from famulus.wire import headers, reasons
from famulus.worker.news import News
from famulus.worker.settings import WorkerSettings

START_NS = 1000 * NS_PER_S
DEAD = "tcp://127.0.0.1:1"


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line(DEAD, asks=False)
    yield line
    line.close()


def news_of(*homes: str, session: WorkerSession | None = None) -> tuple[News, Homes]:
    known = Homes(homes, lambda: 1.0)
    session = session or WorkerSession("w1", ["echo"], 1, None, lambda: 1.0, known)
    return News(WorkerSettings("w1", homes, connect_timeout_s=2.0), session, START_NS), known


def test_a_single_broker_has_the_time_that_it_was_given(line: Line) -> None:
    news, _ = news_of(DEAD)
    assert news.due_ns == START_NS + 2 * NS_PER_S
    assert news.tell(news.due_ns - 1, line, False) == ""
    assert news.tell(news.due_ns, line, False) == f"no broker answers at {DEAD} (tried for 2 s)"


def test_of_several_each_has_its_turn_and_nobody_waits_for_what_is_past(line: Line) -> None:
    news, homes = news_of(DEAD, "tcp://127.0.0.1:2")
    news.tell(START_NS + 2 * NS_PER_S, line, False)
    assert news.due_ns == NEVER_NS, "the end of the round is awaited now"
    news.note(line)
    homes.on_lost(cut=False)
    homes.next()
    homes.on_lost(cut=False)
    assert news.tell(START_NS + 3 * NS_PER_S, line, False)


def test_the_problem_is_told_once(line: Line) -> None:
    news, _ = news_of(DEAD)
    told = [news.tell(START_NS + seconds * NS_PER_S, line, False) for seconds in range(2, 6)]
    assert [bool(problem) for problem in told] == [True, False, False, False]
    assert news.waits_for == "waiting for it"


def test_who_stops_does_not_complain(line: Line) -> None:
    news, _ = news_of(DEAD)
    assert news.tell(START_NS + 60 * NS_PER_S, line, True) == ""


def get_ready(session: WorkerSession) -> None:
    config = headers.write("CONFIG", "RESPONSE", identity="w1", heartbeat_ms=500, version=1, digest="d")
    pong = headers.write("PONG", "RESPONSE", digest="d")
    assert session.on_messages(START_NS, [[b"", config, b"{}"], [b"", pong, b""]]) == []
    assert session.state is SessionState.READY


def test_a_broker_that_forgot_us_and_took_us_again_between_two_looks_is_told_of(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """All within one pass, after which it is as ready as it was before."""
    session = WorkerSession("w1", ["echo"], 1, None, lambda: 1.0)
    news, _ = news_of(DEAD, session=session)
    caplog.set_level("INFO")
    session.on_link(START_NS)
    get_ready(session)
    news.tell(START_NS, line, False)
    forgot = headers.write("ERROR", "RESPONSE", reason=reasons.reason(reasons.NOT_CONNECTED, "connect again"))
    session.on_messages(START_NS, [[b"", forgot, b""]])
    get_ready(session)
    news.tell(START_NS, line, False)
    news.tell(START_NS, line, False)
    assert [record.message for record in caplog.records] == [
        f"worker w1 is ready: echo at {DEAD} (1 slot)",
        f"worker w1 is ready again: echo at {DEAD} (1 slot)",
    ]
