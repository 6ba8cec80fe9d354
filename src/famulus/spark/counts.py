"""How far a job has got with asking, as accumulators of Spark: executors add, the driver reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession


class AskCounts:
    """What became of the tasks of one `ask`, or of several that share it.

    counts = AskCounts(spark)
    ask(df, "embed", body="text", key="id", counts=counts).write.parquet("answers")
    print(counts)

    A number grows when a Spark task has ended. Spark counts what it computes twice twice.
    """

    def __init__(self, spark: SparkSession) -> None:
        try:
            context = spark.sparkContext
        except Exception:
            raise SettingsError("counts: Spark Connect has no accumulators; count the outcomes instead") from None
        self._asked: Accumulator[int] = context.accumulator(0)
        self._answered: Accumulator[int] = context.accumulator(0)
        self._retried: Accumulator[int] = context.accumulator(0)
        self._refused: Accumulator[int] = context.accumulator(0)

    @property
    def asked(self) -> int:
        """Tasks that were sent."""
        return self._asked.value

    @property
    def answered(self) -> int:
        """Tasks with an answer: OK or ERROR."""
        return self._answered.value

    @property
    def retried(self) -> int:
        """How often one was sent again."""
        return self._retried.value

    @property
    def refused(self) -> int:
        """Tasks that ended as REJECTED."""
        return self._refused.value

    def __str__(self) -> str:
        return f"{self.asked} asked, {self.answered} answered, {self.retried} retried, {self.refused} refused"

    def add(self, asked: int, answered: int, retried: int, refused: int) -> None:
        """On an executor."""
        self._asked += asked
        self._answered += answered
        self._retried += retried
        self._refused += refused
