"""The demo's verdict: it must be able to say no."""

from __future__ import annotations

import pytest

from famulus.lab.demo.audience import AFTERMATH_S, Ended, Loss, Recovery, Results, broken
from famulus.lab.demo.cast import SERVICES, SLOTS

WORKER_S, BROKER_S = 100.0, 200.0
#: So long the broker was missed.
MENDED_S = 3.0


def results(name: str) -> Results:
    return Results(next(service for service in SERVICES if service.name == name))


def verdict(*by_service: Results, recoveries: tuple[Recovery, ...] = ()) -> list[str]:
    return broken(
        {each.service.name: each for each in by_service},
        recoveries,
        Loss(WORKER_S, WORKER_S + 0.1),
        Loss(BROKER_S, BROKER_S + MENDED_S),
    )


def ask(results: Results, at_s: float, outcome: str, expected: str = "OK", code: str = "") -> None:
    results.sent += 1
    results.note(Ended(at_s, outcome, code, 5.0), expected)


def test_what_was_lost_with_a_worker_or_a_broker_breaks_no_promise() -> None:
    shout = results("shout")
    ask(shout, 50.0, "OK")
    for _ in range(SLOTS):
        ask(shout, WORKER_S + 0.5, "UNKNOWN")
    ask(shout, BROKER_S + 0.5, "UNKNOWN")
    assert verdict(shout) == []


def test_a_broker_that_is_killed_soon_after_the_worker_has_losses_of_its_own() -> None:
    shout = results("shout")
    for _ in range(SLOTS):
        ask(shout, WORKER_S + 0.5, "UNKNOWN")
    broker_s = WORKER_S + AFTERMATH_S / 2
    ask(shout, broker_s + 0.5, "UNKNOWN")
    assert broken({"shout": shout}, (), Loss(WORKER_S, WORKER_S), Loss(broker_s, broker_s)) == []


def test_a_service_that_is_to_fail_and_does_keeps_its_promise() -> None:
    moody = results("moody")
    ask(moody, 50.0, "ERROR", expected="ERROR")
    assert verdict(moody) == []
    ask(moody, 51.0, "ERROR")
    assert verdict(moody) != []


@pytest.mark.parametrize(
    ("at_s", "outcome", "words"),
    [
        (50.0, "UNKNOWN", "while nothing was lost"),
        (BROKER_S + MENDED_S + AFTERMATH_S + 1, "REJECTED", "while nothing was lost"),
    ],
)
def test_trouble_while_nothing_was_lost_is_told(at_s: float, outcome: str, words: str) -> None:
    shout = results("shout")
    ask(shout, at_s, outcome)
    [promise] = verdict(shout)
    assert words in promise


def test_what_ends_badly_before_a_broker_is_made_up_for_is_its_loss() -> None:
    shout = results("shout")
    ask(shout, BROKER_S + MENDED_S + AFTERMATH_S - 0.5, "UNKNOWN")
    assert verdict(shout) == []


def test_a_busy_machine_may_refuse_some_tasks_but_not_many() -> None:
    digest = results("digest")
    for _ in range(18):
        ask(digest, 50.0, "OK")
    for code in ("expired", "overload"):
        ask(digest, 50.0, "REJECTED", code=code)
    assert verdict(digest) == []
    ask(digest, 50.0, "REJECTED", code="expired")
    assert verdict(digest) == ["digest: 3 of 21 tasks were refused (expired, overload)"]


def test_more_unknown_tasks_than_the_worker_had_slots_are_told() -> None:
    shout = results("shout")
    for _ in range(SLOTS + 1):
        ask(shout, WORKER_S + 0.5, "UNKNOWN")
    [promise] = verdict(shout)
    assert f"had {SLOTS} slots" in promise


def test_an_at_least_once_task_that_was_lost_is_told() -> None:
    digest = results("digest")
    ask(digest, WORKER_S + 0.5, "UNKNOWN")
    [promise] = verdict(digest)
    assert "not given to somebody else" in promise


def test_a_task_without_outcome_and_a_wrong_answer_are_told() -> None:
    shout = results("shout")
    shout.sent = 1
    shout.wrong_answers = 1
    assert verdict(shout) == ["shout: 1 tasks have no outcome", "shout: 1 answers were wrong"]


def test_a_recovery_that_took_too_long_is_told() -> None:
    slow, quick = Recovery("the next success", 9.0, 4.0), Recovery("another", 1.0, 4.0)
    assert verdict(recoveries=(slow, quick)) == ["the next success took 9.0 s"]
