"""The examples of the page on Spark, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.spark.conftest import Served

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


def test_the_examples_work(
    spark: SparkSession,
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # As spark.executorEnv does at the start of a session.
    monkeypatch.setitem(spark.sparkContext.environment, "FAMULUS_FRONTEND", served.frontend)
    names: dict[str, Any] = {"spark": spark}
    worker, *examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(worker, "texts.py", "exec"), names)
    spark.createDataFrame([(1, "one")], "id bigint, text string").write.parquet(str(tmp_path / "incoming"))
    with names["worker"].started(served.broker.backend):
        for example in examples:
            # The Java of this session has a folder of its own.
            here = re.sub(r'"(incoming|answers/{number}|state|length-answers|lengths)"', rf'"{tmp_path}/\1"', example)
            exec(compile(here, str(PAGE), "exec"), names)
    assert [(row.id, row.answer) for row in names["answers"].orderBy("id").collect()] == [(1, "3"), (2, "3"), (3, "5")]
    assert names["sums"].agg({"sum": "sum"}).collect() == [(65,)]
    assert {row.outcome for row in names["scores"].collect()} == {"OK"}
    assert "3 asked, 3 answered, 0 retried, 0 refused" in capsys.readouterr().out
