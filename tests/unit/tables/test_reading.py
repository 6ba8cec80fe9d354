"""Findings from a file, whatever is in it."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.tables.conftest import ECHO, SCHEMA, finding, write

from famulus.errors import NoFinding, NotFindings
from famulus.pipeline.tables import schemas
from famulus.tables import reading
from famulus.tables.finding import Finding, Findings, find


def read(path: Path, rows_max: int = reading.ROWS_MAX) -> Findings:
    with path.open("rb") as file:
        return reading.read(file, rows_max)


def test_the_most_urgent_come_first_and_the_rest_is_counted(tmp_path: Path) -> None:
    told = read(write(tmp_path, *(finding(rank) for rank in (3, 1, 4, 2))), 2)
    assert ([each.id for each in told.rows], told.total) == (["id1", "id2"], 4)
    first = told.rows[0]
    assert first.edit() == (ECHO, {"backlog_tasks_max": 5000})
    assert first.last_seen == datetime(2026, 11, 15, 8, tzinfo=UTC)
    assert find(told.rows, "2") is find(told.rows, "id2")


def test_it_knows_every_column_of_the_pipelines_table() -> None:
    assert sorted(Finding.__struct_fields__) == sorted(column.name for column in schemas.TABLES["findings"])


def test_without_an_edit_there_is_nothing_to_apply(tmp_path: Path) -> None:
    told = read(write(tmp_path, finding(1, value=None), finding(2, key=None, value=None)))
    for each in told.rows:
        assert not each.has_edit
        with pytest.raises(NoFinding, match=r"proposes no edit that could be made for you: Let more tasks wait\."):
            each.edit()
    with pytest.raises(NoFinding, match="there is no finding 7; there are 2"):
        find(told.rows, "7")


def test_the_verdict_is_that_of_the_audit(tmp_path: Path) -> None:
    assert read(write(tmp_path)).accounted
    assert not read(write(tmp_path, finding(1), finding(2, kind="audit"))).accounted


def test_a_digest_is_that_of_the_edit(tmp_path: Path) -> None:
    one, same, other = (
        read(write(tmp_path, finding(1, **more))).rows[0]
        for more in ({}, {"evidence": "13 %"}, {"value": '{"backlog_tasks_max":5001}'})
    )
    assert one.digest == same.digest != other.digest


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ms"), pa.timestamp("ns", tz="Europe/Vienna")])
def test_instants_are_utc_whichever_way_they_were_written(tmp_path: Path, kind: Any) -> None:
    rows = pa.Table.from_pylist([finding(1)], SCHEMA)
    column = SCHEMA.get_field_index("last_seen")
    seen = rows["last_seen"].cast(pa.timestamp(kind.unit, tz="UTC")).cast(kind)
    pq.write_table(rows.set_column(column, "last_seen", seen), tmp_path / "it.parquet")
    assert read(tmp_path / "it.parquet").rows[0].last_seen == datetime(2026, 11, 15, 8, tzinfo=UTC)


# -- files that are something else ---------------------------------------------------------------------------------


def with_column(name: str, kind: Any) -> Any:
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind))


@pytest.mark.parametrize(
    ("rows", "schema", "complaint"),
    [
        ([{"id": "a"}], pa.schema([("id", pa.string())]), "it has no column severity: these are no findings"),
        ([finding(1) | {"rank": "1"}], with_column("rank", pa.string()), "its column rank is of another kind"),
        ([finding(1) | {"title": 1}], with_column("title", pa.int64()), "its column title is of another kind"),
        ([finding(1) | {"title": ["a"]}], with_column("title", pa.list_(pa.string())), "column title"),
        ([finding(1) | {"value": "{"}], SCHEMA, "truncated"),
        ([finding(1) | {"value": "[1]"}], SCHEMA, "Expected `object | null`, got `array`"),
        ([finding(1) | {"value": "[" * 10_000}], SCHEMA, ""),
        ([finding(1) | {"title": "x" * 20_000}], SCHEMA, "a text in it has 20,000 bytes, and 16,384 at most are read"),
        ([finding(1) | {"title": None}], SCHEMA.set(4, pa.field("title", pa.string())), ""),
        ([finding(rank) for rank in range(10_001)], SCHEMA, "it has 10,001 rows, and 10,000 at most are read"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, rows: list[Any], schema: Any, complaint: str) -> None:
    if None in rows[0].values():
        schema = pa.schema([field.with_nullable(True) for field in SCHEMA])
    with pytest.raises(NotFindings) as caught:
        read(write(tmp_path, *rows, schema=schema))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert 0 < len(str(caught.value)) <= 300


def test_a_text_that_is_that_of_every_row_is_not_multiplied(tmp_path: Path) -> None:
    """Some kilobytes of a file would otherwise become gigabytes."""
    path = write(tmp_path, *(finding(rank, evidence="x" * 1_000_000) for rank in range(500)))
    assert path.stat().st_size < 200_000
    with pytest.raises(NotFindings, match="a text in it has 1,000,000 bytes"):
        read(path)


def test_a_file_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    rows = [finding(rank, evidence=f"{rank}" * 2000) for rank in range(9_000)]
    path = write(tmp_path, *rows, use_dictionary=False, compression="zstd")
    with pytest.raises(NotFindings, match=r"it has [\d,]+ bytes, and 67,108,864 at most are read"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1", b"<html>" * 100])
def test_rubbish_is_no_findings(content: bytes) -> None:
    with pytest.raises(NotFindings):
        reading.read(io.BytesIO(content))


def test_broken_files_are_read_or_refused(tmp_path: Path) -> None:
    """Whichever byte is another one."""
    sound = write(tmp_path, finding(1), finding(2)).read_bytes()
    chance = Random(7)
    for _ in range(200):
        broken = bytearray(sound)
        for _ in range(3):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        with suppress(NotFindings):
            assert len(reading.read(io.BytesIO(bytes(broken))).rows) <= reading.ROWS_MAX
