"""A run of the toy tables as a process of its own, which tells each step, so that a test can kill it at one of them.

With the port and the secret of a JVM in its environment (PYSPARK_GATEWAY_PORT, PYSPARK_GATEWAY_SECRET) it works in
that one, instead of one of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from tests.pipeline.conftest import QUICK
from tests.pipeline.jobs.conftest import toy_registry

from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs
from famulus.pipeline.run.progress import ProgressStep
from famulus.pipeline.run.session import session
from famulus.pipeline.tables import TABLES, hourly

#: Tables that executors compute in part without Spark.
ON_CLUSTERS = [TABLES["task_facts"], TABLES["service_minutes"]]


def tell(step: ProgressStep) -> None:
    say(f"{step.what} {step.table} {'done' if step.done else ''}")


def say(text: str) -> None:
    # The answer is waited for: so the test decides what happens while the run stands exactly here.
    print(text, flush=True)
    sys.stdin.readline()


class Told(Place):
    """Says what it is about to replace, when the new file is written."""

    def settle(self, source: str, target: str) -> None:
        if not target.startswith("_"):
            say(f"settle {target}")
        super().settle(source, target)


@contextmanager
def open_elsewhere() -> Iterator[SparkSession]:
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    java = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(
        gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    context = SparkContext(conf=SparkConf(_jconf=java.getConf()), jsc=java, gateway=gateway)
    # With settings of its own, which die with it. It is not closed at the end, as the JVM is another's.
    yield SparkSession(context).newSession()


def main(journal: str, tables: str, master: str = "local[1]") -> None:
    own = session(master, heap_mib=512, more=QUICK, archive=False, brief=True)
    found = open_elsewhere() if "PYSPARK_GATEWAY_PORT" in os.environ else own
    with pytest.MonkeyPatch.context() as patch, found as spark:
        registry = toy_registry(patch)
        if not master.startswith("local["):
            # Executors read the journal themselves, as they would with many rows.
            patch.setattr(hourly, "ROWS_HERE", 0)
            registry += ON_CLUSTERS
        jobs.run(spark, Place(journal), Told(tables), registry=registry, tell=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
