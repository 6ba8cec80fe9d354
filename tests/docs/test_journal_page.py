"""The page about the journal has each table with its columns, as the schema says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from famulus.journal import schema

PAGE = Path(__file__).parents[2] / "docs" / "journal.md"


@pytest.mark.parametrize("table", schema.TABLES)
def test_the_page_has_the_columns_of_the_schema(table: str) -> None:
    text = PAGE.read_text("utf-8")
    own = text.partition(f"### `{table}`")[2].partition("\n#")[0]
    told = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", own, re.MULTILINE)
    kinds = {True: ", or null", False: ""}
    assert told == [
        (column.name, column.kind.value + kinds[column.nullable], column.meaning) for column in schema.TABLES[table]
    ]


def test_the_page_names_the_version() -> None:
    assert f"`famulus.journal.version` (now {schema.VERSION})" in PAGE.read_text("utf-8")
