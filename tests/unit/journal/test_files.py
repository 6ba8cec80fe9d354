"""Names of the journal's files: there and back again, and which of them count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.journal import arrow, files, schema
from famulus.journal.files import JournalFile


def journal_file(first: int, last: int | None = None, boot: str = "b007", hour: str = "08") -> JournalFile:
    return JournalFile("tasks", "2026-11-15", hour, "ann", boot, first, first if last is None else last)


@given(st.text(min_size=1).filter(lambda name: name.isprintable()), st.integers(0, 99_999_999))
def test_a_name_is_read_as_it_was_written(broker: str, first: int) -> None:
    file = JournalFile("workers", "2026-11-15", "23", broker, "0a1b", first, min(first + 3, 99_999_999))
    assert files.parse(file.path) == file
    assert not file.path.rsplit("/", 1)[1].startswith((".", "_"))


@pytest.mark.parametrize(
    "path",
    [
        "tasks/date=2026-11-15/hour=08/.ann-b007-00000001.parquet.tmp",
        "tasks/date=2026-11-15/hour=08/part-0000.snappy.parquet",
        "tasks/date=2026-11-15/hour=08/ann-b007-00000002_00000001.parquet",
        "tasks/ann-b007-00000002.parquet",
        "tasks/date=2026-11-15/hour=08/ann-b007-00000002.parquet/more",
    ],
)
def test_what_somebody_else_put_there_is_nobodys(path: str) -> None:
    assert files.parse(path) is None


def test_what_was_compacted_counts_once() -> None:
    small = [journal_file(number) for number in range(5)]
    whole = journal_file(1, 3)
    assert files.visible([*small, whole]) == sorted([small[0], whole, small[4]])


def test_a_compacted_one_may_be_compacted_again() -> None:
    assert files.visible([journal_file(1, 3), journal_file(0, 4), journal_file(4)]) == [journal_file(0, 4)]


def test_another_boot_or_hour_is_not_covered() -> None:
    others = [journal_file(2, boot="cafe"), journal_file(2, hour="09")]
    assert files.visible([*others, journal_file(1, 3)]) == sorted([*others, journal_file(1, 3)])


def test_the_hour_is_that_of_utc() -> None:
    assert files.hour_of(1_763_197_199_999_999) == ("2025-11-15", "08")
    assert files.hour_of(1_763_197_200_000_000) == ("2025-11-15", "09")


@pytest.mark.parametrize("table", schema.TABLES)
def test_a_file_says_which_table_and_version_it_is(table: str) -> None:
    made = arrow.schema_of(table)
    assert made.names == [column.name for column in schema.TABLES[table]]
    assert made.metadata == {b"famulus.journal.version": b"3", b"famulus.journal.table": table.encode()}
