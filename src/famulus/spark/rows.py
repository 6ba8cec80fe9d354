"""Tasks as the rows of a table, and the rows of a result as answers. Knows Arrow, and no job of Spark."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.errors import SettingsError, SparkError
from famulus.spark.codecs import Codec
from famulus.wire import reasons
from famulus.worker.calls import PlainError
from famulus.worker.task import Task

#: What there is to know of a task besides its body.
HEADER: Final = pa.schema(
    [
        ("headers", pa.map_(pa.string(), pa.string())),
        ("attempt", pa.int32()),
        ("deadline", pa.timestamp("us", tz="UTC")),
    ]
)
ID, BODY, ANSWER, ERROR = "message_id", "body", "answer", "error"
#: Of the bodies of one job. What is more goes into the next one.
BYTES_MAX: Final = 64 * 1024 * 1024

NO_ROW: Final = reasons.reason(reasons.NO_ROW, "the result of the job has no row for this task")
SEVERAL_ROWS: Final = reasons.reason(reasons.SEVERAL_ROWS, "the result of the job has more than one row for this task")


def parts_of(tasks: Sequence[Task], bytes_max: int = BYTES_MAX) -> Iterator[Sequence[Task]]:
    """In their order, at least one each."""
    begin, held = 0, 0
    for place, task in enumerate(tasks):
        held += len(task.body)
        if held > bytes_max and place > begin:
            yield tasks[begin:place]
            begin, held = place, len(task.body)
    if begin < len(tasks):
        yield tasks[begin:]


Outcome: TypeAlias = bytes | PlainError | None


@dataclass(frozen=True, slots=True)
class Form:
    """What bodies and answers are: bytes as they are, or columns."""

    takes: Codec | None = None
    returns: Codec | None = None

    def __post_init__(self) -> None:
        for name, codec, taken in (("takes", self.takes, {ID, *HEADER.names}), ("returns", self.returns, {ID, ERROR})):
            if codec is not None and (ours := sorted(taken & {*codec.schema.names})):
                raise SettingsError(f"{name}: {', '.join(ours)} is a column of ours; call it otherwise")

    def wanted_of(self, names: Sequence[str]) -> list[str]:
        """The columns of a result that count. Raises a SparkError if it lacks one."""
        needed = [ID, *self._answer_names]
        missing = [name for name in needed if name not in names]
        if ID in missing or (missing and ERROR not in names):
            has = ", ".join(names) or "no columns"
            raise SparkError(f"the result needs the columns {', '.join(needed)}, or {ERROR}, and has {has}")
        return [ID, *([] if missing else needed[1:]), *([ERROR] if ERROR in names else [])]

    @property
    def _answer_names(self) -> list[str]:
        return [ANSWER] if self.returns is None else list(self.returns.schema.names)

    def read(self, tasks: Sequence[Task]) -> tuple[pa.Table, dict[str, PlainError]]:
        """A row for each message_id, and what is wrong with those that have none, by their message_ids.

        Whoever sent one twice wants the same answer twice.
        """
        own = list({task.message_id: task for task in tasks}.values())
        bodies, bad = self._columns([task.body for task in own])
        table = pa.table([_texts([task.message_id for task in own]), *bodies.columns, *_header_columns(own)],
                         [ID, *bodies.schema.names, *HEADER.names])  # fmt: skip
        if not bad:
            return table, {}
        errors = {own[place].message_id: PlainError(reasons.reason(reasons.BAD_ARGUMENTS, f"the body {said}"))
                  for place, said in bad.items()}  # fmt: skip
        return table.filter(pa.array([place not in bad for place in range(len(own))])), errors

    def _columns(self, bodies: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        if self.takes is None:
            return pa.record_batch([pa.array(bodies, pa.binary())], [BODY]), {}
        return self.takes.decode_each(bodies)

    def answers(self, tasks: Sequence[Task], result: pa.Table, known: dict[str, PlainError]) -> list[Outcome]:
        """For each task what became of it, whatever rows there are: those of nobody do not count."""
        places = {message_id: place for place, message_id in enumerate({task.message_id: None for task in tasks})}
        found = pc.index_in(result[ID].cast(pa.string()), value_set=_texts(list(places))).fill_null(-1).to_numpy()
        rows = np.flatnonzero(found >= 0)
        counts = np.bincount(found[rows], minlength=len(places))
        row_of = np.zeros(len(places), dtype=np.int64)
        row_of[found[rows]] = rows
        given = self._given(result)
        answers = [
            given[row_of[place]] if seen == 1 else PlainError(SEVERAL_ROWS if seen else NO_ROW)
            for place, seen in enumerate(counts.tolist())
        ]
        return [known.get(task.message_id, answers[places[task.message_id]]) for task in tasks]

    def _given(self, result: pa.Table) -> list[Outcome]:
        """What each row says. An error counts more than an answer."""
        answers: list[Outcome] = [None] * result.num_rows
        if all(name in result.column_names for name in self._answer_names) and result.num_rows:
            answers = self._bodies(result.select(self._answer_names))
        errors = result[ERROR].cast(pa.string()) if ERROR in result.column_names else None
        if errors is not None and errors.null_count < len(errors):
            for row, error in enumerate(errors.to_pylist()):
                if error is not None:
                    answers[row] = PlainError(error or "the job says that it failed, and not why")
        return answers

    def _bodies(self, columns: pa.Table) -> list[Outcome]:
        if self.returns is None:
            bodies: list[Outcome] = columns[ANSWER].cast(pa.binary()).to_pylist()
            return bodies
        (rows,) = columns.cast(self.returns.schema).combine_chunks().to_batches()
        return list(self.returns.encode_each(rows))


def _texts(values: list[str]) -> pa.Array:
    return pa.array(values, pa.string())


def _header_columns(tasks: Sequence[Task]) -> Iterator[pa.Array]:
    since_s = time.time() - time.monotonic()
    yield pa.array([list(task.headers.items()) for task in tasks], HEADER.field("headers").type)
    yield pa.array([task.attempt for task in tasks], HEADER.field("attempt").type)
    yield pa.array(
        [None if math.isinf(task.deadline) else int((since_s + task.deadline) * 1e6) for task in tasks],
        HEADER.field("deadline").type,
    )
