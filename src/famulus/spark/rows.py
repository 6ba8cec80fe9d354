"""Tasks as the rows of a table, and the rows of a result as answers. Knows Arrow, and no Spark."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.errors import SparkError
from famulus.wire import reasons
from famulus.worker.calls import PlainError
from famulus.worker.task import Task

SCHEMA: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("body", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("attempt", pa.int32()),
        ("deadline", pa.timestamp("us", tz="UTC")),
    ]
)
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


def table_of(tasks: Sequence[Task]) -> pa.Table:
    """A row for each message_id: whoever sent one twice wants the same answer twice."""
    own = list({task.message_id: task for task in tasks}.values())
    clock_s = time.time() - time.monotonic()
    deadlines = [None if math.isinf(task.deadline) else int((clock_s + task.deadline) * 1e6) for task in own]
    columns = [
        [task.message_id for task in own],
        [task.body for task in own],
        [list(task.headers.items()) for task in own],
        [task.attempt for task in own],
        deadlines,
    ]
    return pa.table([pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def answers_of(tasks: Sequence[Task], result: pa.Table) -> list[bytes | PlainError | None]:
    """For each task its answer, whatever rows there are: those of nobody do not count."""
    places = {message_id: place for place, message_id in enumerate({task.message_id: None for task in tasks})}
    ids = pa.array(places, pa.string())
    found = pc.index_in(result["message_id"].cast(pa.string()), value_set=ids).fill_null(-1).to_numpy()
    rows = np.flatnonzero(found >= 0)
    counts = np.bincount(found[rows], minlength=len(places))
    row_of = np.zeros(len(places), dtype=np.int64)
    row_of[found[rows]] = rows
    given = _given(result)
    answers = [
        given[row_of[place]] if seen == 1 else PlainError(SEVERAL_ROWS if seen else NO_ROW)
        for place, seen in enumerate(counts.tolist())
    ]
    return [answers[places[task.message_id]] for task in tasks]


def _given(result: pa.Table) -> list[bytes | PlainError | None]:
    """What each row says. An error counts more than an answer."""
    names = result.column_names
    answers: list[bytes | PlainError | None] = [None] * result.num_rows
    if "answer" in names:
        answers = result["answer"].cast(pa.binary()).to_pylist()
    errors = result["error"].cast(pa.string()) if "error" in names else None
    if errors is not None and errors.null_count < len(errors):
        for row, error in enumerate(errors.to_pylist()):
            if error is not None:
                answers[row] = PlainError(error or "the job says that it failed, and not why")
    return answers


def check_columns(names: Sequence[str]) -> None:
    if "message_id" not in names or not {"answer", "error"} & set(names):
        has = ", ".join(names) or "no columns"
        raise SparkError(f"the result needs the columns message_id and answer, or error, and has {has}")
