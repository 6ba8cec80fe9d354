"""Tables with some rows each, in the folders where the jobs put them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import ARROW

#: Of the rows that a test writes.
START = datetime(2026, 3, 2, 8, tzinfo=UTC)
Row = dict[str, Any]
Put = Callable[..., Path]
#: What a column holds that a test does not care about.
PLAIN: dict[str, Any] = {"text": "some", "instant": START, "date": START.date(), "histogram": []}


def histogram(*times_ms: float) -> list[dict[str, int]]:
    buckets: dict[int, int] = defaultdict(int)
    for each in times_ms:
        buckets[math.floor(16 * math.log(each * 1e6 + 1))] += 1
    return [{"bucket": bucket, "count": count} for bucket, count in sorted(buckets.items())]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a table; a row of an hourly one is in the hour of its `minute` or `at`, or of its `date` and `hour`."""

    def write(name: str, *rows: Row) -> Path:
        columns = schemas.TABLES[name]
        hourly = columns[0].name == "date"
        kept = [each for each in columns if not (hourly and each.name == "date")]
        schema = pa.schema([(each.name, ARROW[each.kind]) for each in kept])
        folders: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            at = _instant(row)
            plain = {each.name: PLAIN.get(each.kind.value, 0) for each in kept} | {"hour": at.hour}
            full = {each.name: row.get(each.name, plain[each.name]) for each in kept}
            folders[f"date={at:%Y-%m-%d}" if hourly else ""].append(full)
        for folder, own in folders.items():
            path = tmp_path / "tables" / name / folder
            path.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(own, schema=schema), path / "part-0000.parquet")
        return tmp_path / "tables"

    return write


def _instant(row: Row) -> datetime:
    at = row.get("minute") or row.get("at")
    return at or datetime.combine(row.get("date", date(2026, 3, 2)), time(row.get("hour", 8)), UTC)
