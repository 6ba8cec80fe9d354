"""`famulus findings`: from the table to the edit, against a broker played by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.cli.conftest import Command, PlayedBroker

from famulus.pipeline import schemas
from famulus.pipeline.arrow_types import arrow_schema

ECHO = "service/echo"


def finding(rank: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"id{rank}",
        "rank": rank,
        "severity": "warning",
        "kind": "backlog_full",
        "subject": "echo",
        "title": "the backlog of echo is too short",
        "evidence": "12 % were rejected",
        "advice": "Let more tasks wait.",
        "key": ECHO,
        "value": '{"backlog_tasks_max":5000}',
        "last_seen": datetime(2026, 11, 15, 8, tzinfo=UTC),
    } | more


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables" / "findings"
    folder.mkdir(parents=True)
    rows = [finding(2, key=None, value=None, subject="w1", title="w1 is \x1bslow"), finding(1)]
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(schemas.FINDINGS)), folder / "part-00.parquet")
    return folder.parent


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
