"""Each decision has a date, and says what would change our mind."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs/decisions"
INDEX = FOLDER / "README.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_is_dated(page: Path) -> None:
    decided = re.search(r"^\*\*Decided \((\d{4}-\d\d-\d\d)\)\.\*\* \w", page.read_text("utf-8"), re.MULTILINE)
    assert decided, "it begins with **Decided (2026-01-31).** and what was decided"
    assert date(2026, 11, 1) <= date.fromisoformat(decided[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_says_what_would_change_our_mind(page: Path) -> None:
    (said,) = re.findall(
        r"^\*\*What would change our mind\.\*\* (.+)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(said.split()) >= 8


def test_the_index_has_each_of_them_by_its_title() -> None:
    listed = dict(re.findall(r"^- \[(.+)\]\((.+)\)$", INDEX.read_text("utf-8"), re.MULTILINE))
    titles = {page.read_text("utf-8").partition("\n")[0].removeprefix("# "): page.name for page in PAGES}
    assert listed == titles
