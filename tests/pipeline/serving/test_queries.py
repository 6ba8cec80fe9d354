"""The tables as services: queries that only read them, whatever somebody sends, and the report."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.serving.conftest import START_QUICKLY, START_S
from tests.processes.conftest import Process, processes, wait_until

from famulus import TaskError
from famulus.errors import QueryError
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.small_batch import file_of
from famulus.pipeline.run import state
from famulus.pipeline.serve.allowed import FUNCTIONS
from famulus.pipeline.serve.checking import PARTS_MAX, check_analysed, tables_in
from famulus.pipeline.serve.queries import Queries, query_of
from famulus.pipeline.serve.service import PipelineService
from famulus.pipeline.tables import TABLES
from famulus.pipeline.tables.column_types import arrow_schema
from famulus.testing.running_broker import RunningBroker

__all__ = ["processes"]
LONG_S = 120.0
DOCS = Path(__file__).parents[3] / "docs"
SEEN = datetime(2026, 11, 19, 4, tzinfo=UTC)


def finding(rank: int) -> dict[str, Any]:
    texts = {"severity": "info", "kind": "idle", "subject": f"service s{rank}", "title": f"title {rank}"}
    words = {"id": f"f{rank}", "evidence": "seen", "advice": "look", "key": None, "value": None}
    return {**texts, **words, "rank": rank, "last_seen": SEEN}


def publish(place: Place, number: int, findings: int) -> None:
    """As a run of the pipeline would leave it."""
    schema = arrow_schema(TABLES["findings"].columns)
    rows = pa.Table.from_pylist([finding(rank) for rank in range(1, findings + 1)], schema)
    place.make_folder("findings")
    place.write("findings/part-00.parquet", file_of(rows, schema))
    state.save(place, state.RunState(number=number), state.RunState())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "tables")
    publish(place, 1, findings=3)
    return place


# -- what a query may be --------------------------------------------------------------------------------------------

HOSTILE = {
    # Files, and whatever else is not a table of ours.
    "SELECT * FROM parquet.`/etc`": "parquet./etc is no table of ours",
    "SELECT * FROM csv.`/etc/passwd`": "csv./etc/passwd is no table of ours",
    "SELECT * FROM text.`file:///etc/passwd`": "is no table of ours",
    "WITH parquet AS (SELECT 1) SELECT * FROM parquet.`/etc`": "is no table of ours",
    "SELECT * FROM IDENTIFIER('parquet.`/etc`')": "is no table of ours",
    "SELECT * FROM IDENTIFIER(lower('PARQUET.`/etc`'))": "not allowed",
    "SELECT * FROM spark_catalog.default.secrets": "is no table of ours",
    "SELECT * FROM global_temp.findings": "is no table of ours",
    "SELECT * FROM secrets": "there is no table secrets",
    "SELECT * FROM findings WITH (path = '/etc')": "options of a table",
    "SELECT * FROM findings VERSION AS OF 1": "a version of a table is not allowed",
    "SELECT * FROM range(1000000000000)": "a function as a table is not allowed",
    "SELECT * FROM python_worker_logs()": "a function as a table is not allowed",
    "SELECT (SELECT max(value) FROM text.`/etc/passwd`)": "is no table of ours",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM text.`/etc/passwd`)": "is no table of ours",
    "SELECT 1 WHERE 'root' IN (SELECT value FROM text.`/etc/passwd`)": "is no table of ours",
    "SELECT * FROM findings, LATERAL (SELECT * FROM text.`/etc/passwd`)": "is no table of ours",
    "WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a": "is no table of ours",
    "WITH a AS (WITH b AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM b) SELECT 1": "is no table of ours",
    "SELECT 1 UNION ALL SELECT value FROM text.`/etc/passwd`": "is no table of ours",
    "SELECT input_file_name() FROM findings": "the function input_file_name is not allowed",
    "SELECT from_protobuf(to_json(struct(rank)), 'a', '/etc/passwd') FROM findings": "from_protobuf is not allowed",
    # Java, programs, and whoever runs this.
    "SELECT java_method('java.lang.System', 'exit', 1)": "the function java_method is not allowed",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')": "the function reflect is not allowed",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')": "the function try_reflect is not allowed",
    "SELECT ReFlEcT('java.lang.System', 'exit', 1) FROM findings": "the function ReFlEcT is not allowed",
    "SELECT system.builtin.reflect('a', 'b')": "system.builtin.reflect is not allowed",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'exit', 1)": "not allowed",
    "SELECT rank FROM findings ORDER BY reflect('a', 'b')": "the function reflect is not allowed",
    "SELECT rank FROM findings GROUP BY rank HAVING reflect('a', 'b')": "the function reflect is not allowed",
    "SELECT max(rank) OVER (ORDER BY reflect('a', 'b')) FROM findings": "the function reflect is not allowed",
    "SELECT a FROM findings LATERAL VIEW reflect('a', 'b') AS a": "the function reflect is not allowed",
    "SELECT transform(array(1), x -> reflect('a', 'b'))": "the function reflect is not allowed",
    "SELECT CASE WHEN reflect('a', 'b') THEN 1 END": "the function reflect is not allowed",
    "SELECT sum(rank) FILTER (WHERE reflect('a', 'b')) FROM findings": "the function reflect is not allowed",
    "SELECT TRANSFORM(rank) USING 'cat /etc/passwd' AS x FROM findings": "TRANSFORM is not allowed",
    "SELECT current_user()": "the function current_user is not allowed",
    "SELECT Current_User": "is not allowed",
    "SELECT rank FROM findings WHERE user = 'root'": "the function user is not allowed",
    # Much of little.
    "SELECT repeat('x', 2000000000)": "the function repeat is not allowed",
    "SELECT sequence(1, 1000000000)": "the function sequence is not allowed",
    "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r": "RECURSIVE is not allowed",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000: "nested",
    f"SELECT {'+'.join(['1'] * 5_000)}": "too complex",
    f"SELECT {','.join(['1'] * PARTS_MAX)}": "parts",
    f"SELECT '{'x' * 20_000}'": "characters",
    # Whatever is not a single SELECT.
    "INSERT INTO findings SELECT * FROM findings": "INSERT is not allowed",
    "FROM findings INSERT INTO findings SELECT *": "INSERT is not allowed",
    "WITH a AS (SELECT 1) INSERT INTO findings SELECT * FROM a": "not allowed",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1": "not allowed",
    "DELETE FROM findings": "not allowed",
    "UPDATE findings SET rank = 1": "not allowed",
    "MERGE INTO findings USING findings AS f ON true WHEN MATCHED THEN DELETE": "not allowed",
    "TRUNCATE TABLE findings": "not allowed",
    "CREATE TABLE x AS SELECT 1": "not allowed",
    "CREATE TABLE x USING parquet LOCATION '/etc'": "not allowed",
    "CREATE TEMPORARY VIEW x AS SELECT 1": "not allowed",
    "CREATE TEMPORARY FUNCTION f AS 'java.lang.System'": "not allowed",
    "CREATE FUNCTION f AS 'java.lang.System' USING JAR '/tmp/x.jar'": "not allowed",
    "DROP VIEW findings": "not allowed",
    "ALTER VIEW findings AS SELECT 1": "not allowed",
    "CACHE TABLE findings": "not allowed",
    "REFRESH '/etc'": "not allowed",
    "LOAD DATA INPATH '/etc/passwd' INTO TABLE findings": "not allowed",
    "SET spark.sql.ansi.enabled = false": "SET is not allowed",
    "SET": "SET is not allowed",
    "RESET": "not allowed",
    "SET TIME ZONE 'UTC'": "not allowed",
    "SET CATALOG spark_catalog": "not allowed",
    "USE default": "not allowed",
    "ADD JAR '/tmp/x.jar'": "not allowed",
    "ADD FILE '/etc/passwd'": "not allowed",
    "LIST FILES": "not allowed",
    "DECLARE VARIABLE x = 1": "not allowed",
    "EXECUTE IMMEDIATE 'SELECT 1'": "not allowed",
    "EXPLAIN SELECT 1": "not allowed",
    "DESCRIBE findings": "not allowed",
    "SHOW TABLES": "not allowed",
    "BEGIN SELECT 1; SELECT 2; END": "a script is not allowed",
    "SELECT 1; SELECT 2": "extra input",
    "SELECT :x": "not allowed",
    "SELECT /*+ BROADCAST(findings) */ * FROM findings": "a hint is not allowed",
    "": "",
    "nonsense": "",
}


@pytest.mark.parametrize("sql", HOSTILE)
def test_a_query_that_could_do_more_than_read_our_tables_is_refused(spark: SparkSession, sql: str) -> None:
    with pytest.raises(QueryError) as raised:
        tables_in(spark, sql, TABLES)
    assert HOSTILE[sql] in str(raised.value)


ALLOWED = {
    "SELECT service, sum(tasks) AS n FROM Service_Minutes WHERE tasks > 0 GROUP BY ALL HAVING n > 1 ORDER BY n DESC":
        {"service_minutes"},
    "WITH a AS (SELECT * FROM findings), b AS (SELECT * FROM a) SELECT * FROM a JOIN b USING (rank) LIMIT 5 OFFSET 1":
        {"findings"},
    "SELECT * FROM findings UNION SELECT * FROM findings EXCEPT SELECT * FROM findings": {"findings"},
    "SELECT f.rank, (SELECT max(tasks) FROM service_days) FROM findings f WHERE EXISTS (SELECT 1 FROM audit a)":
        {"findings", "service_days", "audit"},
    "SELECT rank() OVER (PARTITION BY kind ORDER BY rank ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM findings":
        {"findings"},
    "SELECT max(rank) OVER w FROM findings WINDOW w AS (ORDER BY rank)": {"findings"},
    "SELECT CASE kind WHEN 'a' THEN 1 ELSE 2 END, CAST(rank AS STRING), rank::double, -rank % 2, title LIKE 'a%',"
    " rank BETWEEN 1 AND 2, rank NOT IN (1, 2), kind IS NOT NULL, date_trunc('HOUR', last_seen), value[0],"
    " last_seen - INTERVAL 1 DAY, EXTRACT(HOUR FROM last_seen), TIMESTAMP '2026-11-19 00:00:00', kind || 'x',"
    " percentile_approx(rank, 0.5) FILTER (WHERE rank > 1), count(DISTINCT kind), title RLIKE 'a', NOT true,"
    " transform(array(1, 2), x -> x + 1), try_divide(1, 0), coalesce(key, ''), current_date FROM findings":
        {"findings"},
    "SELECT bucket.count FROM service_minutes LATERAL VIEW explode(total_hist) x AS bucket": {"service_minutes"},
    "SELECT * FROM findings PIVOT (count(rank) FOR kind IN ('a', 'b'))": {"findings"},
    "SELECT kind, count(*) FROM findings GROUP BY CUBE (kind, severity)": {"findings"},
    "SELECT a.* FROM (SELECT * EXCEPT (title) FROM findings) TABLESAMPLE (10 PERCENT) a": {"findings"},
    "FROM findings |> WHERE rank > 1 |> EXTEND rank + 1 AS next |> SELECT rank": {"findings"},
    "TABLE findings": {"findings"},
    "VALUES (1, 'a'), (2, 'b')": set(),
    "SELECT 1;": set(),
}  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED)
def test_a_query_that_reads_names_its_tables(spark: SparkSession, sql: str) -> None:
    assert tables_in(spark, sql, TABLES) == ALLOWED[sql]


def test_the_queries_of_the_docs_are_allowed(spark: SparkSession) -> None:
    page = (DOCS / "tables.md").read_text("utf-8")
    found = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(found) >= 3
    for sql in found:
        assert tables_in(spark, sql, TABLES)


def test_spark_knows_each_function_that_is_allowed(spark: SparkSession) -> None:
    known = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert known >= FUNCTIONS
    # Whatever is new in Spark is not allowed until somebody has looked at it.
    assert not FUNCTIONS & {"reflect", "java_method", "try_reflect", "input_file_name", "raise_error", "version"}


def test_a_body_is_the_sql_or_an_object() -> None:
    assert query_of(b" SELECT 1").sql == " SELECT 1"
    asked = query_of(b'{"sql": "SELECT 1", "rows": 5, "format": "arrow"}')
    assert (asked.sql, asked.rows, asked.format) == ("SELECT 1", 5, "arrow")
    for body in (b"\xff", b'{"sql": 1}', b'{"sql": "", "rows": 0}', b'{"sql": "", "table": 1}', b'{"format": "xml"}'):
        with pytest.raises(QueryError):
            query_of(body)


# -- the services ---------------------------------------------------------------------------------------------------


@pytest.fixture
def client(spark: SparkSession, broker: RunningBroker, place: Place) -> Iterator[Any]:
    service = PipelineService(spark, place, rows_max=100, time_limit_s=LONG_S, slots=2)
    with service.worker.started(broker.backend), broker.client(timeout=LONG_S) as client:
        yield client


def test_the_tables_as_they_are_now(client: Any, place: Place) -> None:
    sql = "SELECT rank, title, last_seen FROM findings ORDER BY rank"
    answer = json.loads(client.request("famulus.query", sql))
    assert answer["more"] is False
    assert answer["rows"][0] == {"rank": 1, "title": "title 1", "last_seen": "2026-11-19T04:00:00Z"}
    few = client.call("famulus.query", sql=sql, rows=2)
    assert [row["rank"] for row in few["rows"]] == [1, 2]
    assert few["more"] is True
    body = client.request("famulus.query", json.dumps({"sql": sql, "format": "arrow", "rows": 2}))
    table = pa.ipc.open_stream(body).read_all()
    assert (table["rank"].to_pylist(), table.schema.metadata[b"more"]) == ([1, 2], b"true")
    # The pipeline has made them again.
    publish(place, 2, findings=200)
    counted = client.call("famulus.query", sql="SELECT count(*) AS n FROM findings")
    assert counted["rows"] == [{"n": 200}]
    # The service has a bound of its own.
    assert len(client.call("famulus.query", sql=sql, rows=1_000_000)["rows"]) == 100
    for wrong, said in (
        ("SELECT nothing FROM findings", "nothing"),
        ("SELECT * FROM parquet.`/etc`", "no table of ours"),
        ("SELECT CAST('x' AS INT)", "cannot be cast"),
    ):
        with pytest.raises(TaskError, match=said) as raised:
            client.request("famulus.query", wrong)
        assert raised.value.code == "bad_arguments"


def test_the_report_and_what_it_says_first(client: Any) -> None:
    page = client.request("famulus.report", b"")
    assert page.startswith(b"<!") and b"title 1" in page  # noqa: PT018
    told = json.loads(client.request("famulus.report", b"json"))
    assert told["accounted"] is True
    assert [each["rank"] for each in told["findings"]] == [1, 2, 3]
    with pytest.raises(TaskError, match="html or json"):
        client.request("famulus.report", b"pdf")


def test_a_query_that_takes_too_long_is_cancelled(spark: SparkSession, broker: RunningBroker, place: Place) -> None:
    publish(place, 3, findings=2000)
    tracker = spark.sparkContext.statusTracker()
    many = "SELECT count(hash(a.title, b.title, c.title)) FROM findings a CROSS JOIN findings b CROSS JOIN findings c"
    many += " CROSS JOIN findings d"
    service = PipelineService(spark, place, rows_max=100, time_limit_s=3.0, slots=2)
    with service.worker.started(broker.backend), broker.client(timeout=LONG_S) as client:
        with pytest.raises(TaskError) as raised:
            client.request("famulus.query", many)
        assert raised.value.code == "time_limit"
        wait_until(lambda: not tracker.getActiveJobsIds(), LONG_S, "the end of the job")


def test_an_answer_has_at_most_so_many_bytes(spark: SparkSession, place: Place) -> None:
    jobs = PipelineService(spark, place, rows_max=100, time_limit_s=LONG_S)._jobs
    queries = Queries(spark, place, jobs, rows_max=100, bytes_max=1000)
    with pytest.raises(QueryError, match="bytes, and 1,000 at most"):
        queries.answer(query_of(b"SELECT f.*, g.title AS other FROM findings f CROSS JOIN findings g"), lambda: True)


def test_large_tables_are_read_by_spark_itself(
    spark: SparkSession, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("famulus.pipeline.serve.queries.SMALL_BYTES", -1)
    jobs = PipelineService(spark, place, rows_max=100, time_limit_s=LONG_S)._jobs
    answer = Queries(spark, place, jobs, 100, 10_000).answer(
        query_of(b"SELECT max(rank) AS n FROM findings"), lambda: True
    )
    assert json.loads(answer)["rows"] == [{"n": 3}]


def test_what_the_analysis_has_found_is_looked_at_again(spark: SparkSession) -> None:
    with pytest.raises(QueryError, match="may not read a Range"):
        check_analysed(spark.range(1))


def test_the_command_serves(broker: RunningBroker, processes: Callable[..., Process], place: Place) -> None:
    words = ("pipeline", "serve", "--tables", place.full(""), "--master", "local[1]", "--broker", broker.backend)
    served = processes(sys.executable, "-m", "famulus", *words, *START_QUICKLY)
    served.wait_for_line(r"worker .* is ready: ", START_S)
    page = (DOCS / "pipeline.md").read_text("utf-8")
    (command,) = re.findall(r"^\./famulus (call famulus\.query .*)$", page, re.MULTILINE)
    asking = (*shlex.split(command), "--broker", broker.frontend, "--timeout", str(LONG_S))
    asked = processes(sys.executable, "-m", "famulus", *asking)
    assert asked.wait(LONG_S) == 0, asked.output
    assert json.loads(asked.output) == {"rows": [], "more": False}
    served.signal(15)
    assert served.wait(LONG_S) == 0, served.output
    assert "Traceback" not in served.output
