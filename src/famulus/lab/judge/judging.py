"""Makes a journal for each seed, and its tables by the pipeline as a user runs it, and compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import pyarrow.dataset as ds

from famulus.lab import synth
from famulus.lab.judge.expected import Named, findings_of, may_find
from famulus.lab.judge.plan import plan_for
from famulus.lab.judge.score import Judged, compare
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs
from famulus.tables.finding import FILE
from famulus.tables.reading import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judge(spark: SparkSession, seeds: Iterable[int], scratch: Path) -> Iterator[Judged]:
    """One journal after the other; what a seed has made is removed before the next one."""
    for seed in seeds:
        folder = scratch / f"seed-{seed}"
        planted = dict(synth.make(spark, folder / "journal", plan_for(seed)).planted)
        if burst := planted.get("error_burst"):
            planted["error_burst"] = burst | {"hour": count_failed(folder / "journal", burst["service"], burst["end"])}
        jobs.run(spark, Place(folder / "journal"), Place(folder / "tables"))
        yield compare(seed, findings_of(planted), named(folder / "tables"), may_find(planted))
        rmtree(folder)


def named(tables: Path) -> set[Named]:
    with (tables / FILE).open("rb") as file:
        return {Named(each.kind, each.subject) for each in read(file).rows}


def count_failed(journal: Path, service: str, until: str) -> tuple[int, int]:
    """How many tasks of a service failed within an hour, up to this instant, and of how many."""
    end = datetime.fromisoformat(until)
    tasks = ds.dataset(journal / "tasks", format="parquet")
    ended = (
        (ds.field("service") == service) & (ds.field("ended") >= end - timedelta(hours=1)) & (ds.field("ended") < end)
    )
    failed = ds.field("outcome").isin(["ERROR", "UNKNOWN"])
    return int(tasks.count_rows(filter=ended & failed)), int(tasks.count_rows(filter=ended))
