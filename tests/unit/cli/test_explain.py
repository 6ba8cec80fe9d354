"""`famulus explain`: every word that a user may meet is there, and the page says the same."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import famulus
from famulus.cli.explain.words import KINDS, close_to, find
from famulus.cli.explain.words.page import page
from famulus.cli.main import new_app
from famulus.errors import FamulusError
from famulus.exit_codes import ExitCode
from famulus.journal import schema
from famulus.journal.fates import MEANINGS
from famulus.wire import reasons

app = new_app()

ROOT = Path(__file__).parents[3]
SOURCE = Path(famulus.__file__).parent
CODES = sorted(value for name, value in vars(reasons).items() if name.isupper())


def words_of(kind: str) -> set[str]:
    (found,) = [each for each in KINDS if each.name == kind]
    return {entry.word for entry in found.entries}


def named_in(table: str, column: str) -> set[str]:
    """The words that the schema lists in the meaning of a column."""
    (found,) = [each for each in schema.TABLES[table] if each.name == column]
    plain = re.sub(r"\([^)]*\)", "", found.meaning).replace(" or ", ", ")
    return {word.strip() for word in plain.split(",")}


def test_every_reason_of_the_wire_is_there_and_no_other() -> None:
    assert words_of("reason") == set(CODES)


def test_every_outcome_of_the_journal_is_there() -> None:
    assert words_of("outcome") == {"OK", "ERROR", "REJECTED", "UNKNOWN", "RETRY", "LATE"}


def test_every_exit_code_is_there_with_one_meaning() -> None:
    (kind,) = [each for each in KINDS if each.name == "exit code"]
    assert [entry.word for entry in kind.entries] == [str(int(code)) for code in ExitCode]


@pytest.mark.parametrize("table", ["workers", "brokers", "peers", "config"])
def test_every_event_of_the_journal_is_there(table: str) -> None:
    assert named_in(table, "event") <= words_of("event of the journal")


def test_every_state_of_an_open_task_is_there() -> None:
    assert named_in("open_tasks", "state") <= words_of("event of the journal")


def test_every_fate_is_there() -> None:
    assert words_of("fate") == set(MEANINGS)


def test_every_kind_of_the_pipeline_is_there() -> None:
    tables = SOURCE / "pipeline" / "tables"
    audit = set(re.findall(r"^\| `(\w+)` ", (tables / "audit.py").read_text("utf-8"), re.MULTILINE))
    assert words_of("kind of the audit") == audit
    findings = set(tomllib.loads((tables / "findings.toml").read_text("utf-8")))
    assert len(findings) > 10
    assert words_of("kind of a finding") == findings


def test_the_page_is_what_the_command_prints() -> None:
    """If this fails: ./famulus explain --markdown > docs/errors.md"""
    assert (ROOT / "docs" / "errors.md").read_text("utf-8") == page(KINDS)
    assert CliRunner().invoke(app, ["explain", "--markdown"]).stdout == page(KINDS)


def test_what_has_several_meanings_says_when_which_holds() -> None:
    for kind in KINDS:
        told = [(entry.word, entry.when) for entry in kind.entries]
        assert len(set(told)) == len(told), kind.name
        for word, when in told:
            assert when or [each for each, _ in told].count(word) == 1, (kind.name, word)


@pytest.mark.parametrize(
    "text", ["overload", "OVERLOAD", " overload ", "overload: the backlog of this service is full"]
)
def test_a_word_or_a_whole_reason_is_explained(text: str) -> None:
    assert {entry.word for _, entry in find(text)} == {"overload"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("worker-lost", "worker_lost"), ("exipred", "expired"), ("rejectd", "REJECTED"), ("gaps", "gap")],
)
def test_a_typing_error_is_seen_through(typed: str, meant: str) -> None:
    assert meant in close_to(typed)


def test_the_command_tells_it_in_words_and_for_programs() -> None:
    told = CliRunner().invoke(app, ["explain", "worker_lost"]).stdout
    assert told.startswith("worker_lost, reason\n")
    assert "try again? Only if running it twice does no harm." in told
    (meaning,) = json.loads(CliRunner().invoke(app, ["explain", "worker_lost", "--json"]).stdout)
    assert (meaning["kind"], meaning["word"]) == ("reason", "worker_lost")
    listed = CliRunner().invoke(app, ["explain"]).stdout
    assert all(entry.word in listed for kind in KINDS for entry in kind.entries)


def test_a_word_that_is_none_is_one_line() -> None:
    done = CliRunner().invoke(app, ["explain", "worker-lost"])
    assert isinstance(done.exception, FamulusError)
    assert done.exception.exit_code == 2
    assert "did you mean worker_lost" in str(done.exception)
