"""Follows the journal: whenever files come, the same job as in a single run makes the hours that they touch.

Whole tables look back further than that, and so take longer: they are made on a slower clock. `run` may be used in
between, and whoever is started again does nothing twice: the state of the tables says what is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from pyspark.sql import SparkSession

from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs
from famulus.pipeline.run.progress import RunSummary, Tell, silent
from famulus.pipeline.tables.table import Table

#: At most this many in one go, so that the staging area stays bounded.
FILES_MAX: Final = 10_000


@dataclass
class Follower:
    """Of one journal."""

    spark: SparkSession
    journal: Place
    tables: Place
    _: KW_ONLY
    registry: Sequence[Table] | None = None
    tell: Tell = silent
    done: Callable[[RunSummary], None]
    files_max: int = FILES_MAX

    def follow(self, *, every_s: float, whole_every_s: float, once: bool, stop: threading.Event) -> None:
        """Until `stop` is set; `once`: until everything that is there now is done."""
        due_s = time.monotonic()
        while not stop.is_set():
            began_s = time.monotonic()
            is_due = once or began_s >= due_s
            summary = self._run(whole=is_due)
            if is_due and not summary.stale:
                due_s = began_s + whole_every_s
            self.done(summary)
            if summary.more:
                continue
            if once:
                break
            stop.wait(max(0.0, every_s - (time.monotonic() - began_s)))

    def _run(self, *, whole: bool) -> RunSummary:
        return jobs.run(
            self.spark,
            self.journal,
            self.tables,
            registry=self.registry,
            whole=whole,
            tell=self.tell,
            files_max=self.files_max,
        )
