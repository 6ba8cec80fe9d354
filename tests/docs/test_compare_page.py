"""The commands of docs/pipeline.md that compare and forecast, on tables with what they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Command, broker, famulus
from tests.unit.pipeline.conftest import Put, histogram, put

__all__ = ["broker", "famulus", "put"]

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text("utf-8")
COMMANDS = re.findall(r"^\./famulus (pipeline (?:compare|whatif) .+)$", PAGE, re.MULTILINE)
SERVICES = ("render", "mail")


def every_ten_minutes(begin: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    while begin < end:
        for service in SERVICES:
            yield {"minute": begin, "service": service, "tasks": 5, "ok": 5, "runs": 5, "busy_ns": 5,
                   "total_hist": histogram(*[3.0] * 5)}  # fmt: skip
        begin += timedelta(minutes=10)


@pytest.fixture
def tables(put: Put) -> Path:
    """March, and the last two days."""
    march = datetime(2026, 3, 1, tzinfo=UTC)
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    size = {"family": "main", "hour_of_day": 9, "erlangs_peak": 4.0, "service_s": 2.5, "slots": 5.0, "slots_needed": 9}
    put("capacity", *({**size, "service": service} for service in SERVICES))
    put("service_minutes", *every_ten_minutes(march, march + timedelta(days=2)))
    return put("service_minutes", *every_ten_minutes(now - timedelta(days=2), now))


def test_the_page_has_them() -> None:
    assert len(COMMANDS) >= 8


def test_every_one_of_them_runs(famulus: Command, tables: Path) -> None:
    for command in COMMANDS:
        words = [str(tables) if word == "tables" else word for word in shlex.split(command)]
        ended = famulus(*words)
        assert ended.code == 0, f"{command}\n{ended.err}"
        assert ended.json if "--json" in words else "\n" in ended.out


@pytest.mark.parametrize("heading", ["Before and after", "What if"])
def test_what_is_printed_there_has_the_columns_that_are_printed(famulus: Command, tables: Path, heading: str) -> None:
    shown = re.search(r"^service {2,}.+$", PAGE.partition(f"\n## {heading}\n")[2], re.MULTILINE)
    assert shown
    words = ("compare", "--at", "2026-03-02T12") if heading == "Before and after" else ("whatif", "--load", "x2")
    printed = famulus("pipeline", *words, "--tables", str(tables)).out.splitlines()
    assert shown[0].split() in [line.split() for line in printed]
