"""The same tables on a cluster as on one machine. Each starts several JVMs, so they are among the longer runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.longer import longer
from tests.pipeline.jobs.conftest import Journal, Tables
from tests.pipeline.jobs.toy_run import ON_CLUSTERS

from famulus.pipeline.run import java, jobs
from famulus.pipeline.tables.table import Table

pytestmark = [longer, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[3]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
LIMIT_S = 300


@pytest.fixture
def env() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    here = {"PYTHONPATH": path, "JAVA_HOME": str(java.find().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **here, "PYSPARK_PYTHON": sys.executable}


@pytest.fixture
def standalone(env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """A master and two workers, as they come with PySpark."""

    def start(name: str, kind: str, *arguments: str) -> Path:
        said = tmp_path / f"{name}.log"
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *arguments]
        with said.open("wb") as output:
            process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        closing.callback(process.wait)
        closing.callback(process.kill)
        return said

    with ExitStack() as closing:
        said = start("master", "master.Master", "--port", "0", "--webui-port", "0")
        url = _wait_for(said, "Starting Spark master at ").split()[0]
        for name in ("one", "two"):
            folder = str(tmp_path / name)
            said = start(name, "worker.Worker", "-c", "1", "-m", "1g", "-d", folder, "--webui-port", "0", url)
            _wait_for(said, "Successfully registered with master")
        yield url


def _wait_for(said: Path, words: str) -> str:
    """What follows them."""
    until = time.monotonic() + LIMIT_S
    while words not in (text := said.read_text()):
        assert time.monotonic() < until, text
        time.sleep(0.1)
    return text.partition(words)[2].strip()


def check(
    master: str, spark: SparkSession, journal: Journal, toys: list[Table], env: dict[str, str], folder: Path
) -> None:
    for hour in range(4):
        journal.write(journal.tasks(hour, 100 * hour), 1)
    far, near = Tables(folder / "far"), Tables(folder / "near")
    script = Path(__file__).with_name("toy_run.py")
    ran = subprocess.run(
        [sys.executable, str(script), str(journal.folder), str(far.folder), master],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    jobs.run(spark, journal.place, near.place, registry=[*toys, *ON_CLUSTERS])
    assert far.all() == near.all()
    assert len(far.rows("toy_tasks")) == 120


def test_on_a_local_cluster(
    spark: SparkSession, journal: Journal, toys: list[Table], env: dict[str, str], tmp_path: Path
) -> None:
    check("local-cluster[2,1,1024]", spark, journal, toys, env, tmp_path)


def test_on_a_standalone_master_with_two_workers(
    standalone: str, spark: SparkSession, journal: Journal, toys: list[Table], env: dict[str, str], tmp_path: Path
) -> None:
    check(standalone, spark, journal, toys, env, tmp_path)
