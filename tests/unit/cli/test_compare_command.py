"""`famulus pipeline compare` and `whatif`: from tables on a disk to what is printed."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.cli.conftest import Command
from tests.unit.pipeline.conftest import START, Put, histogram, put

__all__ = ["put"]


@pytest.fixture
def tables(put: Put) -> Path:
    """An hour in which a service with a hostile name is slow from the middle on; two workers; and a capacity."""
    rows: list[dict[str, Any]] = [
        {"minute": START + timedelta(minutes=number), "service": "e\x1bcho", "tasks": 20, "ok": 20, "runs": 20,
         "busy_ns": 20_000_000, "total_hist": histogram(*[1.0 + number % 3 / 10 + 9 * (number >= 30)] * 20)}
        for number in range(60)
    ]  # fmt: skip
    shifts: list[dict[str, Any]] = [
        {"worker": worker, "hour": hour, "service": "mail", "tasks": 9, "ok": 9 - hour % 2, "service_hist":
         histogram(*[2.0] * 9)}
        for worker in ("old", "new") for hour in range(8)
    ]  # fmt: skip
    size: dict[str, Any] = {"service": "mail", "family": "main", "hour_of_day": 9, "erlangs_peak": 4.0,
                            "service_s": 2.5, "slots": 5.0, "slots_needed": 9}  # fmt: skip
    put("service_minutes", *rows)
    put("worker_hours", *shifts)
    put("capacity", size, {**size, "service": "unknown", "slots": None})
    hour = {"service": "mail", "family": "main", "at": START.replace(hour=9), "runs": 9, "busy_ns": 9}
    return put("service_hours", {**hour, "queue_hist": histogram(*[2000.0] * 200)})


def test_before_and_after_an_instant(famulus: Command, tables: Path) -> None:
    words = ("pipeline", "compare", "--at", "2026-03-02T08:30", "--length", "30m", "--tables", str(tables))
    ended = famulus(*words)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:2] == ["before: 2026-03-02 08:00 to 08:30 UTC", "after:  2026-03-02 08:30 to 09:00 UTC"]
    assert lines[3].split() == ["service", "tasks", "failed", "p50", "p95", "p99", "wait", "run"]
    assert lines[4].startswith("e\\x1bcho  before    600     0 %")
    assert "slower: 9." in ended.out
    assert lines[-1].startswith("1 of 1 service differs by more than chance explains (p < 0.05")
    (echo,) = famulus(*words, "--json").json["services"]
    assert (echo["differs"], echo["before"]["tasks"], echo["failed"]["p_of_all"]) == (True, 600, 1.0)


def test_ranges_of_other_hours_get_a_warning(famulus: Command, tables: Path) -> None:
    words = ("--before", "2026-03-02T08..2026-03-02T08:30", "--after", "2026-03-02T08:30..2026-03-02T10")
    ended = famulus("pipeline", "compare", *words, "--tables", str(tables))
    assert ended.code == 0
    assert ended.err == "famulus: these are different hours of the day, which may be why something differs\n"


def test_a_service_that_is_not_there(famulus: Command, tables: Path) -> None:
    words = ("--at", "2026-03-02T08:30", "--length", "30m", "--service", "nobody")
    ended = famulus("pipeline", "compare", *words, "--tables", str(tables))
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "no service 'nobody' among these tasks; there are e" in ended.err
    ended = famulus("pipeline", "whatif", "--slots", "nobody=3", "--tables", str(tables))
    assert (ended.code, ended.err) == (2, "famulus: no tasks of a service 'nobody'; there are mail, unknown\n")


def test_a_range_of_all_time_is_no_more_work(famulus: Command, tables: Path) -> None:
    words = ("--before", "0001-01-01..2026-03-02T08:30", "--after", "2026-03-02T08:30..9999-12-31")
    ended = famulus("pipeline", "compare", *words, "--tables", str(tables))
    assert (ended.code, ended.err) == (0, "")
    # A bin of such a range is longer than all of the data.
    assert "too few tasks to say" in ended.out


@pytest.mark.parametrize(
    ("table", "words"),
    [("service_minutes", ("compare", "--at", "2026-03-02T08:30")), ("capacity", ("whatif", "--load", "x2"))],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    famulus: Command, tables: Path, table: str, words: tuple[str, ...]
) -> None:
    (path,) = (tables / table).rglob("*.parquet")
    path.write_bytes(b"rubbish" * 100)
    ended = famulus("pipeline", *words, "--tables", str(tables))
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(f"famulus: {path} cannot be read: ")


def test_a_table_without_a_column_is_one_sentence(famulus: Command, tables: Path) -> None:
    (path,) = (tables / "service_minutes").rglob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["ok"]), path)
    ended = famulus("pipeline", "compare", "--at", "2026-03-02T08:30", "--tables", str(tables))
    assert ended.code == 2
    assert "has no column ok: famulus pipeline run adds it" in ended.err


def test_two_workers(famulus: Command, tables: Path) -> None:
    words = ("pipeline", "compare", "--before-workers", "old", "--after-workers", "n*", "--tables", str(tables))
    ended = famulus(*words, "--during", "2026-03-02T00..2026-03-02T06")
    assert ended.out.startswith("before: workers old\nafter:  workers n*\n")
    assert "no difference that chance does not explain" in ended.out
    assert famulus(*words, "--json").json["services"][0]["before"]["tasks"] == 72


def test_half_of_the_slots(famulus: Command, tables: Path) -> None:
    words = ("pipeline", "whatif", "--slots", "x0.5", "--tables", str(tables))
    ended = famulus(*words)
    assert (ended.code, ended.err) == (0, "")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert lines[1] == "mail measured 5 100 % 1.98 s 1.98 s 1.98 s"
    assert lines[3] == "asked 2 200 % 100 % grows grows grows"
    assert "would not keep up" in lines[5]
    assert lines[-1] == (
        "the target is that 95 % of the tasks wait no longer than 100 ms; each service in its most demanding hour"
    )
    mail, unknown = famulus(*words, "--json").json
    assert (mail["asked"]["keeps_up"], mail["asked"]["waits"]["p95_s"]) == (False, None)
    assert (unknown["now"], unknown["measured"]) == (None, None)
    assert len(famulus(*words, "--json", "--service", "mail").json) == 1


def test_neither_loads_spark(tables: Path) -> None:
    script = (
        "import sys; from famulus.cli.main import new_app; app = new_app()\n"
        "for words in (['compare', '--at', '2026-03-02T08:30', '--length', '30m'], ['whatif', '--load', 'x2']):\n"
        f"    app(['pipeline', *words, '--tables', {str(tables)!r}], standalone_mode=False)\n"
        "assert not {'pyspark', 'py4j', 'plotly'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
