"""`df.write.format("famulus")`: a sink whose rows are tasks of a service. What does not end as OK fails the job.

spark.dataSource.register(FamulusSink)
df.write.format("famulus").option("service", "index").option("key", "id").mode("append").save()
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from famulus.errors import AskFailed, SettingsError
from famulus.spark.codecs import CodecName
from famulus.spark.files import address_of, write_parquet
from famulus.spark.options import Chosen, Options, arrow_schema, terms_of
from famulus.spark.partition import answered
from famulus.spark.task_ids import check_key
from famulus.spark.terms import Terms

#: What `option` knows, and how each is read.
_NUMBERS: Final = {"timeout_s": float, "window": int, "priority": int}
_FLAGS: Final = ("at_least_once", "idempotent")
_TEXTS: Final = ("broker", "pass_file", "run")
_OWN: Final = ("service", "body", "key", "codec", "failures")


@dataclass
class Written(WriterCommitMessage):
    """What became of the rows of one partition."""

    outcomes: dict[str, int] = field(default_factory=dict)
    example: str = ""


class FamulusSink(DataSource):
    """Options: service; body and key, columns; failures, a folder for rows that do not end as OK; and as `ask` has
    them codec, timeout_s, window, priority, at_least_once, idempotent, broker, pass_file, run.
    """

    @classmethod
    def name(cls) -> str:
        return "famulus"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(self._sending(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return _StreamWriter(self._sending(schema, overwrite))

    def _sending(self, schema: StructType, overwrite: bool) -> _Sending:
        if overwrite:
            raise SettingsError('mode: what a service has done cannot be overwritten; use mode("append")')
        said = {name.lower(): value for name, value in self.options.items()}
        known = [*_OWN, *_NUMBERS, *_FLAGS, *_TEXTS]
        if unknown := sorted(set(said) - {*known, "path"}):
            raise SettingsError(f"option: there is no {', '.join(unknown)}; there are {', '.join(known)}")
        if "service" not in said:
            raise SettingsError('option: say which service, as in option("service", "index")')
        if said.get("codec", "bytes") not in get_args(CodecName):
            raise SettingsError(f"codec: must be one of {', '.join(get_args(CodecName))}, not {said['codec']!r}")
        terms = terms_of(
            "spark-sink",
            said["service"],
            _place(schema, said),
            codec_name=said.get("codec", "bytes"),  # type: ignore[arg-type]
            returns=None,
            rows_per_task=1,
            options=_options(said),
        )
        return _Sending(terms, address_of(said["failures"]) if "failures" in said else "")


def _options(said: Mapping[str, str]) -> Options:
    found: dict[str, Any] = {name: said[name] for name in _TEXTS if name in said}
    for name, read in _NUMBERS.items():
        if name in said:
            try:
                found[name] = read(said[name])
            except ValueError:
                raise SettingsError(f"{name}: must be a number, not {said[name]!r}") from None
    for name in _FLAGS:
        if said.get(name, "false").lower() not in ("true", "false"):
            raise SettingsError(f"{name}: must be true or false, not {said[name]!r}")
        found[name] = said.get(name, "false").lower() == "true"
    if "broker" in found:
        found["broker"] = [each.strip() for each in found["broker"].split(",")]
    return cast(Options, found)


def _place(schema: StructType, said: Mapping[str, str]) -> Chosen:
    """By default the body is the column of that name, or the only one besides the key."""
    names = schema.names
    keys = [each.strip() for each in said["key"].split(",")] if "key" in said else []
    others = [name for name in names if name not in keys]
    bodies = [each.strip() for each in said["body"].split(",")] if "body" in said else others
    if "body" not in said and len(others) != 1:
        raise SettingsError(f'body: say which of the columns {", ".join(names)} it is, as in option("body", "text")')
    for what, wanted in (("body", bodies), ("key", keys)):
        if missing := [name for name in wanted if name not in names]:
            raise SettingsError(f"{what}: there is no column {', '.join(missing)}, only {', '.join(names)}")
    body = tuple(names.index(name) for name in bodies)
    key = tuple(names.index(name) for name in keys)
    found = arrow_schema(schema)
    for place in key:
        check_key(names[place], found.types[place])
    return Chosen(body, key, len(names), pa.schema([found.field(place) for place in body]))


class _Sending:
    """What both kinds of writers do."""

    def __init__(self, terms: Terms, failures: str) -> None:
        self._terms = terms
        self._failures = failures

    def write(self, rows: Iterable[pa.RecordBatch]) -> Written:
        written = Written()
        failed: list[pa.RecordBatch] = []
        for batch in answered(self._terms, rows):
            for each in pc.value_counts(batch.column("outcome")).to_pylist():
                written.outcomes[each["values"]] = written.outcomes.get(each["values"], 0) + each["counts"]
            not_ok = batch.filter(pc.not_equal(batch.column("outcome"), "OK"))
            if not_ok.num_rows:
                first = not_ok.slice(0, 1).to_pylist()[0]
                written.example = f"{first['outcome']}, {first['reason']} (task {first['message_id']})"
                if self._failures:
                    failed.append(not_ok.drop_columns(self._terms.answer_schema.names))
        if failed:
            write_parquet(self._failures, f"failures-{uuid.uuid4().hex}", pa.Table.from_batches(failed))
        return written

    def check(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Once all partitions have been written: fails the job if some rows were not done, and nobody keeps them."""
        total: dict[str, int] = {}
        example = ""
        for message in messages:
            if isinstance(message, Written):
                example = example or message.example
                for outcome, count in message.outcomes.items():
                    total[outcome] = total.get(outcome, 0) + count
        if example and not self._failures:
            told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(total.items()))
            raise AskFailed(f"{self._terms.service}: of {sum(total.values())} rows {told}; for example {example}")


class _Writer(DataSourceArrowWriter):
    def __init__(self, sending: _Sending) -> None:
        self._sending = sending

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._sending.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sending.check(messages)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, sending: _Sending) -> None:
        self._sending = sending

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._sending.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._sending.check(messages)
