"""The story of a task: rows come in, steps and a verdict go out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import famulus
from famulus.journal.fates import MEANINGS, OVERDUE, Signs, TaskFate
from famulus.journal.trace import TaskStory, tell, unsettled

T0 = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
tickets = count(1)


def at(ms: float) -> datetime:
    return T0 + timedelta(milliseconds=ms)


def row(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "broker": "ann",
        "boot": "b1",
        "family": "main",
        "ticket": next(tickets),
        "message_id": "order-1",
        "attempt": 1,
        "service": "pay",
        "worker": "w1",
        "client": "c1",
        "at_most_once": True,
        "priority": 5,
        "arrived": at(0),
        "assigned": at(0.1),
        "delegated_from": None,
        "delegated_to": None,
    }
    return values | changes


def ended(outcome: str, ms: float, reason: str | None = None, **changes: Any) -> dict[str, Any]:
    """A row of the table tasks."""
    more = {"outcome": outcome, "reason": reason, "ended": at(ms), "request_bytes": 10, "response_bytes": 20}
    return row(**{**more, **changes})


def seen(state: str, ms: float, **changes: Any) -> dict[str, Any]:
    """A row of the table open_tasks."""
    waits = {"ticket": 0, "worker": None, "assigned": None} if state in ("queued", "delayed") else {}
    return row(**{"state": state, "at": at(ms), **waits, **changes})


def events(story: TaskStory) -> list[tuple[str, str, str | None]]:
    return [(step.event, step.broker, step.worker or step.peer) for step in story.steps]


# -- one broker ---------------------------------------------------------------------------------------------------


def test_a_plain_task() -> None:
    story = tell([ended("OK", 5)], [])
    assert events(story) == [("arrived", "ann", None), ("assigned", "ann", "w1"), ("answered", "ann", "w1")]
    assert [round(story.after_ms(step), 3) for step in story.steps] == [0, 0.1, 5]
    assert story.steps[-1].sentence == "worker w1 answered OK after 4.9 ms, 20 bytes"
    assert (story.verdict.outcome, story.verdict.ran, story.verdict.try_again) == ("OK", "yes", "There is no need.")
    assert story.notes == []


def test_a_task_that_waited_and_was_given_to_another_worker() -> None:
    first = ended("RETRY", 1000, "worker_lost", assigned=at(400), at_most_once=False)
    second = ended("OK", 1900, worker="w2", attempt=2, assigned=at(1500), at_most_once=False)
    story = tell([first, second], [seen("queued", 300, attempt=0), seen("running", 900, ticket=first["ticket"])])
    assert events(story) == [
        ("arrived", "ann", None),
        ("queued", "ann", None),
        ("assigned", "ann", "w1"),
        ("retry", "ann", "w1"),
        ("queued", "ann", None),
        ("assigned", "ann", "w2"),
        ("answered", "ann", "w2"),
    ]
    waits = [step.sentence for step in story.steps if step.event == "queued"]
    assert waits == ["no slot is free: it waits in the backlog for 400 ms", "waits for 500 ms"]
    assert "worker w1 was lost: another attempt follows" in [step.sentence for step in story.steps]
    assert "An earlier attempt may have run as well" in story.verdict.meaning


def test_two_rows_that_differ_about_an_instant_are_still_in_order() -> None:
    """The wall's clock is read with each batch, and may have been corrected in between."""
    first = ended("RETRY", 1000, "worker_lost")
    second = ended("OK", 1900, worker="w2", attempt=2, assigned=at(999.9))
    assert [step.event for step in tell([first, second], []).steps] == [
        "arrived",
        "assigned",
        "retry",
        "assigned",
        "answered",
    ]


@pytest.mark.parametrize(
    ("rows", "ran", "try_again"),
    [
        ([ended("REJECTED", 5, "overload", worker=None, assigned=None, attempt=0)], "no", "Yes, it is safe."),
        ([ended("ERROR", 5, "ValueError")], "yes", "That is for you to decide: some of its work may be done."),
        ([ended("ERROR", 5, "expired")], "no", "Yes, it is safe."),
        ([ended("UNKNOWN", 5, "worker_lost")], "maybe", "Only if running it twice does no harm."),
        ([ended("UNKNOWN", 5, "bad_header")], "yes", "Only if running it twice does no harm."),
        (
            [ended("UNKNOWN", 5, "expired"), ended("LATE", 9)],
            "probably",
            "Only if running it twice does no harm.",
        ),
    ],
)
def test_whether_it_ran_and_may_be_tried_again(rows: list[dict[str, Any]], ran: str, try_again: str) -> None:
    verdict = tell(rows, []).verdict
    assert (verdict.ran, verdict.try_again) == (ran, try_again)


def test_it_is_told_that_it_was_cancelled() -> None:
    waited = ended("REJECTED", 5, "cancelled", worker=None, assigned=None, attempt=0)
    assert tell([waited], []).steps[-1].sentence == (
        "ended as REJECTED (cancelled): nobody wanted it any more, and it had not begun"
    )
    assert tell([ended("UNKNOWN", 5, "cancelled")], []).steps[-1].sentence == (
        "ended as UNKNOWN (cancelled): nobody wanted it any more, and worker w1 had it"
    )


def test_it_is_told_why_a_worker_went() -> None:
    lost = ended("UNKNOWN", 5, "worker_lost")
    story = tell([lost], [], losses={("ann", "b1", lost["ticket"]): "expired"})
    assert story.steps[-1].sentence == (
        "ended as UNKNOWN (worker_lost): worker w1 was lost before it answered, silent for three heartbeats"
    )


def test_a_late_answer_belongs_to_its_attempt() -> None:
    first = ended("UNKNOWN", 100, "expired")
    story = tell([first, ended("LATE", 300, ticket=first["ticket"])], [])
    assert events(story)[-1] == ("late", "ann", "w1")
    assert [step.event for step in story.steps].count("arrived") == 1
    # Also if its attempt has no row: it was sent, and taken for not sent.
    assert [step.event for step in tell([first, ended("LATE", 300)], []).steps].count("arrived") == 1


def test_the_same_id_asked_for_again_is_another_stay() -> None:
    first = ended("REJECTED", 5, "overload", worker=None, assigned=None, attempt=0)
    story = tell([first, ended("OK", 2005, arrived=at(2000), assigned=at(2000))], [])
    assert [step.event for step in story.steps] == ["arrived", "queued", "ended", "arrived", "assigned", "answered"]
    assert story.notes == ["its client, or somebody with the same id, asked for it 2 times"]
    assert story.verdict.outcome == "OK"


def test_an_attempt_without_a_row_never_began() -> None:
    handed = seen("delegated", 900, delegated_to="bob", worker=None)
    story = tell([ended("OK", 3000, assigned=at(2000))], [handed])
    (step,) = [step for step in story.steps if step.event == "delegated"]
    assert step.sentence == "handed over to broker bob, attempt 1; it has no end of its own, so it never began there"


# -- several brokers ----------------------------------------------------------------------------------------------


def test_a_task_that_was_handed_over() -> None:
    own = ended("OK", 9, worker=None, delegated_to="bob", assigned=at(1.5))
    there = ended("OK", 8, broker="bob", boot="b2", delegated_from="ann", arrived=at(2), assigned=at(2.1))
    story = tell([own, there], [])
    assert events(story) == [
        ("arrived", "ann", None),
        ("queued", "ann", None),
        ("delegated", "ann", "bob"),
        ("arrived", "bob", "ann"),
        ("assigned", "bob", "w1"),
        ("answered", "bob", "w1"),
        ("answered", "ann", "bob"),
    ]
    assert story.notes == []
    assert story.verdict.outcome == "OK"
    only_there = tell([there], [])
    assert only_there.verdict.outcome is None
    assert only_there.verdict.ran == "yes"
    assert only_there.notes == ["the journal of broker ann would tell more: give it with --journal"]
    only_here = tell([own], [])
    assert only_here.notes == ["the journal of broker bob would tell more: give it with --journal"]


def test_a_client_that_was_told_nothing_though_it_ran_elsewhere() -> None:
    own = ended("UNKNOWN", 100, "expired", worker=None, delegated_to="bob")
    there = ended("OK", 150, broker="bob", boot="b2", delegated_from="ann", arrived=at(1))
    verdict = tell([own, there], []).verdict
    assert (verdict.outcome, verdict.ran) == ("UNKNOWN", "yes")
    assert verdict.meaning == "It ran, though its client was not told so."


def test_clocks_that_differ_are_noticed() -> None:
    own = ended("OK", 9, worker=None, delegated_to="bob", assigned=at(1.5))
    there = ended("OK", -38, broker="bob", boot="b2", delegated_from="ann", arrived=at(-40), assigned=at(-40))
    assert tell([own, there], []).notes == ["the clock of bob is behind that of ann: steps may be out of order"]


# -- tasks that never ended ---------------------------------------------------------------------------------------


def event(kind: str, ms: float, boot: str = "b1", **more: Any) -> dict[str, Any]:
    return {"broker": "ann", "boot": boot, "event": kind, "at": at(ms), "process": None, "table": None, **more}


DEATH = event("process_died", 2000, process="dispatcher")
LOSS = {"broker": "bob", "peer": "ann", "event": "lost", "at": at(3000)}


@pytest.mark.parametrize(
    ("own", "others", "fate"),
    [
        ([], [], "open"),
        ([event("load", 2000)], [], "open"),
        ([DEATH, event("start", 2500, "b2")], [], "died"),
        ([event("process_died", 2000, process="router-1")], [], "open"),
        ([event("start", 2500, "b2")], [LOSS], "restarted"),
        ([event("start", 1000)], [], "open"),
        ([event("stop", 2000)], [], "stopped"),
        ([event("load", 2000)], [LOSS], "lost"),
        ([event("load", 4000)], [LOSS], "open"),
        ([event("load", 200_000), DEATH], [], "overdue"),
    ],
)
def test_the_fate_of_a_task_that_never_ended(
    own: list[dict[str, Any]], others: list[dict[str, Any]], fate: str
) -> None:
    opened = [seen("queued", 500, attempt=0), seen("running", 1000)]
    last = unsettled([], opened)
    assert last == opened[1]
    signs = Signs()
    for each in own:
        signs.of_itself(each)
    for each in others:
        signs.of_a_peer(each)
    evidence = signs.evidence(last)
    assert evidence.fate == fate
    story = tell([], opened, evidence)
    assert story.verdict.outcome is None
    assert story.verdict.fate == fate
    assert story.verdict.ran == "maybe"
    assert MEANINGS[fate] in story.steps[-1].sentence
    assert story.verdict.try_again.startswith("Not yet" if fate == "open" else "Only if running it twice")


def test_the_pipeline_knows_the_same_fates() -> None:
    """Read, not imported: it would bring Spark along."""
    tables = Path(famulus.__file__).parent / "pipeline" / "tables"
    source = (tables / "unsettled.py").read_text("utf-8")
    assert set(re.findall(r"^    \| (\w+) +\| ", source, re.MULTILINE)) == {"fate", *MEANINGS}
    assert f"OVERDUE_S: Final = {OVERDUE.total_seconds():.0f}\n" in source


def test_what_takes_long_is_not_overdue() -> None:
    signs = Signs(longest_ns=300 * 10**9)
    signs.of_itself(event("load", 400_000))
    assert signs.evidence(seen("running", 1000)).fate == "open"


def test_a_gap_may_have_swallowed_the_end() -> None:
    signs = Signs()
    signs.of_itself(event("gap", 1500, table="tasks", rows=3))
    signs.of_itself(event("stop", 2000))
    words = signs.evidence(seen("running", 1000)).sentence
    assert "the journal lacks 3 rows of that time, and its end may be among them" in words


def test_a_gap_of_another_life_or_time_has_not_swallowed_it() -> None:
    signs = Signs()
    signs.of_itself(event("gap", 1500, table="tasks", rows=3, boot="another"))
    signs.of_itself(event("gap", 500, table="tasks", rows=3))
    signs.of_itself(event("gap", 1500, table="peers", rows=3))
    signs.of_itself(event("stop", 2000))
    assert "lacks" not in signs.evidence(seen("running", 1000)).sentence


def test_a_task_that_ended_somewhere_needs_no_fate() -> None:
    assert unsettled([ended("OK", 5000, broker="bob", boot="b2")], [seen("running", 1000)]) is None
    story = tell([ended("OK", 5000, broker="bob", boot="b2")], [seen("running", 1000)])
    assert story.verdict.outcome == "OK"
    before = ended("OK", 400, broker="bob", boot="b2", arrived=at(-10))
    assert unsettled([before], [seen("running", 1000)]) is None


def test_a_task_whose_last_row_is_a_retry_is_unsettled() -> None:
    last = unsettled([ended("RETRY", 700, "worker_lost")], [])
    assert last is not None
    assert last["at"] == at(700)
    assert tell([ended("RETRY", 700, "worker_lost")], [], TaskFate("died", at(900))).verdict.fate == "died"


def test_the_story_for_programs() -> None:
    told = tell([ended("OK", 5)], []).as_dict()
    assert told["outcome"] == "OK"
    assert told["steps"][1] == {
        "at": "2026-11-15T08:30:00.000100+00:00",
        "after_ms": 0.1,
        "event": "assigned",
        "broker": "ann",
        "worker": "w1",
        "peer": None,
        "attempt": 1,
        "sentence": "given to worker w1, attempt 1",
    }


# -- with a delay ---------------------------------------------------------------------------------------------------


def test_a_delay_is_a_step_of_its_own_and_no_waiting_for_a_slot() -> None:
    story = tell([ended("OK", 5005, arrived=at(5000), assigned=at(5000.1))], [seen("delayed", 0, attempt=0)])
    assert [step.event for step in story.steps] == ["arrived", "delayed", "assigned", "answered"]
    assert story.steps[1].sentence == "waits for its time for 5,000 ms: it came with a delay"
    assert story.after_ms(story.steps[-1]) == 5005


def test_who_waited_for_a_slot_after_that_did_so_from_then_on() -> None:
    story = tell([ended("OK", 6000, arrived=at(5000), assigned=at(5900))], [seen("delayed", 0, attempt=0)])
    (queued,) = [step for step in story.steps if step.event == "queued"]
    assert (story.after_ms(queued), queued.sentence) == (5000, "waits for 900 ms")


def test_one_that_was_cancelled_before_its_time() -> None:
    gone = ended("REJECTED", 700, "cancelled", arrived=at(700), assigned=None, attempt=0, worker=None)
    story = tell([gone], [seen("delayed", 0, attempt=0)])
    assert [step.event for step in story.steps] == ["arrived", "delayed", "ended"]
    assert story.steps[1].sentence == "waits for its time for 700 ms: it came with a delay"
    assert story.verdict.ran == "no"


def test_one_whose_broker_died_meanwhile() -> None:
    rows = [seen("delayed", 0, attempt=0), seen("delayed", 39_000, attempt=0)]
    story = tell([], rows, TaskFate("died", at(50_000)))
    assert [step.event for step in story.steps] == ["arrived", "delayed", "unseen"]
    assert story.steps[1].sentence == "waits for its time: it came with a delay"
    assert (story.verdict.fate, story.verdict.ran) == ("died", "maybe")
