"""What an executor needs to know to ask for rows: made by the driver, and sent along with each job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from famulus.spark.clients import Contact
from famulus.spark.codecs import CodecName
from famulus.spark.counts import AskCounts
from famulus.spark.run import AskingRun

#: What follows the columns of the answer.
OUTCOME_COLUMNS: Final = pa.schema(
    {"outcome": pa.string(), "reason": pa.string(), "message_id": pa.string(), "took_ms": pa.int64()}
)


@dataclass(frozen=True)
class Terms:
    service: str
    contact: Contact
    run: AskingRun
    #: Which columns of a batch are the body, and which of them together name the row, if any.
    body: tuple[int, ...]
    key: tuple[int, ...]
    #: The first columns of a batch: they are given back beside the answer.
    kept: int
    codec: CodecName
    #: That of answers: they may be read as text whatever they are.
    answer_codec: CodecName
    answer_schema: pa.Schema
    #: Whether two rows with one key are a mistake.
    keys_differ: bool
    rows_per_task: int
    timeout_ms: int
    window: int
    priority: int
    at_least_once: bool
    idempotent: bool
    headers: tuple[tuple[str, str], ...]
    fail_on: frozenset[str]
    counts: AskCounts | None
