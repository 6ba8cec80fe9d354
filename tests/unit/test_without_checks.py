"""What `tests/processes/without_checks.py` takes out is there, and so are the tests that must notice."""

from __future__ import annotations

import re

import pytest
from tests.processes.without_checks import ATTEMPTS, ROOT, SOURCES, Attempt, main, verdict

#: What must be impossible, all of it, in the words by which an attempt is known.
ALL = """
no key, NULL; PLAIN; ZMTP; wrong server key; unknown key; expired key; counted; call without the right;
CONNECT without the right; another principal's identity; nobody says who may; byte flipped; repeated; reordered; cut;
not sealed; revoked: a client; revoked: a worker; rotated; half-open; full speed; others may read; in a log;
in a traceback; in /proc; in `status`; handed over; forged `via`; forgotten
"""


def test_all_that_must_be_impossible_is_tried() -> None:
    names = [each.name for each in ATTEMPTS]
    assert len(set(names)) == len(names)
    wanted = [part.strip() for part in re.split(r"[;,]\s", ALL.strip())]
    assert not [each for each in wanted if not any(each in name for name in names)]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda each: each.name)
def test_each_check_is_still_where_it_was(attempt: Attempt) -> None:
    for check in attempt.checks:
        assert (SOURCES / check.file).read_text().count(check.text) == 1, f"{check.file}: {check.text}"
    for test in attempt.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text()


def test_the_page_names_each() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert not [each.name for each in ATTEMPTS if f"| {each.name} |" not in page]


def test_only_a_demand_counts() -> None:
    assert verdict({"a": "AssertionError: no", "b": "Failed: DID NOT RAISE <class 'Rejected'>"}) == "fails without it"
    assert verdict({"a": 'failed on setup with "AssertionError: no"'}) == "fails without it"
    assert verdict({"a": "AssertionError: no", "b": ""}) == "STILL PASSES"
    assert verdict({}) == "STILL PASSES"
    assert verdict({"a": "ImportError: no such module"}).startswith("FAILS FOR ANOTHER REASON")


def test_a_word_that_is_in_no_name_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("nosuch") == 2
    assert "--list" in capsys.readouterr().err
