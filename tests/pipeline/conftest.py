"""One Spark session for all tests of the pipeline: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from famulus.pipeline.run.session import session
from famulus.pipeline.tables.scale import GIVEN

HERE = Path(__file__).parent
#: As the commands have it, save for what is quicker with few rows.
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    # A few rows are computed long before code for them would be compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # Before those of the session, which name the archive of Java's classes if a command has made one.
    "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a machine that others use as well, the first query alone can take minutes."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session("local[2]", heap_mib=1024, more=QUICK, archive=False, brief=True) as spark:
        # Nobody's wish: at each scale the settings are those of the commands.
        spark.conf.set(GIVEN, "")
        yield spark
