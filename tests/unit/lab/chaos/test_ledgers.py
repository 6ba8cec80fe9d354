"""The checker finds what is planted, and nothing else."""

from __future__ import annotations

from pathlib import Path

from famulus.lab.chaos.ledgers import Ended, Sent, first_success, judge, names_of_calls, read_client

SENT = [Sent("a", False, 1.0), Sent("b", True, 2.0)]
ENDED = [Ended("a", "OK", "-", 1.5), Ended("b", "OK", "-", 2.5)]


def ended(task: str, outcome: str) -> list[Ended]:
    return [each if each.message_id != task else each._replace(outcome=outcome) for each in ENDED]


def test_all_went_well() -> None:
    verdict = judge(SENT, ENDED, ["a", "b"])
    assert not verdict.broken
    assert (verdict.ok, verdict.unknown, verdict.repeated) == (2, [], [])
    assert str(verdict) == "2 OK, 0 lost, 0 duplicated, 0 unexpected, 0 unknown, 0 repeated"


def test_without_an_outcome_or_ok_and_never_run_is_lost() -> None:
    assert judge(SENT, ENDED[:1], ["a"]).broken == {"lost": ["b"]}
    assert judge(SENT, ENDED, ["b"]).broken == {"lost": ["a"]}


def test_at_most_once_and_run_twice_is_duplicated_whatever_the_client_was_told() -> None:
    assert judge(SENT, ENDED, ["a", "b", "a"]).broken == {"duplicated": ["a"]}
    assert judge(SENT, ended("a", "UNKNOWN"), ["a", "b", "a"]).broken == {"duplicated": ["a"]}


def test_at_least_once_may_run_twice() -> None:
    verdict = judge(SENT, ENDED, ["a", "b", "b"])
    assert not verdict.broken
    assert verdict.repeated == ["b"]


def test_rejected_and_run_or_never_sent_is_unexpected() -> None:
    assert judge(SENT, ended("a", "REJECTED"), ["a", "b"]).broken == {"unexpected": ["a"]}
    assert judge(SENT, ENDED, ["a", "b", "x"]).broken == {"unexpected": ["x"]}
    assert judge(SENT, [*ENDED, Ended("y", "OK", "-", 3.0)], ["a", "b", "y"]).broken == {"unexpected": ["y"]}
    assert judge(SENT, [*ENDED, ENDED[0]], ["a", "b"]).broken == {"unexpected": ["a"]}


def test_unknown_may_have_run_or_not_and_is_counted() -> None:
    for ran in (["b"], ["a", "b"]):
        verdict = judge(SENT, ended("a", "UNKNOWN"), ran)
        assert not verdict.broken
        assert verdict.unknown == ["a"]


def test_ledgers_on_disk_with_a_line_that_a_death_cut_short(tmp_path: Path) -> None:
    client, worker = tmp_path / "client", tmp_path / "worker"
    client.write_text("sent a once 1.0\nended a OK - 1.5\nsent b again 2.0\nended b UNKNOWN broker_lost 3.0\nsent c o")
    worker.write_text("a 1 once\nb 1 once\nb 2 on")
    verdict = judge(*read_client(client), names_of_calls([worker, tmp_path / "none"]))
    assert not verdict.broken
    assert (verdict.ok, verdict.unknown) == (1, ["b"])


def test_the_first_success_is_that_of_a_task_that_was_sent_after_the_instant(tmp_path: Path) -> None:
    path = tmp_path / "client"
    path.write_text("sent a once 1.0\nsent b once 2.0\nended a OK - 2.5\nended b OK - 2.6\n")
    assert first_success(*read_client(path), 1.5) == 2.6
    assert first_success(*read_client(path), 2.0) is None
