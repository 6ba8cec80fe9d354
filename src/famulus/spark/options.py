"""What callers of `ask`, `asking` and the sink may say besides the columns, checked once, by the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, TypedDict

import pyarrow as pa

from famulus.client import rules
from famulus.client.own_headers import more_fields
from famulus.errors import SettingsError
from famulus.spark.clients import Contact
from famulus.spark.codecs import CodecName, codec
from famulus.spark.counts import AskCounts
from famulus.spark.run import new_run
from famulus.spark.terms import OUTCOME_COLUMNS, Terms
from famulus.wire.limits import PRIORITY_DEFAULT

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

ANSWER: Final = "answer"
#: A client has at most 100,000 open.
WINDOW_MAX: Final = 50_000
_OUTCOMES: Final = ("ERROR", "REJECTED", "UNKNOWN")


class Options(TypedDict, total=False):
    """What all ways to ask take."""

    timeout_s: float
    window: int
    priority: int
    at_least_once: bool
    idempotent: bool
    headers: Mapping[str, str] | None
    fail_on: Iterable[str]
    run: str | None
    counts: AskCounts | None
    broker: str | Sequence[str] | None
    pass_file: str | None
    token: str | None


@dataclass(frozen=True)
class Chosen:
    """Where in a batch the body and the key are, and how many columns are given back."""

    body: tuple[int, ...]
    key: tuple[int, ...]
    kept: int
    #: None if nobody knows it before there are rows.
    body_schema: pa.Schema | None
    keys_differ: bool = True


def terms_of(
    application: str,
    service: str,
    place: Chosen,
    *,
    codec_name: CodecName,
    returns: StructType | str | None,
    rows_per_task: int,
    options: Options,
) -> Terms:
    """Raises a SettingsError, ValueError or TypeError that names what is wrong."""
    timeout_ms = rules.timeout_ms(options.get("timeout_s", rules.DEFAULT_TIMEOUT_S))
    window, priority = options.get("window", 1000), options.get("priority", PRIORITY_DEFAULT)
    if not 1 <= window <= WINDOW_MAX:
        raise SettingsError(f"window: must be 1 to {WINDOW_MAX} tasks, not {window!r}")
    if rows_per_task < 1:
        raise SettingsError(f"rows_per_task: must be at least 1, not {rows_per_task!r}")
    rules.checked_service(service, priority, None)
    token = options.get("token")
    if token is not None:
        rules.checked_token(token)
    headers = dict(options.get("headers") or {})
    more_fields("", headers)
    twice = options.get("at_least_once", False), options.get("idempotent", False)
    if not place.key and not any(twice):
        raise SettingsError(
            "key: say which column names a row, so that a row which Spark computes twice is one task; or "
            "idempotent=True if running it twice does no harm"
        )
    answer_codec, answer_schema = _answers(codec_name, returns, rows_per_task)
    if place.body_schema is not None:
        codec(codec_name, place.body_schema)
    return Terms(
        service=service,
        contact=_contact(options),
        run=new_run(application, options.get("run"), token),
        body=place.body,
        key=place.key,
        kept=place.kept,
        codec=codec_name,
        answer_codec=answer_codec,
        answer_schema=answer_schema,
        keys_differ=place.keys_differ,
        rows_per_task=rows_per_task,
        timeout_ms=timeout_ms,
        window=window,
        priority=priority,
        at_least_once=twice[0],
        idempotent=twice[1],
        headers=tuple(headers.items()),
        fail_on=_fail_on(options.get("fail_on", ())),
        counts=options.get("counts"),
    )


def _answers(name: CodecName, returns: StructType | str | None, rows_per_task: int) -> tuple[CodecName, pa.Schema]:
    many = rows_per_task > 1
    if many and name == "bytes":
        raise SettingsError('codec: bytes are one row; for rows_per_task > 1 it must be "json" or "arrow"')
    if returns is not None:
        schema = arrow_schema(spark_schema(returns))
    elif name == "arrow" or many:
        raise SettingsError('returns: say which columns an answer has, such as returns="score double"')
    elif name == "json":
        # The text that came.
        name, schema = "bytes", pa.schema({ANSWER: pa.string()})
    else:
        schema = pa.schema({ANSWER: pa.binary()})
    if taken := sorted({*schema.names} & {*OUTCOME_COLUMNS.names}):
        raise SettingsError(f"returns: {', '.join(taken)} is a column of ours; call it otherwise")
    codec(name, schema)
    return name, schema


def spark_schema(said: StructType | str, whose: str = "returns") -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if isinstance(said, StructType):
        return said
    try:
        found = StructType.fromDDL(said)
    except PySparkException as error:
        raise SettingsError(f"{whose}: {said!r} is no schema ({str(error).strip().splitlines()[0]})") from None
    if not isinstance(found, StructType):
        raise SettingsError(f'{whose}: {said!r} has no names; say "answer {said}"')
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before 4.3 it was so without a word.
    utc = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    found: pa.Schema = to_arrow_schema(schema, **utc)  # type: ignore[arg-type]
    return found


def with_answers(fields: Sequence[StructField], terms: Terms) -> StructType:
    """These columns, and those of an answer and its outcome."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    # A time without a zone stays one.
    answer = from_arrow_schema(terms.answer_schema, prefer_timestamp_ntz=True)
    return StructType([*fields, *answer, *from_arrow_schema(OUTCOME_COLUMNS)])


def _contact(options: Mapping[str, Any]) -> Contact:
    broker = options.get("broker") or ()
    return Contact((broker,) if isinstance(broker, str) else tuple(broker), str(options.get("pass_file") or ""))


def _fail_on(said: Iterable[str]) -> frozenset[str]:
    found = frozenset([said] if isinstance(said, str) else said)
    if others := found - {*_OUTCOMES}:
        raise SettingsError(f"fail_on: knows {', '.join(_OUTCOMES)}, not {', '.join(sorted(others))}")
    return found
