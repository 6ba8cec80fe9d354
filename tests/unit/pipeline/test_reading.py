"""Hours of a table: in files of days, and as an older pipeline had them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from tests.unit.pipeline.conftest import START, Put

from famulus.pipeline.io.hours import number_of
from famulus.pipeline.report.reading import Tables


def test_each_piece_has_its_hour_whether_the_path_tells_it_or_the_file(put: Put) -> None:
    hours = [{"at": START.replace(hour=hour), "service": f"s{hour}"} for hour in (8, 8, 10)]
    folder = put("service_hours", *hours)
    older = folder / "service_hours" / "date=2026-03-01" / "hour=23"
    older.mkdir(parents=True)
    pq.write_table(pa.table({"service": ["old"]}), older / "part-00.parquet")
    tables, eight = Tables(folder), number_of("2026-03-02", "8")
    found = [(hour - eight, batch.to_pydict()) for hour, batch in tables.hourly("service_hours", ["service"])]
    assert found == [(-9, {"service": ["old"]}), (0, {"service": ["s8", "s8"]}), (2, {"service": ["s10"]})]
    assert tables.hours("service_hours") == [eight - 9, eight, eight + 2]
    wanted = [hour - eight for hour, _ in tables.hourly("service_hours", ["service"], {eight + 2, eight - 9})]
    assert wanted == [-9, 2]
