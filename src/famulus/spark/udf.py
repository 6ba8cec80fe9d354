"""`asking`: a function for SQL and for columns, which asks a service."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from famulus.spark.codecs import CodecName
from famulus.spark.options import Chosen, Options, terms_of, with_answers
from famulus.spark.partition import answered
from famulus.spark.run import application_of
from famulus.spark.terms import Terms

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_NOT_OK = ("ERROR", "REJECTED", "UNKNOWN")


def asking(
    service: str,
    *,
    codec: CodecName = "bytes",
    returns: StructType | str | None = None,
    outcomes: bool = False,
    **options: Unpack[Options],
) -> Any:
    """A function of one column, the body, or of two, the body and a key, that gives the answer.

    spark.udf.register("embed", asking("embed", returns="vector array<float>", codec="json"))
    spark.sql("SELECT id, embed(text) FROM docs")

    Rows of equal bodies are one task; with a key, rows of equal keys. A row that does not end as OK fails the job. With
    outcomes=True the function gives a struct of the answer, outcome, reason, message_id and took_ms instead.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.functions import arrow_udf

    if not outcomes:
        options.setdefault("fail_on", _NOT_OK)
    terms = terms_of(
        application_of(SparkSession.active()),
        service,
        Chosen(body=(0,), key=(0,), kept=0, body_schema=None, keys_differ=False),
        codec_name=codec,
        returns=returns,
        rows_per_task=1,
        options=options,
    )
    kind = with_answers([], terms)
    if not outcomes:
        kind = type(kind)(kind.fields[: len(terms.answer_schema)])
    is_struct = len(kind) > 1

    def famulus(columns: Iterator[Any]) -> Iterator[pa.Array]:
        for rows in _answered(terms, columns):
            part = rows.select(list(range(len(kind))))
            yield part.to_struct_array() if is_struct else part.column(0)

    famulus.__name__ = famulus.__qualname__ = service
    # By these Spark sees that it takes and gives columns, batch by batch; as texts they would mean nothing to it.
    famulus.__annotations__ = {"columns": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    function: Any = arrow_udf  # whose stubs know few types of results
    asked = function(famulus, kind if is_struct else kind[0].dataType)
    # Otherwise Spark may call it once for each column that is made of its result.
    return asked.asNondeterministic()


def _answered(terms: Terms, columns: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """A column comes as it is, several in a tuple."""
    first = next(columns, None)
    if first is None:
        return
    if isinstance(first, tuple):
        terms = dataclasses.replace(terms, key=(1,), keys_differ=True)
    batches = (
        pa.record_batch(list(each), names=["body", "key"][: len(each)])
        if isinstance(each, tuple)
        else pa.record_batch([each], names=["body"])
        for each in chain([first], columns)
    )
    yield from answered(terms, batches)
