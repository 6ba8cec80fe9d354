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
        (("compare", "--at", "2h", "--tables", "{0}/nowhere"), 2, "there are no tables at {0}/nowhere: make them with"),
        (("compare", "--at", "2h", "--tables", "{0}"), 2, "there is no table service_minutes there: make it with"),
        (("compare", "--tables", "{0}"), 2, "give --before and --after, or --at, or --before-workers and"),
        (("compare", "--before", "3h..2h"), 2, "give --before and --after, or --at, or --before-workers and"),
        (("compare", "--at", "2h", "--before", "3h..2h"), 2, "give --at, or --before and --after, not both"),
        (("compare", "--at", "soon"), 2, "--at: 'soon' is neither a time such as"),
        (("compare", "--at", "2h", "--length", "long"), 2, "--length: 'long' is no length of time such as 30m"),
        (("compare", "--at", "2h", "--length", "9999999d"), 2, "--length: '9999999d' is neither a time such as"),
        (("compare", "--at", "0001-01-01"), 2, "--at: 1h around 0001-01-01 is out of all calendars"),
        (("compare", "--before", "3h", "--after", "2h..1h"), 2, "--before: '3h' is not FROM..TO, such as"),
        (("compare", "--before", "3h..2h", "--after", "2h..x"), 2, "--after: 'x' is neither a time such as"),
        (("compare", "--before", "3h..1h", "--after", "2h..1h"), 2, "--before and --after overlap: a task would"),
        (("compare", "--before", "2h..3h", "--after", "2h..1h"), 2, "a range ends a minute after its begin, or"),
        (("compare", "--at", "2h", "--length", "1s"), 2, "a range ends a minute after its begin, or later"),
        (("compare", "--at", "2h", "--during", "2h..1h"), 2, "--during is for workers; give --before and"),
        (("compare", "--before-workers", "a*"), 2, "give both --before-workers and --after-workers"),
        (("compare", "--before-workers", "a", "--after-workers", "b", "--at", "2h"), 2, "of workers, --during gives"),
        (("whatif", "--tables", "{0}"), 2, "say what would be different: --load x2, --slots x0.5 or --slots"),
        (("whatif", "--load", "x2", "--tables", "{0}/nowhere"), 2, "there are no tables at {0}/nowhere: make them"),
        (("whatif", "--load", "x2", "--tables", "{0}"), 2, "the table capacity has no rows: make it with famulus"),
        (("whatif", "--slots", "12", "--tables", "{0}"), 2, "--slots: x12 is 12 times as many for all services, "),
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
