"""Waiting ends when all brokers that are alive have an edit, or when the time is over."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from famulus.admin import spreading
from famulus.admin.administration import Administration


class Answers:
    """A broker that says something else each time."""

    def __init__(self, *missing: list[str], alive: tuple[str, ...] = (), strangers: tuple[str, ...] = ()) -> None:
        self.strangers = strangers
        self.missing = list(missing)
        self.alive = alive
        self.asked: list[str] = []

    def __call__(self, command: str, arguments: dict[str, Any]) -> bytes:
        self.asked.append(command)
        if command == "show":
            brokers = {
                name: {"alive": name in self.alive, "peer": name not in self.strangers} for name in ("b1", "b2", "b3")
            }
            facts = {"network": "n", "broker": "b1", "version": 1, "digest": "d", "keys": {}}
            return msgspec.json.encode({**facts, "brokers": brokers})
        assert arguments == {"edits": ["e"]}
        missing = self.missing.pop(0) if len(self.missing) > 1 else self.missing[0]
        return msgspec.json.encode({"seen": 3 - len(missing), "brokers": 3, "missing": missing})


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock goes on by what is slept, and by nothing else."""
    slept: list[float] = []
    monkeypatch.setattr("famulus.admin.spreading.time.sleep", slept.append)
    monkeypatch.setattr("famulus.admin.spreading.time.monotonic", lambda: 100.0 + sum(slept))
    return slept


def test_what_all_have_needs_one_question() -> None:
    answers = Answers([])
    spread = spreading.wait(Administration(answers), ["e"], 10)
    assert (spread.seen, spread.brokers, spread.behind, spread.away) == (3, 3, (), ())
    assert answers.asked == ["seen"]


def test_it_asks_until_the_last_one_has_it(pauses: list[float]) -> None:
    told: list[spreading.Spread] = []
    answers = Answers(["b2", "b3"], ["b3"], [], alive=("b1", "b2", "b3"))
    spread = spreading.wait(Administration(answers), ["e"], 10, told.append)
    assert spread.seen == 3
    assert [each.seen for each in told] == [1, 2, 3]
    assert pauses == [0.1, 0.2]


def test_one_that_is_not_alive_is_not_waited_for(pauses: list[float]) -> None:
    spread = spreading.wait(Administration(Answers(["b2", "b9"], alive=("b1", "b3"))), ["e"], 10)
    assert (spread.behind, spread.away) == ((), ("b2", "b9"))
    assert pauses == []


def test_the_time_is_over(pauses: list[float]) -> None:
    spread = spreading.wait(Administration(Answers(["b2"], alive=("b2",))), ["e"], 5)
    assert spread.behind == ("b2",)
    assert sum(pauses) == pytest.approx(5)
    assert max(pauses) == spreading.PAUSE_MAX_S


def test_of_one_that_is_no_peer_nobody_says_that_it_is_not_alive() -> None:
    answers = Answers(["b2", "b3"], alive=("b1",), strangers=("b3",))
    spread = spreading.look(Administration(answers), ["e"])
    assert (spread.behind, spread.away, spread.unknown) == ((), ("b2",), ("b3",))
