"""Tasks as rows, and rows as answers: each task has exactly one, whatever rows there are. No Spark."""

from __future__ import annotations

import math
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.errors import SettingsError, SparkError
from famulus.spark.batch_job import reason_of
from famulus.spark.codecs import codec
from famulus.spark.rows import HEADER, NO_ROW, SEVERAL_ROWS, Form, parts_of
from famulus.worker.calls import PlainError
from famulus.worker.task import Task


def task(message_id: str, body: bytes = b"x", deadline: float = math.inf, **headers: str) -> Task:
    return Task(message_id, "score", 1, deadline, {"headers": headers}, body)


def told(answers: list[Any]) -> list[Any]:
    return [str(each) if isinstance(each, PlainError) else each for each in answers]


def result(*rows: tuple[str | None, object, str | None]) -> pa.Table:
    ids, answers, errors = ([row[place] for row in rows] for place in range(3))
    return pa.table(
        {"message_id": pa.array(ids, pa.string()), "answer": answers, "error": pa.array(errors, pa.string())}
    )


def answers_of(tasks: list[Task], rows: pa.Table) -> list[Any]:
    return list(Form().answers(tasks, rows, {}))


def table_of(tasks: list[Task]) -> pa.Table:
    table, bad = Form().read(tasks)
    assert not bad
    return table


ABC = [task("a"), task("b"), task("c")]


def test_each_answer_goes_to_the_task_of_its_row() -> None:
    answers = answers_of(ABC, result(("c", b"3", None), ("a", b"1", None), ("b", None, "no_model: none for b")))
    assert told(answers) == [b"1", "no_model: none for b", b"3"]


def test_no_row_and_two_rows_are_errors_and_rows_of_nobody_do_not_count() -> None:
    rows = result(("a", "x", None), ("b", "y", None), ("b", "y", None), ("z", "?", None), (None, "?", None))
    assert told(answers_of(ABC, rows)) == [b"x", SEVERAL_ROWS, NO_ROW]
    assert told(answers_of(ABC, result())) == [NO_ROW] * 3


def test_a_row_without_an_answer_is_an_empty_one() -> None:
    assert answers_of([task("a")], pa.table({"message_id": ["a"], "error": pa.nulls(1, pa.string())})) == [None]
    # And an error without words is still one.
    assert isinstance(answers_of([task("a")], result(("a", b"1", "")))[0], PlainError)


def test_a_message_id_that_comes_twice_has_one_row_and_the_same_answer() -> None:
    twice = [task("a"), task("b"), task("a")]
    assert table_of(twice)["message_id"].to_pylist() == ["a", "b"]
    assert told(answers_of(twice, result(("a", b"1", None), ("b", b"2", None)))) == [b"1", b"2", b"1"]


@given(st.lists(st.sampled_from("abcdexy"), max_size=12), st.lists(st.sampled_from("abcde"), min_size=1, max_size=8))
def test_whatever_rows_there_are(rows: list[str], ids: list[str]) -> None:
    answers = told(answers_of([task(each) for each in ids], result(*((each, each.encode(), None) for each in rows))))
    counted = {each: rows.count(each) for each in ids}
    assert answers == [{0: NO_ROW, 1: each.encode()}.get(counted[each], SEVERAL_ROWS) for each in ids]


def test_a_task_as_a_row() -> None:
    in_a_minute = time.monotonic() + 60
    table = table_of([task("a", b"\x00\xff", in_a_minute, customer="7"), task("b")])
    assert table.schema.names == ["message_id", "body", *HEADER.names]
    first, second = table.to_pylist()
    assert (first["message_id"], first["body"], first["headers"], first["attempt"]) == (
        "a", b"\x00\xff", [("customer", "7")], 1,
    )  # fmt: skip
    assert first["deadline"].timestamp() == pytest.approx(time.time() + 60, abs=5)
    assert second["headers"] == []
    assert second["deadline"] is None


def test_large_bodies_are_several_jobs() -> None:
    tasks = [task(str(number), bytes(size)) for number, size in enumerate((20, 4, 4, 4, 20, 1))]
    parts = [[each.message_id for each in part] for part in parts_of(tasks, bytes_max=10)]
    assert parts == [["0"], ["1", "2"], ["3"], ["4"], ["5"]]


def test_columns_that_have_to_be_there() -> None:
    assert Form().wanted_of(["error", "more", "message_id"]) == ["message_id", "error"]
    assert Form().wanted_of(["answer", "message_id"]) == ["message_id", "answer"]
    for names in (["message_id"], ["answer"], []):
        with pytest.raises(SparkError, match="message_id, answer"):
            Form().wanted_of(names)


POINT = codec("json", pa.schema({"a": pa.float64(), "b": pa.float64()}))
SCORE = codec("json", pa.schema({"score": pa.float64(), "label": pa.string()}))


def test_bodies_and_answers_with_columns() -> None:
    form = Form(POINT, SCORE)
    tasks = [task("a", b'{"a": 1, "b": 2.5}'), task("b", b'{"a": "one"}'), task("c", b'{"b": 3}'), task("d", b"?")]
    rows, known = form.read(tasks)
    assert [(row["message_id"], row["a"], row["b"]) for row in rows.to_pylist()] == [("a", 1, 2.5), ("c", None, 3)]
    result = pa.table({"message_id": ["c", "a"], "score": [3, None], "label": ["x", "y"], "more": [1, 2]})
    wanted = result.select(form.wanted_of(result.column_names))
    answers = told(form.answers(tasks, wanted, known))
    assert [answers[0], answers[2]] == [b'{"score":null,"label":"y"}', b'{"score":3.0,"label":"x"}']
    assert answers[1].startswith("bad_arguments: the body ")
    assert answers[3].startswith("bad_arguments: the body ")


def test_columns_have_names_of_their_own() -> None:
    with pytest.raises(SettingsError, match="takes: attempt is a column of ours"):
        Form(takes=codec("json", pa.schema({"attempt": pa.int64()})))
    with pytest.raises(SettingsError, match="returns: error is a column of ours"):
        Form(returns=codec("json", pa.schema({"error": pa.string()})))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\n1/0", "ValueError: Division by zero."),
        ("", "ValueError"),
        (
            'Job aborted\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    raise KeyError(1)\n'
            "KeyError: 'no such model'\n\n\tat org.apache.spark.Thing",
            "KeyError: 'no such model'",
        ),
    ],
)
def test_a_failure_in_one_line(said: str, reason: str) -> None:
    assert reason_of(ValueError(said)) == reason
