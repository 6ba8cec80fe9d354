"""`famulus conform`: our client and worker keep the rules, plain ones too; wrong ones fail the rule that they break."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from famulus.cli.main import new_app
from famulus.errors import LabFailed, SettingsError
from famulus.lab.conform.rule import Result, TriedRule
from famulus.lab.conform.run import conform

HERE = Path(__file__).parent
OURS = {role: [sys.executable, "-m", f"famulus.lab.conform.adapters.{role}"] for role in ("client", "worker")}
PLAIN = {role: [sys.executable, str(HERE / f"wrong_{role}.py")] for role in ("client", "worker")}
#: Several times as long as on an idle machine: a rule that is kept does not take it.
PATIENCE_S = 40.0
#: A wrong one is waited for in vain. Longer than it takes to start it on a busy machine.
SHORT_S = 4.0

#: How each is wrong, and the rule that says so.
WRONG_CLIENTS = {
    "doubts": "broker-stops",
    "error-is-unknown": "error-messages",
    "float": "headers",
    "hot": "backs-off",
    "impatient": "no-answer",
    "no-patience": "just-in-time",
    "one-envelope": "any-order",
    "one-shape": "foreign-frames",
    "queues": "never-left",
    "sends-again": "connection-lost",
    "tells-twice": "one-outcome",
    "trusts": "unreadable-answer",
    "two-frames": "frames",
}
WRONG_WORKERS = {
    "busy": "heartbeats-at-work",
    "deaf": "silence",
    "fragile": "foreign-headers",
    "hammers": "refused",
    "hot": "backs-off",
    "keeps-slots": "unknown-service",
    "keeps-tickets": "tickets-are-void",
    "pings-first": "greeting",
    "rejects": "cancel-at-work",
    "text": "headers",
    "twice": "ticket-once",
    "walks-out": "drain",
}


def failed(verdicts: list[TriedRule]) -> dict[str, str]:
    return {verdict.name: verdict.seen for verdict in verdicts if verdict.result is Result.FAIL}


@pytest.mark.parametrize("role", OURS)
def test_ours_keep_every_rule(role: str) -> None:
    verdicts = list(conform(role, OURS[role], patience_s=PATIENCE_S))
    assert failed(verdicts) == {}
    assert {verdict.result for verdict in verdicts} == {Result.PASS}


@pytest.mark.parametrize("role", PLAIN)
def test_plain_ones_keep_what_they_offer(role: str) -> None:
    verdicts = list(conform(role, PLAIN[role], patience_s=PATIENCE_S))
    assert failed(verdicts) == {}
    results = [verdict.result for verdict in verdicts]
    assert results.count(Result.PASS) >= 25
    assert results.count(Result.NOT_OFFERED) >= 5


@pytest.mark.parametrize(("role", "wrong"), [("client", WRONG_CLIENTS), ("worker", WRONG_WORKERS)])
def test_a_wrong_one_fails_the_rule_that_it_breaks(role: str, wrong: dict[str, str]) -> None:
    def fails(fault: str) -> list[str]:
        command = [*PLAIN[role], fault]
        return list(failed(list(conform(role, command, [wrong[fault]], patience_s=SHORT_S))))

    # All at once, since they are mostly waited for.
    with ThreadPoolExecutor(len(wrong)) as pool:
        found = dict(zip(wrong, pool.map(fails, wrong), strict=True))
    assert found == {fault: [rule] for fault, rule in wrong.items()}


def test_the_command_says_which_rule_failed_where_it_stands_and_what_was_seen() -> None:
    rules = ["--rule", "unreadable-answer", "--rule", "outcomes", "--rule", "delays"]
    told = CliRunner().invoke(new_app(), ["conform", "client", *rules, "--", *PLAIN["client"], "trusts"])
    assert told.exit_code == 1
    lines = told.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "pass         outcomes",
        "not offered  delays",
        "FAIL         unreadable-answer",
        "             docs/protocol.md#a-clients-life",
        "             seen",
        "3 rules",
    ]
    assert "the outcome is OK" in lines[4]
    assert lines[5] == "3 rules: 1 passed, 1 failed, 1 not offered"


def test_the_command_tells_programs_the_same() -> None:
    rules = ["--rule", "answers", "--rule", "worker-token"]
    told = CliRunner().invoke(new_app(), ["conform", "worker", "--json", *rules, "--", *PLAIN["worker"]])
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert (report["role"], report["passed"], report["failed"], report["not_offered"]) == ("worker", 1, 0, 1)
    assert [(rule["name"], rule["result"]) for rule in report["rules"]] == [
        ("answers", "pass"),
        ("worker-token", "not offered"),
    ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/no/such/program"], "cannot be started"),
        ([sys.executable, "-c", "raise SystemExit('no address')"], "exit code 1: no address"),
        ([sys.executable, "-c", "print('hello')"], "no JSON object"),
        ([sys.executable, "-c", "print('{}')"], "first line"),
        ([sys.executable, "-c", 'print(\'{"offers":["wings"]}\')'], "wings"),
    ],
)
def test_what_is_no_such_program_is_not_judged(command: list[str], said: str) -> None:
    with pytest.raises(LabFailed, match=said):
        list(conform("client", command, ["outcomes"]))


def test_a_rule_that_there_is_not_is_named() -> None:
    with pytest.raises(SettingsError, match="there is no rule manners"):
        list(conform("client", PLAIN["client"], ["manners"]))
