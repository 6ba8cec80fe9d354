"""`famulus pipeline`: what is wrong is said before Spark is started, in one sentence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.cli.conftest import Command

from famulus.cli.pipeline.options import journal_place, sentence, tables_place
from famulus.cli.pipeline.query import _print_csv, _print_json, _print_table


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("run", "--journal", "{0}/nowhere"), 2, "there is no journal at {0}/nowhere: give --journal, or start"),
        (("run", "--journal", "{0}"), 9, "the journal at {0} is empty: no broker has written to it yet"),
        (("follow", "--journal", "{0}"), 9, "the journal at {0} is empty"),
        (("query", "SELECT 1", "--tables", "{0}/nowhere"), 2, "there are no tables at {0}/nowhere: make them with"),
        (("query", "DROP TABLE findings", "--tables", "{0}"), 2, "a query begins with SELECT, WITH"),
        (("query", "SELECT 1", "--json", "--csv"), 2, "give --json or --csv, not both"),
        (("report", "--tables", "{0}/nowhere"), 2, "there are no tables at {0}/nowhere: make them with"),
        (("synth", "{0}/new", "--start", "soon"), 2, "start: 'soon' is no instant such as 2026-03-02T00"),
        (("run", "--journal", "nosuch://store"), 2, "nosuch://store cannot be reached: "),
    ],
)
def test_mistakes(famulus: Command, tmp_path: Path, words: tuple[str, ...], code: int, complaint: str) -> None:
    ended = famulus("pipeline", *(word.format(tmp_path) for word in words))
    assert ended.code == code
    assert ended.err.startswith(f"famulus: {complaint.format(tmp_path)}")
    assert ended.err.count("\n") == 1


def test_tables_are_beside_the_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert str(journal_place(None)) == f"{tmp_path}/famulus/journal"
    assert str(tables_place(None, None)) == f"{tmp_path}/famulus/tables"
    assert str(tables_place("journal", None)) == "tables"
    assert str(tables_place("/a/journal/", None)) == "/a/tables"
    assert str(tables_place("/a/journal", "/b")) == "/b"


def test_an_error_of_spark_in_one_sentence() -> None:
    assert sentence(Exception("An error occurred while calling o1.x.\n: java.lang.Error: no room\n\tat a.b(C)")) == (
        "java.lang.Error: no room"
    )
    assert sentence(Exception("[X] no such thing. SQLSTATE: 42; line 1\n'Project")) == "[X] no such thing."


ANSWER = pa.table({"name": ["a\x1b", None], "n": [1, 2], "list": [[{"bucket": 1}], []]})


def test_answers_as_a_table_as_csv_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _print_csv(ANSWER)
    assert capsys.readouterr().out.splitlines() == ["name,n,list", 'a\\x1b,1,"[{""bucket"":1}]"', ",2,[]"]
    _print_json(ANSWER.slice(1))
    assert capsys.readouterr().out == '[\n  {\n    "name": null,\n    "n": 2,\n    "list": []\n  }\n]\n'
    _print_table(ANSWER)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "name" in shown
