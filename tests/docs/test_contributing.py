"""CONTRIBUTING.md: what it tells a newcomer to read is there, and can be read in an afternoon."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.deploy.plain_yaml import read_all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
#: Of what a newcomer reads to change the broker.
FILES = 10
LINES_MAX = 4_000


def reading_list() -> list[Path]:
    return [ROOT / name for name in re.findall(r"^\d+\. `(src/\S+)`: \w", PAGE, re.MULTILINE)]


def test_ten_files_make_up_the_broker() -> None:
    files = reading_list()
    assert len(set(files)) == FILES
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) < LINES_MAX


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:src|tests|docs)/[^\s`]+)`", PAGE))))
def test_what_it_names_is_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", PAGE))))
def test_its_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).is_file()


def test_the_hooks_are_the_first_steps_of_the_tests_and_fetch_nothing() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    (settings,) = read_all(text)
    (repo,) = settings["repos"]
    assert repo["repo"] == "local"
    assert {hook["language"] for hook in repo["hooks"]} == {"system"}
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in repo["hooks"]]
    assert entries == ["ruff check --quiet", "ruff format --check --quiet", "mypy --no-error-summary"]
    assert "://" not in text
