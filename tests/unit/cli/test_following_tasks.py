"""`famulus tasks --follow`: each task once, when it has ended; and progress when there is some."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from famulus.cli.journal import following
from famulus.cli.journal.following import TaskFollower
from famulus.cli.main import new_app
from famulus.cli.status.http_port import HttpPort
from famulus.errors import NobodyAnswers

ENDED: dict[str, Any] = {
    "message_id": "a", "service": "echo", "outcome": "OK", "reason": "", "worker": "w1", "delegated_to": "",
    "delegated_from": "", "principal": "", "attempt": 1, "at_most_once": True, "priority": 5, "ended_ms": 1000.0,
    "total_ms": 12.5, "queue_ms": 0.1, "request_bytes": 1, "response_bytes": 2,
}  # fmt: skip
RUNNING: dict[str, Any] = {
    "message_id": "r", "service": "resize", "worker": "", "delegated_to": "b2", "principal": "", "done": 0.4,
    "note": "page 2", "told_ms": 2000.0, "arrived_ms": 500.0,
}  # fmt: skip


class Port:
    """What a broker would answer, one answer after the other; None: it is away."""

    base = "http://here"

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def fetch(self, path: str) -> bytes:
        self.asked.append(path)
        if not self.answers:
            raise KeyboardInterrupt
        answer = self.answers.pop(0)
        if answer is None:
            raise NobodyAnswers("nobody answers")
        return json.dumps({"tasks": [], "running": []} | answer).encode()


def followed(port: Port, capsys: pytest.CaptureFixture[str], *, as_json: bool = False, **wanted: Any) -> list[str]:
    outcomes, slower_ms = wanted.pop("outcomes", ("OK", "ERROR")), wanted.pop("slower_ms", None)
    follower = TaskFollower(cast("HttpPort", port), wanted, outcomes, slower_ms)
    with pytest.raises(KeyboardInterrupt):
        following.follow(follower, as_json=as_json, sleep=lambda _: None)
    return capsys.readouterr().out.splitlines()


def test_what_ended_before_is_not_shown_and_what_ends_is_once(capsys: pytest.CaptureFixture[str]) -> None:
    later = {**ENDED, "message_id": "b", "outcome": "ERROR", "reason": "ValueError"}
    port = Port({"tasks": [ENDED]}, {"tasks": [later, ENDED]}, {"tasks": [later, ENDED]})
    (line,) = followed(port, capsys, service="echo")
    assert line == "1970-01-01 00:00:01.000  b  echo  w1  ERROR    ValueError  12.5 ms"
    assert port.asked[0] == "/api/v1/tasks?service=echo&limit=500"


def test_progress_is_shown_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [{"running": [RUNNING]}] * 2 + [{"running": [{**RUNNING, "done": 1, "note": ""}]}]
    first, second = followed(Port(*answers), capsys)
    assert first == "1970-01-01 00:00:02.000  r  resize  broker b2      40%  page 2"
    assert second.endswith("100%  -")


def test_only_what_is_wanted_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    slow = {**ENDED, "message_id": "slow", "total_ms": 900}
    failed = {**slow, "message_id": "failed", "outcome": "ERROR"}
    answers = [{}, {"tasks": [failed, slow, ENDED]}]
    (line,) = followed(Port(*answers), capsys, outcomes=("OK",), slower_ms=500)
    assert "slow" in line


def test_for_programs_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = followed(Port({}, {"tasks": [ENDED], "running": [RUNNING]}), capsys, as_json=True)
    ended, running = map(json.loads, lines)
    assert (ended["message_id"], ended["outcome"]) == ("a", "OK")
    assert (running["message_id"], running["outcome"], running["done"]) == ("r", None, 0.4)


def test_a_broker_that_is_away_for_a_while_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = followed(Port({}, None, None, {"tasks": [ENDED]}), capsys)
    assert "  a  " in line


def test_nobody_there_at_first_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NobodyAnswers):
        following.follow(TaskFollower(cast("HttpPort", Port(None)), {}, ("OK",), None), as_json=False)


@pytest.mark.parametrize("more", [["--since", "2h"], ["--client", "x"], ["--journal", "."], ["--outcome", "LATE"]])
def test_what_only_a_journal_knows_is_refused(more: list[str]) -> None:
    result = CliRunner().invoke(new_app(), ["tasks", "--follow", *more])
    assert result.exit_code == 2
    assert "--follow" in result.output
