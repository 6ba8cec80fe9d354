"""The name of a run: how the ids of its tasks begin, and by which token brokers know them again."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from famulus.errors import SettingsError
from famulus.spark.task_ids import RUN_CHARS_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of this driver: whatever is not asked on behalf of a run with a name.
_OURS: Final = token_hex(16)


@dataclass(frozen=True)
class NamedRun:
    """A run as an executor knows it."""

    name: str
    token: str = field(repr=False)
    #: Of a streaming query: the batch. The same keys in the next batch are other tasks.
    batch: str = ""


@dataclass(frozen=True)
class AskingRun:
    """A run as the driver knows it: with the name that its caller gave, or one that nobody else has."""

    given: str
    made: str
    token: str = field(repr=False)
    made_token: str = field(repr=False)

    def here(self) -> NamedRun:
        """On an executor, in a task of Spark."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        if context is None or query is None:
            name = self.given or self.made
            return NamedRun(name, self.token or (_token_of(name) if self.given else self.made_token))
        # The query keeps its id when it is started again.
        name = self.given or query
        return NamedRun(name, self.token or _token_of(name), str(context.getLocalProperty("streaming.sql.batchId")))


def new_run(application: str, given: str | None, token: str | None) -> AskingRun:
    """`given` is what its caller calls it; else it is named after the application."""
    if given is not None and not 0 < len(given) <= RUN_CHARS_MAX:
        raise SettingsError(f"run: a name has 1 to {RUN_CHARS_MAX} characters, not {len(given)}")
    return AskingRun(given or "", f"{application}-{token_hex(4)}"[-RUN_CHARS_MAX:], token or "", _OURS)


def application_of(spark: SparkSession) -> str:
    return spark.conf.get("spark.app.id", None) or "spark"


def _token_of(name: str) -> str:
    """So that whoever goes on with a run finds what was answered before."""
    return sha256(f"famulus.spark {name}".encode()).hexdigest()
