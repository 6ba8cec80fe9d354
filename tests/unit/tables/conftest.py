"""Findings as the pipeline writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.pipeline.tables import schemas
from famulus.pipeline.tables.column_types import arrow_schema
from famulus.tables.finding import FILE

ECHO = "service/echo"
SCHEMA = arrow_schema(schemas.TABLES["findings"])


def finding(rank: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"id{rank}",
        "rank": rank,
        "severity": "warning",
        "kind": "backlog_full",
        "subject": "echo",
        "title": "the backlog of echo is too short",
        "evidence": "12 % were rejected",
        "advice": "Let more tasks wait.",
        "key": ECHO,
        "value": '{"backlog_tasks_max":5000}',
        "last_seen": datetime(2026, 11, 15, 8, tzinfo=UTC),
    } | more


def write(tables: Path, *rows: dict[str, Any], schema: Any = SCHEMA, **options: Any) -> Path:
    """The file, which is there at once, as the pipeline puts it there."""
    path = tables / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(".unfinished")
    pq.write_table(pa.Table.from_pylist(list(rows), schema), unfinished, **options)
    return unfinished.rename(path)
