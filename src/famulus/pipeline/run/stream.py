"""Follows the journal: whenever files come, the same job as in a single run makes the hours that they touch.

Spark's stream only tells which files are new, by their names and without opening them: so a bad one stops nothing. Its
checkpoint is kept with the tables. Only the state of the job says what is in the tables. So `run` may be used in
between, and a stream that died or is started again does nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final
from urllib.parse import unquote

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from famulus.errors import FamulusError
from famulus.pipeline.io import source
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs, state
from famulus.pipeline.run.progress import RunSummary, Tell, silent
from famulus.pipeline.tables.table import Table

CHECKPOINT: Final = "_state/follow"
#: At most this many in one go, so that the staging area stays bounded.
FILES_MAX: Final = 10_000
#: Files older than this, relative to the newest one seen, are left to `run`: the stream remembers names only so long.
AGE_MAX: Final = "60d"
#: How often to check whether the stream has ended or is to be stopped.
POLL_S: Final = 0.5


@dataclass
class Follower:
    """One stream over one journal."""

    spark: SparkSession
    journal: Place
    tables: Place
    _: KW_ONLY
    registry: Sequence[Table] | None = None
    tell: Tell = silent
    done: Callable[[RunSummary], None]
    files_max: int = FILES_MAX
    _busy: threading.Lock = field(default_factory=threading.Lock, init=False)
    _error: FamulusError | None = field(default=None, init=False)

    def follow(self, *, every_s: float, once: bool, stop: threading.Event) -> None:
        """Until `stop` is set; `once`: until everything that is there now is done."""
        source.found_in(self.journal)
        if state.load(self.tables).number == 0:
            # Tables that were removed have to be made from files that an old stream had seen.
            self.tables.remove_folder(CHECKPOINT)
        # What could not be read last time is in no batch of the stream.
        self._run(())
        query = self._start(every_s, once=once)
        try:
            while query.isActive and not stop.is_set():
                query.awaitTermination(POLL_S)  # type: ignore[arg-type]
        except StreamingQueryException:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            # Between two batches: one that was cut short would be done again, but there is no need for that.
            with self._busy:
                query.stop()

    def _start(self, every_s: float, *, once: bool) -> StreamingQuery:
        names = (
            self.spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length long, content binary")
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", self.files_max)
            .option("maxFileAge", AGE_MAX)
            .load(self.journal.uri())
            # Only what is selected is read: the content is not.
            .select("path")
        )
        writer = (
            names.writeStream.foreachBatch(self._batch)
            .queryName("famulus-follow")
            .option("checkpointLocation", self.tables.uri(CHECKPOINT))
        )
        started = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
        return started.start()

    def _batch(self, names: DataFrame, _: int) -> None:
        with self._busy:
            try:
                # Bounded by FILES_MAX.
                self._run(tuple(row.path for row in names.collect()))
            except FamulusError as error:
                # Spark would turn it into text.
                self._error = error
                raise

    def _run(self, full_names: Sequence[str]) -> None:
        summary = jobs.run(
            self.spark,
            self.journal,
            self.tables,
            registry=self.registry,
            only=[path for name in full_names for path in paths_of(name)],
            tell=self.tell,
        )
        self.done(summary)


def paths_of(name: str) -> list[str]:
    """The path below the journal, for a name as Spark gives it.

    Some versions encode once more what the journal has encoded in a name. A name that no file has does no harm.
    """
    inside = "/".join(name.split("/")[-4:])
    return sorted({inside, unquote(inside)})
