"""`ask`: columns of a DataFrame that a service computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Unpack

from famulus.errors import SettingsError
from famulus.spark.checkpoint import ask_saving
from famulus.spark.codecs import CodecName
from famulus.spark.options import Chosen, Options, arrow_schema, terms_of, with_answers
from famulus.spark.partition import answered
from famulus.spark.run import application_of
from famulus.spark.task_ids import check_key
from famulus.spark.terms import OUTCOME_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def ask(
    df: DataFrame,
    service: str,
    *,
    body: str | Sequence[str] | Column,
    key: str | Sequence[str] | Column | None = None,
    codec: CodecName = "bytes",
    returns: StructType | str | None = None,
    rows_per_task: int = 1,
    checkpoint: str | None = None,
    **options: Unpack[Options],
) -> DataFrame:
    """Ask a service for each row: gives the columns of df, the answer, its outcome, reason, message_id and took_ms.

    ask(df, "embed", body="text", key="id", timeout_s=30)
    ask(df, "score", body=["a", "b"], key="id", codec="arrow", rows_per_task=1000, returns="score double")

    A row that Spark computes twice is one task, by its key. Outcomes are columns; those in fail_on fail the job. With
    a checkpoint, a folder, the rows are asked for at once, and a job that died asks only for those without an answer.

    options: timeout_s, window (tasks of a partition that are open at once), priority, at_least_once, idempotent,
    headers, fail_on, run (a name for whoever goes on with it later), counts, broker, pass_file, token.
    """
    chosen, place = _choose(df, body, key)
    terms = terms_of(
        application_of(df.sparkSession),
        service,
        place,
        codec_name=codec,
        returns=returns,
        rows_per_task=rows_per_task,
        options=options,
    )
    new = [*terms.answer_schema.names, *OUTCOME_COLUMNS.names]
    if taken := [name for name in df.columns if name in new]:
        raise SettingsError(f"df has columns {', '.join(taken)} already, as the answers have: drop or rename them")
    if checkpoint is not None:
        return ask_saving(chosen, terms, checkpoint)

    def famulus(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return answered(terms, batches)

    return chosen.mapInArrow(famulus, with_answers(chosen.schema.fields[: terms.kept], terms))


def _choose(
    df: DataFrame, body: str | Sequence[str] | Column, key: str | Sequence[str] | Column | None
) -> tuple[DataFrame, Chosen]:
    """The columns of df, then those of body and key that are not among them."""
    kept = len(df.columns)
    chosen = df
    places: list[tuple[int, ...]] = []
    for what, said in (("body", body), ("key", key)):
        if said is None:
            places.append(())
        elif isinstance(said, str):
            places.append((_place(df, what, said),))
        elif isinstance(said, Sequence):
            places.append(tuple(_place(df, what, name) for name in said))
        else:
            places.append((len(chosen.columns),))
            chosen = chosen.withColumn(f"famulus_{what}", said)
    from pyspark.sql.types import StructType

    fields = chosen.schema.fields
    for place in places[1]:
        check_key(fields[place].name, arrow_schema(StructType([fields[place]])).types[0])
    body_schema = arrow_schema(StructType([fields[place] for place in places[0]]))
    return chosen, Chosen(places[0], places[1], kept, body_schema)


def _place(df: DataFrame, what: str, name: str) -> int:
    if name in df.columns:
        return df.columns.index(name)
    close = get_close_matches(name, df.columns, 1)
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(df.columns)}"
    raise SettingsError(f"{what}: df has no column {name}; {hint}")
