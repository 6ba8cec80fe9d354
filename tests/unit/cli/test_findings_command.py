"""`famulus findings`: from the table to the edit, against a broker played by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command, PlayedBroker
from tests.unit.tables.conftest import ECHO, finding, write

from famulus.tables.finding import FILE


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    write(tmp_path / "tables", finding(2, key=None, value=None, subject="w1", title="w1 is \x1bslow"), finding(1))
    return tmp_path / "tables"


def test_the_list_begins_with_the_most_urgent(famulus: Command, tables: Path) -> None:
    listed = famulus("findings", "--tables", str(tables))
    assert listed.code == 0
    assert listed.out.splitlines() == [
        "1  warning  echo  the backlog of echo is too short  edit",
        "2  warning  w1    w1 is \\x1bslow",
    ]
    assert famulus("findings", "list", "--tables", str(tables)).out == listed.out
    as_json = famulus("findings", "list", "--tables", str(tables), "--json").json
    assert [each["value"] for each in as_json] == [{"backlog_tasks_max": 5000}, None]


def test_one_with_everything_about_it(famulus: Command, tables: Path) -> None:
    shown = famulus("findings", "show", "1", "--tables", str(tables)).out
    assert "evidence  12 % were rejected" in shown
    assert "famulus config set service/echo backlog_tasks_max=5000" in shown
    assert famulus("findings", "show", "id2", "--tables", str(tables), "--json").json["subject"] == "w1"


def test_apply_changes_only_what_the_finding_names(broker: PlayedBroker, famulus: Command, tables: Path) -> None:
    broker.put(ECHO, {"timeout_ms": 1000, "backlog_tasks_max": 10})
    applied = famulus("findings", "apply", "1", "--tables", str(tables), stdin="y\n")
    assert applied.code == 0, applied.err
    assert broker.value(ECHO) == {"timeout_ms": 1000, "backlog_tasks_max": 5000}
    assert "backlog_tasks_max=10 timeout_ms=1000, and would be backlog_tasks_max=5000" in applied.err
    assert applied.out.startswith("accepted, seen by 1 of 1 brokers")


def test_apply_asks_and_silence_is_no_consent(broker: PlayedBroker, famulus: Command, tables: Path) -> None:
    refused = famulus("findings", "apply", "1", "--tables", str(tables))
    assert (refused.code, "nothing was sent" in refused.err) == (1, True)
    assert broker.commands() == ["show"]
    assert famulus("findings", "apply", "1", "--tables", str(tables), "--yes").code == 0
    assert broker.value(ECHO) == {"backlog_tasks_max": 5000}
    again = famulus("findings", "apply", "1", "--tables", str(tables), "--yes")
    assert (again.code, again.out) == (0, "service/echo is that already; nothing was sent\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("show", "7"), "there is no finding 7; there are 2: famulus findings"),
        (("apply", "7"), "there is no finding 7; there are 2: famulus findings"),
        (("apply", "2"), "finding 2 proposes no edit that could be made for you: Let more tasks wait."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    broker: PlayedBroker, famulus: Command, tables: Path, words: tuple[str, ...], complaint: str
) -> None:
    ended = famulus("findings", *words, "--tables", str(tables))
    assert (ended.code, ended.err) == (2, f"famulus: {complaint}\n")
    assert broker.commands() == []


def test_no_tables_no_findings(famulus: Command, tmp_path: Path) -> None:
    ended = famulus("findings", "--tables", str(tmp_path))
    assert (ended.code, ended.err) == (
        2,
        f"famulus: there are no findings at {tmp_path}: make them with famulus pipeline run\n",
    )


def test_what_is_no_file_of_findings_is_one_sentence(famulus: Command, tables: Path) -> None:
    (tables / FILE).write_bytes(b"rubbish" * 100)
    ended = famulus("findings", "--tables", str(tables))
    assert ended.code == 2
    assert ended.err.startswith(f"famulus: the findings at {tables} cannot be read: ")
    assert ended.err.count("\n") == 1
