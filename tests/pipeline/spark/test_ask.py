"""Columns that a service computes: what Spark makes of them, with workers that count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.pipeline.spark.conftest import Served

from famulus.errors import SettingsError
from famulus.spark import AskCounts, FamulusSink, ask, asking


@pytest.fixture
def docs(spark: SparkSession) -> DataFrame:
    """Forty rows in two partitions; every tenth is bad."""
    text = F.when(F.col("id") % 10 == 3, F.format_string("bad %d", "id")).otherwise(F.format_string("row %d", "id"))
    return spark.range(0, 40, 1, 2).select("id", text.alias("text"))


def test_a_stage_that_runs_twice_has_one_effect(spark: SparkSession, docs: DataFrame, served: Served) -> None:
    """To sort rows, Spark computes them twice; to count and collect them, once more each."""
    counts = AskCounts(spark)
    answers = ask(docs, "upper", body="text", key="id", returns="answer string", broker=served.frontend, counts=counts)
    assert answers.columns == ["id", "text", "answer", "outcome", "reason", "message_id", "took_ms"]
    rows = answers.orderBy("id").collect()
    assert answers.count() == 40
    assert (rows[2].answer, rows[2].outcome, rows[2].reason) == ("ROW 2", "OK", None)
    assert (rows[3].answer, rows[3].outcome, rows[3].reason) == (None, "ERROR", "ValueError: as you wish")
    assert served.begun == dict.fromkeys((row.message_id for row in rows), 1)
    # Whoever reads a journal sees the application.
    assert all(row.message_id.startswith(spark.sparkContext.applicationId) for row in rows)
    assert counts.asked == counts.answered >= 80
    assert str(counts).endswith(" answered, 0 retried, 0 refused")


def test_rows_go_together_in_tasks_of_arrow(docs: DataFrame, served: Served) -> None:
    parts = docs.select("id", (F.col("id") - 20).alias("a"), F.col("text").alias("b"))
    answers = ask(
        parts,
        "score",
        body=F.struct("a", "b"),
        key="id",
        codec="arrow",
        rows_per_task=7,
        returns="score double, name string",
        broker=served.frontend,
    )
    rows = sorted(answers.collect())
    # What has a negative a comes back without its first row, which is no answer to what was asked.
    assert {(row.outcome, row.reason, row.score) for row in rows[:20]} == {
        ("ERROR", f"bad_answer: has {count - 1} rows for {count}", None) for count in (7, 6)
    }
    assert [(row.score, row.name) for row in rows[20:]] == [(row.a / 2, row.b) for row in rows[20:]]
    assert len(served.begun) == 6


def test_values_go_as_json(docs: DataFrame, served: Served) -> None:
    parts = docs.select("id", F.struct(F.col("id").alias("a"), F.lit(2).alias("b")).alias("arguments"))
    typed = ask(parts, "add", body="arguments", key="id", codec="json", returns="sum bigint", broker=served.frontend)
    assert typed.select(F.sum("sum")).collect()[0][0] == 40 * 2 + 780
    wrong = ask(parts, "add", body="arguments", key="id", codec="json", returns="sum string", broker=served.frontend)
    assert wrong.select("reason").distinct().collect() == [("bad_answer: Expected `str | null`, got `int`",)]


def test_a_function_for_sql(spark: SparkSession, docs: DataFrame, served: Served) -> None:
    docs.where("text not like 'bad%'").createOrReplaceTempView("docs")
    spark.udf.register("upper_of", asking("upper", returns="answer string", broker=served.frontend))
    rows = spark.sql("SELECT id, upper_of(text) AS up, upper_of(concat('x', text)) AS xup FROM docs").collect()
    assert {(row.up, row.xup) for row in rows} == {(f"ROW {row.id}", f"XROW {row.id}") for row in rows}
    assert set(served.begun.values()) == {1}
    # Rows of equal bodies are one task; with a key, one task for each key. All of its columns come from one call.
    whole = asking("upper", outcomes=True, broker=served.frontend)
    pairs = docs.select(whole(F.lit("same"), "id").alias("whole")).select("whole.*")
    assert {row.outcome for row in pairs.collect()} == {"OK"}
    assert len(served.begun) == 2 * len(rows) + 40
    with pytest.raises(PythonException, match="upper: ERROR, ValueError: as you wish"):
        docs.select(asking("upper", broker=served.frontend)("text")).collect()


def sink(df: DataFrame, served: Served, **options: Any) -> None:
    writer = df.write.format("famulus").option("service", "upper").option("broker", served.frontend)
    writer.option("key", "id").options(**options).mode("append").save()


def test_a_sink(spark: SparkSession, docs: DataFrame, served: Served, tmp_path: Path) -> None:
    spark.dataSource.register(FamulusSink)
    # Spark looks for it in the session that was used last by this thread.
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]
    sink(docs.where("text not like 'bad%'"), served)
    assert sorted(served.begun.values()) == [1] * 36
    with pytest.raises(Exception, match=r"upper: of 40 rows 4 ERROR, 36 OK; for example ERROR, ValueError: as you"):
        sink(docs, served)
    failures = tmp_path / "failures"
    sink(docs, served, failures=str(failures))
    kept = spark.read.parquet(str(failures))
    assert kept.columns == ["id", "text", "outcome", "reason", "message_id", "took_ms"]
    assert sorted(row.id for row in kept.collect()) == [3, 13, 23, 33]
    with pytest.raises(Exception, match="option: there is no servce; there are service"):
        sink(docs, served, servce="upper")


def test_a_job_that_died_goes_on_with_its_checkpoint(docs: DataFrame, served: Served, tmp_path: Path) -> None:
    folder = str(tmp_path / "answers")
    options: dict[str, Any] = {"body": "text", "key": "id", "broker": served.frontend, "checkpoint": folder}
    with pytest.raises(PythonException, match="upper: ERROR"):
        ask(docs, "upper", fail_on=["ERROR"], **options)
    # Another driver and other partitions, in another order.
    again = docs.orderBy(F.desc("id")).repartition(3)
    answers = ask(again, "upper", **options)
    rows = answers.orderBy("id").collect()
    assert [row.outcome for row in rows].count("OK") == 36
    assert served.begun == dict.fromkeys((row.message_id for row in rows), 1)
    # All have an answer: nobody is asked any more, and no broker need be there.
    options["broker"] = "127.0.0.1:9"
    more = docs.withColumn("length", F.length("text"))
    assert ask(more, "upper", **options).orderBy("id").drop("length", "took_ms").collect() == (
        answers.orderBy("id").drop("took_ms").collect()
    )
    with pytest.raises(SettingsError, match="has other service, 'upper' instead of 'lower'"):
        ask(docs, "lower", **options)


def test_a_batch_that_a_streaming_query_repeats_has_one_effect(
    spark: SparkSession, docs: DataFrame, served: Served, tmp_path: Path
) -> None:
    docs.write.parquet(str(tmp_path / "docs"))
    stream = spark.readStream.schema(docs.schema).parquet(str(tmp_path / "docs"))
    broken = True

    def each_batch(batch: DataFrame, number: int) -> None:
        answers = ask(batch, "upper", body="text", key="id", broker=served.frontend)
        answers.write.mode("overwrite").parquet(str(tmp_path / f"batch-{number}"))
        if broken:
            raise ValueError("died before it was committed")

    writer = stream.writeStream.foreachBatch(each_batch).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    with pytest.raises(Exception, match="died before it was committed"):
        writer.start().awaitTermination()
    broken = False
    writer.start().awaitTermination()
    ids = [row.message_id for row in spark.read.parquet(str(tmp_path / "batch-0")).collect()]
    assert served.begun == dict.fromkeys(ids, 1)
    assert len(ids) == 40
    # Without foreachBatch it is the same, with the name of another query.
    answers = ask(stream, "upper", body="text", key="id", broker=served.frontend)
    query = answers.writeStream.format("memory").queryName("answers").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = spark.table("answers").collect()
    assert {row.message_id.partition(".")[0] for row in rows} == {query.id}
    assert sorted(served.begun.values()) == [1] * 80


def test_nothing_secret_is_in_the_plan(
    docs: DataFrame, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "a token that nobody should see"
    answers = ask(docs, "upper", body="text", key="id", pass_file="shop.pass", token=token, broker=served.frontend)
    answers.explain("extended")
    shown = capsys.readouterr().out
    assert "MapInArrow famulus(id#" in shown
    assert token not in shown
    assert "shop.pass" not in shown
    with pytest.raises(PythonException, match=r"pass_file: shop.pass was not sent to the executors"):
        answers.collect()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"body": "txt"}, "body: df has no column txt; did you mean text?"),
        ({"key": "number"}, "key: df has no column number; it has id, text"),
        ({"body": "id"}, 'the codec "bytes" takes one column of binary or string, not: id int64'),
        ({"key": None}, "key: say which column names a row"),
        ({"key": lambda: F.array("id")}, "key: famulus_key is list<"),
        ({"codec": "xml"}, "codec: must be one of bytes, json, arrow, not 'xml'"),
        ({"codec": "arrow"}, "returns: say which columns"),
        ({"rows_per_task": 10}, "codec: bytes are one row"),
        ({"returns": "answer strng"}, "returns: 'answer strng' is no schema"),
        ({"returns": "string"}, "returns: 'string' has no names; say \"answer string\""),
        ({"returns": "outcome string"}, "returns: outcome is a column of ours"),
        ({"returns": "text string"}, "df has columns text already"),
        ({"fail_on": ["WRONG"]}, "fail_on: knows ERROR, REJECTED, UNKNOWN, not WRONG"),
        ({"run": "x" * 200}, "run: a name has 1 to 95 characters, not 200"),
        ({"window": 0}, "window: must be 1 to 50000 tasks"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(docs: DataFrame, wrong: dict[str, Any], said: str) -> None:
    wrong = {name: value() if callable(value) else value for name, value in wrong.items()}
    with pytest.raises(SettingsError) as told:
        ask(docs, "upper", **({"body": "text", "key": "id"} | wrong))
    assert said in str(told.value)
