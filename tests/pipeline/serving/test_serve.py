"""Spark as a worker: a real broker, and one Spark session for all of these."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.pipeline.serving.conftest import START_QUICKLY, START_S
from tests.processes.conftest import BrokerProcess, Process, brokers, processes, wait_until
from tests.processes.ports import free_ports

from famulus import Client, TaskError, Unknown
from famulus.errors import OutcomeError, SettingsError
from famulus.lab.bench.spark_worker import lengths, same
from famulus.spark.rows import NO_ROW, SEVERAL_ROWS
from famulus.spark.serving import SparkService
from famulus.testing.running_broker import RunningBroker

__all__ = ["brokers", "processes"]
#: Long enough for a machine that others use as well.
LONG_S = 120.0


def text(name: str = "body") -> Any:
    return F.decode(name, "UTF-8")


def judged(tasks: DataFrame) -> DataFrame:
    """What the body says."""
    body = text()
    rows = tasks.where(body != "missing").select(
        "message_id",
        F.when(body != "wrong", F.upper(F.concat(body, F.coalesce(F.col("headers")["mark"], F.lit(""))))).alias(
            "answer"
        ),
        F.when(body == "wrong", "no_model: there is none").alias("error"),
        F.when(body == "broken", F.raise_error(F.lit("it is broken"))).alias("ignored"),
    )
    return rows.union(rows.where("answer = 'TWICE'")).where("ignored IS NULL")


class Scene:
    """A service with this function at this broker, and a client of it."""

    def __init__(self, service: SparkService, client: Client) -> None:
        self.service = service
        self.client = client

    def reason(self, body: str, **more: Any) -> str:
        with pytest.raises(OutcomeError) as raised:
            self.client.request("score", body, **more)
        return raised.value.reason


@pytest.fixture
def serving(spark: SparkSession, broker: RunningBroker) -> Callable[..., Any]:
    @contextmanager
    def serve(function: Callable[[DataFrame], DataFrame], *, at: Any = broker, **settings: Any) -> Iterator[Scene]:
        service = SparkService(spark, "score", function, **{"max_wait_ms": 50, "rows_per_batch": 100} | settings)
        with service.worker.started(at.backend, timeout=LONG_S), Client(at.frontend, timeout=LONG_S) as client:
            yield Scene(service, client)

    return serve


def test_columns_instead_of_bodies(serving: Any) -> None:
    def double(tasks: DataFrame) -> DataFrame:
        return tasks.select("message_id", (F.col("a") * 2).alias("twice"), F.col("headers")["mark"].alias("mark"))

    with serving(double, takes="a double", returns="twice double, mark string") as scene:
        assert scene.client.call("score", a=1.5, headers={"mark": "x"}) == {"twice": 3.0, "mark": "x"}
        # There is nothing to make a job of.
        assert scene.reason("one").startswith("bad_arguments: the body ")


class Gate:
    """A function that says when it is called, and waits until it is let through."""

    def __init__(self, then: Callable[[DataFrame], DataFrame]) -> None:
        self._then = then
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.bodies: list[str] = []

    def __call__(self, tasks: DataFrame) -> DataFrame:
        self.bodies += [row.body for row in tasks.select(text().alias("body")).collect()]
        self.entered.set()
        assert self.opened.wait(LONG_S)
        return self._then(tasks)


def test_each_task_of_a_job_has_its_own_outcome(serving: Any) -> None:
    with serving(judged) as scene:
        bodies = ["one", "missing", "twice", "wrong", "two"]
        answers = list(scene.client.map("score", bodies, errors="return", headers={"mark": "!"}))
    told = [each.reason if isinstance(each, TaskError) else each for each in answers]
    assert told == [b"ONE!", NO_ROW, b"TWICE!", "no_model: there is none", b"TWO!"]


def test_a_row_that_comes_twice_is_one_error(serving: Any) -> None:
    with serving(judged) as scene:
        assert scene.reason("twice") == SEVERAL_ROWS
        assert scene.client.request("score", "once") == b"ONCE"


def test_a_failed_job_fails_its_tasks_and_not_the_worker(serving: Any, caplog: pytest.LogCaptureFixture) -> None:
    with serving(judged) as scene, caplog.at_level(logging.ERROR, "famulus.spark"):
        answers = list(scene.client.map("score", ["broken", "fine"], errors="return"))
        assert {each.reason if isinstance(each, TaskError) else each for each in answers} <= {
            "SparkRuntimeException: it is broken",
            b"FINE",  # if it was in a job of its own
        }
        assert answers[0].reason == "SparkRuntimeException: it is broken"
        assert scene.client.request("score", "again") == b"AGAIN"
    # The client is told in a line, and the log has the rest, once for each job.
    (record,) = [each for each in caplog.records if each.name == "famulus.spark"]
    assert record.exc_info is not None
    assert "the first of them" in record.getMessage()


def test_whatever_is_wrong_with_the_result_is_said(serving: Any) -> None:
    results: list[Any] = [7, lambda tasks: tasks.select("message_id"), lambda tasks: tasks.select("nothing")]
    reasons = []
    with serving(lambda tasks: results[0](tasks) if callable(results[0]) else results[0]) as scene:
        while results:
            reasons.append(scene.reason("x"))
            del results[0]
    assert reasons[0] == "SparkError: the function returns a DataFrame, not int"
    assert reasons[1].startswith("SparkError: the result needs the columns message_id, answer, or error")
    assert "`nothing` cannot be resolved" in reasons[2]


def test_a_task_whose_time_is_over_is_not_begun_and_no_job_delays_a_heartbeat(serving: Any) -> None:
    gate = Gate(judged)
    with serving(gate, slots=200) as scene:
        first = scene.client.submit("score", b"first")
        assert gate.entered.wait(LONG_S)
        # It waits for the job of the first one, which takes longer than three heartbeats.
        late = scene.client.submit("score", b"late", timeout=1.2)
        with pytest.raises(OutcomeError, match="expired"):
            late.result(LONG_S)
        gate.opened.set()
        assert first.result(LONG_S) == b"FIRST"
        assert scene.client.request("score", "third") == b"THIRD"
    assert gate.bodies == ["first", "third"]


def test_several_jobs_run_at_the_same_time(serving: Any) -> None:
    both = threading.Barrier(2, timeout=LONG_S)

    def together(tasks: DataFrame) -> DataFrame:
        both.wait()
        return judged(tasks)

    with serving(together, rows_per_batch=1, slots=3) as scene:
        assert list(scene.client.map("score", ["a", "b"])) == [b"A", b"B"]


def endless(tasks: DataFrame) -> DataFrame:
    numbers = tasks.sparkSession.range(0, 10**15, 1, 1).agg(F.max(F.hash("id")).alias("most"))
    return tasks.crossJoin(numbers).select("message_id", F.col("most").cast("string").alias("answer"))


def test_a_job_that_nobody_waits_for_is_cancelled(spark: SparkSession, serving: Any) -> None:
    tracker = spark.sparkContext.statusTracker()

    def run() -> bool:
        return bool(tracker.getActiveJobsIds())

    with serving(endless) as scene:
        with pytest.raises(Unknown):
            scene.client.request("score", "its time is over", timeout=2.0)
        wait_until(lambda: not run(), LONG_S, "the end of the job")
        given_up = scene.client.submit("score", b"cancelled")
        wait_until(run, LONG_S, "the job")
        given_up.cancel()
        wait_until(lambda: not run(), LONG_S, "the end of the job")
    with serving(endless, time_limit_s=1.0) as scene:
        assert scene.reason("too long").startswith("time_limit")
        wait_until(lambda: not run(), LONG_S, "the end of the job")


def test_what_runs_may_finish_when_it_drains(serving: Any) -> None:
    gate = Gate(judged)
    with serving(gate, slots=200) as scene:
        running = scene.client.submit("score", b"running")
        assert gate.entered.wait(LONG_S)
        waiting = scene.client.submit("score", b"waiting")
        wait_until(lambda: scene.service.worker._shift.running == 2, LONG_S, "both tasks there")
        scene.service.worker.stop()
        gate.opened.set()
        assert [each.result(LONG_S) for each in (running, waiting)] == [b"RUNNING", b"WAITING"]


def test_a_broker_that_is_started_again_gets_its_worker_back(
    serving: Any, brokers: Callable[..., BrokerProcess]
) -> None:
    frontend, backend = free_ports(2)
    flags = ("--frontend-port", str(frontend), "--backend-port", str(backend))
    broker = brokers(*flags)
    with serving(judged, at=broker) as scene:
        assert scene.client.request("score", "before") == b"BEFORE"
        assert broker.stop() == 0
        brokers(*flags)
        assert scene.client.request("score", "after") == b"AFTER"


def test_wrong_settings_are_said_at_once(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="work is done by Spark"):
        SparkService(spark, "score", judged, processes=2)
    with pytest.raises(SettingsError, match="slots: 50 are too few"):
        SparkService(spark, "score", judged, slots=50)


@pytest.mark.parametrize(("function", "answer"), [(lengths, b"5"), (same, b"hello")])
def test_what_the_bench_serves(serving: Any, function: Callable[[DataFrame], DataFrame], answer: bytes) -> None:
    with serving(function) as scene:
        assert scene.client.request("score", "hello") == answer


PAGE = (Path(__file__).parents[3] / "docs" / "spark-worker.md").read_text("utf-8")


def file_of(name: str) -> str:
    """As the page has it."""
    return PAGE.partition(f"# {name}\n")[2].partition("```")[0]


def test_the_program_of_the_docs(serving: Any) -> None:
    program: dict[str, Any] = {}
    exec(file_of("scoring_program.py"), program)
    with serving(program["upper"]) as scene:
        assert scene.client.request("score", "hello") == b"HELLO"


SLOW = """

RATE = F.lit(0.5)  # needs a session already


def slowly(batches):
    import time

    for batch in batches:
        time.sleep(0.5)
        yield batch


def slow_score(points):
    return score(points).mapInArrow(slowly, "message_id string, score double")
"""


def test_the_command_serves_and_drains_on_sigterm(
    broker: RunningBroker, processes: Callable[..., Process], tmp_path: Path
) -> None:
    """The command of the docs, but slower."""
    narrow = file_of("scoring.py").replace('F.col("b") * 0.25)', 'F.col("b") * 0.25).select("message_id", "score")')
    (tmp_path / "scoring.py").write_text(narrow + SLOW)
    (command,) = re.findall(r"^\./famulus (worker --spark .*)$", PAGE, re.MULTILINE)
    words = shlex.split(command.replace("scoring:score", "scoring:slow_score"))
    few = ("--master", "local[1]", "--max-wait-ms", "10", "--rows-per-batch", "100", *START_QUICKLY)
    worker = processes(sys.executable, "-m", "famulus", *words, *few, "--broker", broker.backend, cwd=tmp_path)
    worker.wait_for_line(r"worker .* is ready: ", START_S)
    (call,) = re.findall(r"^\./famulus call score '(.*)'$", PAGE, re.MULTILINE)
    with broker.client(timeout=LONG_S) as client:
        assert client.request("score", call) == b"1.0"
        running = [client.submit("score", call, retry=None) for _ in range(10)]
        os.kill(worker.pid, signal.SIGTERM)
        outcomes = [each.exception(LONG_S) for each in running]
    assert worker.wait(LONG_S) == 0, worker.output
    # Those that had not come yet provably did not run.
    assert all(each is None or getattr(each, "outcome", "") == "REJECTED" for each in outcomes), outcomes
