"""Answers queries over the tables as they are now: at most so many rows and bytes, and only while somebody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from famulus.errors import QueryError
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.store import Store
from famulus.pipeline.run import state
from famulus.pipeline.serve.checking import check_analysed, tables_in
from famulus.pipeline.tables import TABLES
from famulus.pipeline.tables.scale import SMALL_BYTES, Scale, session_for
from famulus.spark.batch_job import reason_of
from famulus.spark.running_job import RunningJobs

#: If the tables change while they are read, the query is run again.
TRIES: Final = 3
ROWS: Final = 1_000


class TableQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sql: str
    #: At most so many; the service has a bound of its own.
    rows: int = ROWS
    format: Literal["json", "arrow"] = "json"


_read: Final = msgspec.json.Decoder(TableQuery).decode


def query_of(body: bytes) -> TableQuery:
    """The body is the SQL itself, or an object in JSON: {"sql": ..., "rows": ..., "format": ...}."""
    try:
        query = _read(body) if body.lstrip()[:1] == b"{" else TableQuery(body.decode())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise QueryError(str(error)) from None
    if query.rows < 1:
        raise QueryError(f"rows: 1 or more, not {query.rows}")
    return query


class Queries:
    """May be used by several threads at once."""

    def __init__(self, spark: SparkSession, place: Place, jobs: RunningJobs, rows_max: int, bytes_max: int) -> None:
        self._spark = spark
        self._place = place
        self._jobs = jobs
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        #: It knows these tables, as they were after this run of the pipeline.
        self._session = spark
        self._known: set[str] = set()
        self._number = -1

    def answer(self, query: TableQuery, is_wanted: Callable[[], bool]) -> bytes:
        """Raises a QueryError if the query is wrong, or not allowed."""
        names = tables_in(self._spark, query.sql, TABLES)
        rows_max = min(query.rows, self._rows_max)
        with self._jobs.running(f"query: {query.sql[:80]}", is_wanted):
            found = self._rows(query.sql, names, rows_max + 1)
        body = _written(found.slice(0, rows_max), found.num_rows > rows_max, query.format)
        if len(body) > self._bytes_max:
            raise QueryError(f"the answer has {len(body):,} bytes, and {self._bytes_max:,} at most are sent")
        return body

    def _rows(self, sql: str, names: set[str], rows: int) -> pa.Table:
        for attempt in range(1, TRIES + 1):
            number, session = self._ready(names)
            is_last = attempt == TRIES
            try:
                frame = session.sql(sql)
                check_analysed(frame)
                found = frame.limit(rows).toArrow()
            except PySparkException as error:
                if is_last or state.load(self._place).number == number:
                    raise QueryError(reason_of(error)) from error
                continue
            if is_last or state.load(self._place).number == number:
                break
        return found

    def _ready(self, names: set[str]) -> tuple[int, SparkSession]:
        """A session that has these tables as they are now."""
        with self._lock:
            number = state.load(self._place).number
            store = Store(self._place)
            if number != self._number:
                are_small = sum(map(store.bytes_of, TABLES.values())) <= SMALL_BYTES
                self._session = session_for(self._spark, Scale.SMALL if are_small else Scale.LARGE)
                self._known, self._number = set(), number
            for name in sorted(names - self._known):
                # A query that has begun keeps what the view was before.
                store.read(self._session, TABLES[name]).createOrReplaceTempView(name)
                self._known.add(name)
            return number, self._session


def _written(rows: pa.Table, has_more: bool, form: str) -> bytes:
    if form == "arrow":
        sink = pa.BufferOutputStream()
        marked = rows.replace_schema_metadata({"more": str(has_more).lower()})
        with pa.ipc.new_stream(sink, marked.schema) as stream:
            stream.write_table(marked)
        body: bytes = sink.getvalue().to_pybytes()
        return body
    answer: dict[str, Any] = {"rows": rows.to_pylist(), "more": has_more}
    return msgspec.json.encode(answer, enc_hook=str)
