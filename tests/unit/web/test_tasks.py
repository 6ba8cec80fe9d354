"""What the port says about single tasks: from memory at once, from a journal in a process of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.journal.conftest import HEAD, NOW_US, Desk, desk, desks, tail, task
from tests.unit.web.conftest import Port
from tests.unit.web.status.conftest import dispatcher, failed, supervisor, task_end

from famulus.errors import NoAnswer
from famulus.journal import apart
from famulus.journal.questions import JournalAnswer, Question, StoryQuestion
from famulus.web import past
from famulus.wire import status

__all__ = ["desk", "desks"]

HOSTILE = '"><img src=x onerror=alert(1)>/..\u2028</script>'
UNDER_WAY = status.TaskProgress("r", "resize", "w1", "", "shop", 0.4, "page 2", 1, True, 5, 30, 250, 600, 900)
FIRST = f"{HEAD[1:].decode()}000000000001"


def tell(port: Port, *tasks: status.TaskEnd) -> None:
    port.tell(supervisor(), status.TaskEnds(tasks))


def ids(port: Port, question: str = "") -> list[str]:
    answer = port.get(f"/api/v1/tasks{question}")
    assert answer.status_code == 200, answer.text
    return [each["message_id"] for each in answer.json()["tasks"]]


@pytest.fixture
def port_with_journal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Port:
    """Its journal has a task that was lost by its first worker, and one that failed. It waits as long as that takes."""
    again: dict[str, Any] = {"at_least_once": True, "service": b"again", "message_id": HEAD + b'000000000001"'}
    monkeypatch.setattr(apart, "SECONDS_MAX", 200.0)
    lost = tail("RETRY", "worker_lost: another attempt follows")
    desk.tell(
        task(1, tail=lost, **again),
        task(2, attempt=2, worker=b"worker-2", **again),
        task(3, tail=tail("ERROR", "bad_order: for Mr Smith")),
    )
    desk.close()
    return Port("127.0.0.1", journal=desk.path)


# -- the last ones --------------------------------------------------------------------------------------------------


def test_the_last_tasks_are_told_as_the_address_asks_for_them(port: Port) -> None:
    tell(
        port,
        task_end("a", ended_ago_us=9),
        failed("b", principal="shop", ended_ago_us=5),
        failed("c", "expired", "UNKNOWN"),
    )
    assert ids(port) == ["c", "b", "a"]
    assert ids(port, "?limit=1") == ["c"]
    assert ids(port, "?outcome=failed") == ["c", "b"]
    assert ids(port, "?outcome=OK") == ["a"]
    assert ids(port, "?reason=expired") == ["c"]
    assert ids(port, "?principal=shop&service=echo&worker=&outcome=") == ["b"]
    assert ids(port, "?service=nobody") == []
    assert port.get("/api/v1/tasks?service=nobody").json()["choices"] == {
        "service": ["echo"],
        "reason": ["bad_order", "expired"],
        "worker": ["w1"],
        "principal": ["shop"],
    }


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        ("?outcome=bad", "outcome: failed, or one of ERROR, OK, REJECTED, UNKNOWN"),
        ("?limit=0", "limit: a number from 1 to 500"),
        ("?limit=99999999999999999999", "limit: a number from 1 to 500"),
        ("?limit=²", "limit: a number from 1 to 500"),
        ("?from=elsewhere", "from: memory or journal"),
        ("?until_ms=soon", "until_ms: milliseconds on the wall clock"),
        ("?until_ms=nan", "until_ms: milliseconds on the wall clock"),
        ("?until_ms=1e300", "until_ms: milliseconds on the wall clock"),
        ("?from=journal", "this broker keeps no journal"),
    ],
)
def test_a_question_that_makes_no_sense_gets_a_sentence(port: Port, question: str, complaint: str) -> None:
    answer = port.get(f"/api/v1/tasks{question}")
    assert (answer.status_code, answer.json()) == (400, {"error": complaint})


def test_how_far_running_tasks_have_got_is_told_beside_them(port: Port) -> None:
    port.tell(supervisor(), dispatcher(running=(UNDER_WAY,)))
    (told,) = port.get("/api/v1/tasks?service=resize&outcome=failed").json()["running"]
    assert (told["message_id"], told["done"], told["note"], told["principal"]) == ("r", 0.4, "page 2", "shop")
    assert told["told_ms"] - told["arrived_ms"] == 650
    assert port.get("/api/v1/tasks?service=echo").json()["running"] == []


def test_older_ones_come_from_the_journal(port_with_journal: Port) -> None:
    assert ids(port_with_journal, "?from=journal&limit=10")[0].endswith("3")
    assert ids(port_with_journal, "?from=journal&service=again") == [FIRST]
    assert ids(port_with_journal, f"?from=journal&until_ms={NOW_US / 1000 - 60_000}") == []
    (told,) = port_with_journal.get("/api/v1/tasks?from=journal&reason=bad_order").json()["tasks"]
    assert (told["outcome"], told["worker"], told["principal"]) == ("ERROR", "worker-1", None)
    assert (told["ended_ms"], told["total_ms"], told["queue_ms"]) == (NOW_US / 1000, 6.0, 1.0)
    refused = port_with_journal.get("/api/v1/tasks?from=journal&principal=shop")
    assert (refused.status_code, "does not say whose" in refused.text) == (400, True)


# -- one of them ----------------------------------------------------------------------------------------------------


def one(port: Port, message_id: str, question: str = "") -> dict[str, Any]:
    answer = port.get(f"/api/v1/tasks/{quote(message_id, safe='')}{question}")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_the_life_of_a_task_is_told_before_the_journal_has_it(port: Port) -> None:
    tell(
        port,
        failed("a", "expired", "UNKNOWN", principal="shop"),
        failed("b", "overload", "REJECTED", worker="", attempt=0),
    )
    told = one(port, "a")
    assert (told["source"], told["journal"], told["principal"]) == ("memory", False, "shop")
    story = told["story"]
    assert [step["event"] for step in story["steps"]] == ["arrived", "queued", "assigned", "ended"]
    assert [step["after_ms"] for step in story["steps"]] == [0.0, 0.0, 2.0, 5.0]
    assert (story["ran"], story["try_again"]) == ("maybe", "Only if running it twice does no harm.")
    assert one(port, "b")["story"]["try_again"] == "Yes, it is safe."
    assert port.get("/api/v1/tasks/c").json() == {
        "error": "it is not among the last tasks, and this broker keeps no journal"
    }


def test_a_running_task_has_a_life_already(port: Port, port_with_journal: Port) -> None:
    for each, is_kept in ((port, False), (port_with_journal, True)):
        each.tell(supervisor(), dispatcher(running=(UNDER_WAY,)))
        told = one(each, "r")
        assert (told["source"], told["journal"], told["principal"]) == ("memory", is_kept, "shop")
        assert (told["running"]["done"], told["story"]["outcome"]) == (0.4, None)
        steps = told["story"]["steps"]
        assert [(step["event"], step["after_ms"]) for step in steps] == [
            ("arrived", 0.0),
            ("queued", 0.0),
            ("assigned", 300.0),
        ]
        assert (told["story"]["ran"], told["story"]["try_again"]) == ("yes", "Not yet: it is running.")


def test_what_the_journal_knows_about_a_task_is_more(port_with_journal: Port) -> None:
    told = one(port_with_journal, FIRST)
    assert (told["source"], told["story"]["outcome"]) == ("journal", "OK")
    assert [step["worker"] for step in told["story"]["steps"] if step["event"] == "assigned"] == [
        "worker-1",
        "worker-2",
    ]
    assert "An earlier attempt may have run" in told["story"]["meaning"]
    assert one(port_with_journal, FIRST, f"?ended_ms={NOW_US / 1000}") == told
    assert port_with_journal.get(f"/api/v1/tasks/{FIRST}?ended_ms=1000").status_code == 404
    assert "several ids" in port_with_journal.get(f"/api/v1/tasks/{FIRST[:8]}").json()["error"]
    # What has just ended is in no file yet.
    tell(port_with_journal, task_end("fresh"))
    assert one(port_with_journal, "fresh")["source"] == "memory"
    tell(port_with_journal, task_end(FIRST, attempt=2, ended_ago_us=int(time.time() * 1e6) - NOW_US))
    assert one(port_with_journal, FIRST)["source"] == "journal"
    quick = one(port_with_journal, FIRST, "?from=memory")
    assert (quick["source"], quick["story"]["notes"]) == ("memory", ["only its last attempt is told here"])


@pytest.mark.parametrize("name", [HOSTILE, "a/b", "..", "%2e", "?a=b#c"])
def test_whatever_a_task_is_called_it_can_be_asked_for(port: Port, name: str) -> None:
    tell(port, failed(name, service=HOSTILE, reason=HOSTILE, worker=HOSTILE, principal=HOSTILE))
    told = port.get("/api/v1/tasks/" + quote(name, safe="").replace(".", "%2E"))
    assert told.headers["content-type"] == "application/json"
    assert told.json()["story"]["message_id"] == name


def test_a_journal_that_cannot_be_searched_is_said_so(port_with_journal: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(folder: Path, question: Question) -> JournalAnswer:
        raise NoAnswer("the journal is too large to be searched from here")

    monkeypatch.setattr(apart, "ask", ask)
    for address in ("/api/v1/tasks?from=journal", f"/api/v1/tasks/{FIRST}"):
        answer = port_with_journal.get(address)
        assert (answer.status_code, answer.json()["error"]) == (
            503,
            "the journal is too large to be searched from here",
        )
    tell(port_with_journal, task_end("fresh"))
    assert one(port_with_journal, "fresh")["source"] == "memory"
    # The places of those who failed are free again.
    for _ in range(3 * past.AT_ONCE):
        assert "too large" in port_with_journal.get("/api/v1/tasks?from=journal").text


def test_a_process_that_says_nothing_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(NoAnswer, match="too large"):
        apart.ask(tmp_path, StoryQuestion("a"))


# -- kinds of failures ----------------------------------------------------------------------------------------------


def test_each_kind_of_failure_has_an_example_and_says_whether_it_may_be_tried_again(port: Port) -> None:
    tell(port, failed("a"), failed("b", "overload", "REJECTED", worker="", attempt=0), task_end("c"), failed("d"))
    told = port.get("/api/v1/failures").json()["failures"]
    assert [(each["reason"], each["times"], each["example"]["message_id"]) for each in told] == [
        ("bad_order", 2, "d"),
        ("overload", 1, "b"),
    ]
    assert [each["try_again"] for each in told] == [
        "That is for you to decide: some of its work may be done.",
        "Yes, it is safe.",
    ]
