"""One record batch of rows, cut into tasks, and what became of each of them. Asks nobody itself."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from famulus.errors import AskFailed
from famulus.spark.codecs import BadBody, Codec
from famulus.spark.task_ids import TaskIds, row_names
from famulus.spark.terms import OUTCOME_COLUMNS, Terms
from famulus.wire import limits, reasons

#: The answer came, and is no answer to what was asked.
BAD_ANSWER: Final = "bad_answer"


class AskedBatch:
    def __init__(self, rows: pa.RecordBatch, terms: Terms, codec: Codec, ids: TaskIds) -> None:
        self._rows = rows
        self._terms = terms
        size = self._size = terms.rows_per_task
        starts = range(0, rows.num_rows, size)
        count = self.tasks = len(starts)
        body = body_of(rows, terms)
        #: None where there is none; and each until its task has ended.
        self.bodies: list[bytes | None]
        if size == 1:
            self.bodies = list(codec.encode_each(body))
        else:
            self.bodies = [codec.encode(body.slice(start, size)) for start in starts]
        #: Empty where the broker makes them; None where a key is null.
        self.ids: list[str | None] = [""] * count
        if terms.key:
            names = row_names([rows.column(place) for place in terms.key])
            if size == 1:
                self.ids = ids.of_rows(names)
            else:
                self.ids = [ids.of_all(names.slice(start, size)) for start in starts]
        #: When each was first asked for, and how often it has rested since.
        self.asked_ns = [0] * count
        self.tries = [0] * count
        #: How many have not ended yet.
        self.open = count
        self._answers: list[bytes | None] = [None] * count
        #: The outcomes and reasons of those that did not end as OK.
        self._failed: dict[int, tuple[str, str]] = {}
        self._took_ms = [0] * count

    def refuse(self, place: int) -> None:
        """It cannot be asked for."""
        body = self.bodies[place]
        if body is None:
            reason = reasons.reason(reasons.BAD_ARGUMENTS, "the body is null")
        elif self.ids[place] is None:
            reason = reasons.reason(reasons.BAD_ARGUMENTS, "the key is null")
        else:
            sentence = f"a body has at most {limits.BODY_BYTES_MAX} bytes, and this one has {len(body)}"
            reason = reasons.reason(reasons.TOO_LARGE, sentence)
        self._check("REJECTED", reason, place)
        self.fail(place, self.asked_ns[place], "REJECTED", reason)

    def fail(self, place: int, now_ns: int, outcome: str, reason: str, message_id: str = "") -> int:
        self._failed[place] = outcome, reason
        return self.end(place, now_ns, None, message_id)

    def end(self, place: int, now_ns: int, answer: bytes | None, message_id: str = "") -> int:
        """It has its outcome. Returns how many bytes its body had."""
        self._answers[place] = answer
        self._took_ms[place] = (now_ns - self.asked_ns[place]) // 1_000_000
        if message_id:
            self.ids[place] = message_id
        body, self.bodies[place] = self.bodies[place], None
        self.open -= 1
        return len(body or b"")

    def answered(self, codec: Codec) -> pa.RecordBatch:
        """The rows with their answers, once all have ended."""
        answers = self._read_each(codec) if self._size == 1 else self._read_many(codec)
        outcomes: list[pa.Array] = [
            _column(self.tasks, "OK", {place: outcome for place, (outcome, _) in self._failed.items()}),
            _column(self.tasks, None, {place: reason for place, (_, reason) in self._failed.items()}),
            pa.array([each or None for each in self.ids], pa.string()),
            pa.array(self._took_ms, pa.int64()),
        ]
        if self._size > 1:
            tasks = pa.array(np.arange(self._rows.num_rows, dtype=np.int32) // np.int32(self._size))
            outcomes = [column.take(tasks) for column in outcomes]
        kept = self._terms.kept
        fields = [*list(self._rows.schema)[:kept], *answers.schema, *OUTCOME_COLUMNS]
        return pa.record_batch([*self._rows.columns[:kept], *answers.columns, *outcomes], schema=pa.schema(fields))

    def _read_each(self, codec: Codec) -> pa.RecordBatch:
        answers, bad = codec.decode_each(self._answers)
        for place, what in bad.items():
            self._spoil(place, what)
        return answers

    def _read_many(self, codec: Codec) -> pa.RecordBatch:
        parts = []
        for place, answer in enumerate(self._answers):
            count = min(self._size, self._rows.num_rows - place * self._size)
            try:
                part = codec.nulls(count) if answer is None else codec.decode(answer)
                if part.num_rows != count:
                    raise BadBody(f"has {part.num_rows} rows for {count}")
            except BadBody as error:
                self._spoil(place, str(error))
                part = codec.nulls(count)
            parts.append(part)
        return codec.joined(parts)

    def _spoil(self, place: int, what: str) -> None:
        """It ended OK, with something that is no answer."""
        reason = reasons.reason(BAD_ANSWER, what)
        self._check("ERROR", reason, place)
        self._failed[place] = "ERROR", reason

    def _check(self, outcome: str, reason: str, place: int) -> None:
        if outcome in self._terms.fail_on:
            raise failed(self._terms, outcome, reason, self.ids[place])


def failed(terms: Terms, outcome: str, reason: str, message_id: str | None) -> AskFailed:
    return AskFailed(f"{terms.service}: {outcome}, {reason} (task {message_id or 'without a name'})")


def _column(count: int, usual: str | None, others: dict[int, str]) -> pa.Array:
    """The same text nearly everywhere."""
    if not others:
        return pa.repeat(pa.scalar(usual, pa.string()), count)
    return pa.array([others.get(place, usual) for place in range(count)], pa.string())


def body_of(rows: pa.RecordBatch, terms: Terms) -> pa.RecordBatch:
    """What the bodies are made of; in Arrow, the fields of a struct are columns."""
    body = rows.select(list(terms.body))
    if terms.codec == "arrow" and len(body.columns) == 1 and kinds.is_struct(body.schema.types[0]):
        return pa.RecordBatch.from_struct_array(body.column(0))
    return body
