"""Parts of `famulus bench pipeline`: it compares like with like, and sees memory."""

from __future__ import annotations

import subprocess
import sys

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.jobs.conftest import EIGHT, Journal

from famulus.journal.files import parse, visible
from famulus.lab.bench.memory import MemoryWatch, children_kib
from famulus.lab.bench.pipeline import cut, duckdb_query
from famulus.pipeline.io import source
from famulus.pipeline.io.source import Sound
from famulus.pipeline.tables import TABLES
from famulus.pipeline.tables.frames import to_spark


def test_duckdb_makes_the_same_table(spark: SparkSession, journal: Journal) -> None:
    import duckdb

    more = [
        journal.task(90, EIGHT + 5, outcome="RETRY"),
        journal.task(91, EIGHT + 5, outcome="LATE"),
        journal.task(92, EIGHT + 5, outcome="REJECTED", reason="overload", worker=None, assigned=None, service_ns=None),
        journal.task(93, EIGHT + 5, outcome="UNKNOWN", reason="expired", queue_ns=0, total_ns=12345),
        journal.task(94, EIGHT + 5, delegated_from="b2"),
        journal.task(95, EIGHT + 5, delegated_to="b2"),
    ]
    journal.write([*journal.tasks(0, 0, 40), *more], 1)
    with duckdb.connect() as db:
        theirs = db.sql(duckdb_query(journal.folder)).to_arrow_table().to_pylist()
    found = source.check_all(journal.place, source.found_in(journal.place, source.days_in(journal.place)))
    sound = [each for each in found if isinstance(each, Sound)]
    rows = source.read(spark, journal.place, "tasks", sound)
    names = list(theirs[0])
    made = to_spark(spark, TABLES["service_minutes"].make(rows))
    ours = made.withColumn("minute_us", F.unix_micros("minute")).select(*names)
    assert sorted(map(repr, ours.toArrow().to_pylist())) == sorted(repr(_filled(row)) for row in theirs)


def test_an_hour_is_cut_into_files_as_before_it_is_compacted(journal: Journal) -> None:
    for first, broker in ((0, "b1"), (1, "b1"), (0, "b2")):
        journal.write(journal.tasks(0, 100 * first, 5), first, broker=broker)
    journal.write([journal.task(1, EIGHT)], 0, broker="b3")
    assert cut(journal.folder, 3) == 10
    found = source.found_in(journal.place, source.days_in(journal.place))
    counted = visible(each for file in found if (each := parse(file.path)) is not None)
    assert len(counted) == len(found) == 10
    assert [pq.read_metadata(journal.folder / each.path).num_rows for each in counted] == [2, 2, 1] * 3 + [1]
    assert not [path for path in journal.folder.rglob("*") if path.is_file() and path.suffix != ".parquet"]


def _filled(row: dict[str, object]) -> dict[str, object]:
    """Of nothing DuckDB makes null, where we have an empty histogram."""
    return {name: [] if value is None else value for name, value in row.items()}


def test_memory_of_children_is_seen() -> None:
    code = "held = bytearray(40_000_000); print(flush=True); input()"
    with MemoryWatch() as memory:
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        assert children_kib() > 40_000
        assert memory.take_peak_kib() > 40_000
        child.communicate(b"\n")
