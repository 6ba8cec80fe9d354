"""`famulus bench spark`: rows of a DataFrame as tasks, beside a client's `map`, with what Spark itself takes apart.

All sides share a broker, an echo worker and a session of Spark, and take turns. Beside each `ask` the same plan is run
with a function in its place that gives the rows back with as many columns and asks nobody; and a client without Spark
sends bodies of as many rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from famulus import Client
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import Crew
from famulus.pipeline.run.session import session
from famulus.spark import ask
from famulus.spark.codecs import codec
from famulus.spark.partition import OPEN_BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODY_BYTES = 100
SERVICE = "echo"
MAP_IDS = "map 1 with ids"
#: One row per task, which brokers name: running it twice does no harm.
NO_KEY = "ask 1, no key"


@dataclass(frozen=True, slots=True)
class Plan:
    rows: int = 100_000
    many_rows: int = 1_000_000
    sizes: tuple[int, ...] = (1, 100, 1000)
    window: int = 1000
    partitions: int = 2
    rounds: int = 3

    def rows_of(self, size: int) -> int:
        """So many that each side takes some seconds."""
        return self.rows if size == 1 else min(self.many_rows, self.rows * size)


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    sides = [MAP_IDS, NO_KEY]
    for size in plan.sizes:
        sides += mapping(size), asking(size), nothing(size)
    with Crew() as crew, session(f"local[{plan.partitions}]", archive=False) as spark:
        address = crew.echo_broker(plan.window * plan.partitions).frontend
        work = Sides(plan, spark, address)
        for side in sides:
            work.warm_up(side)
        seen = in_turn(sides, plan.rounds, work.one_round, progress)
    return {"net": _net(plan, seen["medians"]), **seen}


def mapping(size: int) -> str:
    return f"map {size}"


def asking(size: int) -> str:
    return f"ask {size}"


def nothing(size: int) -> str:
    return f"nothing {size}"


def _net(plan: Plan, medians: dict[str, Figures]) -> dict[str, Figures]:
    """Rows per second once Spark's own time is taken off, if that leaves any, and their ratio to the `map` of the same
    tasks."""
    found = {}
    sides = [(asking(size), MAP_IDS if size == 1 else mapping(size), size) for size in plan.sizes]
    for side, native, size in [(NO_KEY, mapping(1), 1), *sides]:
        seconds = medians[side]["seconds"] - medians[nothing(size)]["seconds"]
        if seconds > 0:
            per_s = plan.rows_of(size) / seconds
            found[side] = {"per_s": per_s, "of_map": per_s / medians[native]["per_s"]}
    return found


class Sides:
    def __init__(self, plan: Plan, spark: SparkSession, address: str) -> None:
        self._plan = plan
        self._spark = spark
        self._address = address

    def warm_up(self, side: str) -> None:
        self._run(side, min(self._plan.rows, 2000))

    def one_round(self, side: str) -> Figures:
        rows = self._plan.rows_of(_size(side))
        started = time.perf_counter()
        self._run(side, rows)
        seconds = time.perf_counter() - started
        return {"per_s": rows / seconds, "seconds": seconds}

    def _run(self, side: str, rows: int) -> None:
        if side == MAP_IDS:
            self._map(rows, 1, with_ids=True)
        elif side == mapping(_size(side)):
            self._map(rows, _size(side))
        else:
            self._frame(side, rows).write.format("noop").mode("overwrite").save()

    def _map(self, rows: int, size: int, *, with_ids: bool = False) -> None:
        body = b"x" * BODY_BYTES
        if size > 1:
            many = pa.record_batch({"answer": [body.decode()] * size})
            body = codec("arrow", many.schema).encode(many)
        tasks = rows // size
        ids = (f"bench-0123456789abcdef.{number:032x}" for number in range(tasks)) if with_ids else None
        # What Spark has open: a window in each partition, and so many bytes.
        window = self._plan.partitions * min(self._plan.window, max(1, OPEN_BYTES_MAX // len(body)))
        with Client(self._address) as client:
            for _ in client.map(SERVICE, repeat(body, tasks), window=window, message_ids=ids):
                pass

    def _frame(self, side: str, rows: int) -> DataFrame:
        from pyspark.sql import functions as F

        data = F.rpad(F.col("id").cast("string"), BODY_BYTES, "x").alias("data")
        df = self._spark.range(0, rows, 1, self._plan.partitions).select("id", data)
        if side == NO_KEY:
            return self._asking(df, 1, idempotent=True)
        size = _size(side)
        if side == asking(size):
            return self._asking(df, size, key="id")
        more = "answer string, outcome string, reason string, message_id string, took_ms bigint"
        return df.mapInArrow(_nothing, f"id bigint, data string, {more}")

    def _asking(self, df: DataFrame, size: int, **options: Any) -> DataFrame:
        from pyspark.sql import functions as F

        options |= {"broker": self._address, "window": self._plan.window}
        if size == 1:
            return ask(df, SERVICE, body="data", returns="answer string", **options)
        options |= {"codec": "arrow", "rows_per_task": size, "returns": "answer string"}
        return ask(df, SERVICE, body=F.struct(F.col("data").alias("answer")), **options)


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What an answer adds, without asking for it."""
    for batch in batches:
        rows = batch.num_rows
        texts = {"outcome": "OK", "reason": None, "message_id": "bench-0123456789abcdef." + 32 * "0"}
        columns = [pa.repeat(pa.scalar(text, pa.string()), rows) for text in texts.values()]
        took = pa.repeat(0, rows)
        names = ["id", "data", "answer", *texts, "took_ms"]
        yield pa.record_batch([*batch.columns, batch.column(1), *columns, took], names=names)


def _size(side: str) -> int:
    return int(side.split()[1].rstrip(","))
