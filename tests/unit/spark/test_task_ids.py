"""Ids that follow from the keys of rows."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from famulus.errors import SettingsError
from famulus.spark.task_ids import RUN_CHARS_MAX, TaskIds, check_key, row_names


def ids_of(*columns: pa.Array, run: str = "run", parts: tuple[str, ...] = ("service",)) -> list[str | None]:
    return TaskIds(run, *parts).of_rows(row_names(columns))


def test_the_same_key_is_the_same_id_and_names_the_run() -> None:
    first, second, again = ids_of(pa.array(["a", "b", "a"]))
    assert first == again != second
    assert first is not None
    assert first.startswith("run.")
    assert len("x" * RUN_CHARS_MAX + first.removeprefix("run")) == 128


def test_run_service_and_batch_tell_tasks_of_one_key_apart() -> None:
    key = pa.array([1])
    found = {
        ids_of(key, run=run, parts=parts)[0]
        for run in ("one", "two")
        for parts in (("a",), ("b",), ("a", "1"), ("a", "2"), ("a1", ""), ("", "a1"))
    }
    assert len(found) == 12


def test_several_columns_are_one_key_and_cannot_be_mixed_up() -> None:
    rows = [("a", "bc"), ("ab", "c"), ("a:2:b", "c"), ("", "abc"), ("a", "2:bc")]
    names = row_names([pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])])
    assert len(set(names.to_pylist())) == len(rows)
    assert ids_of(pa.array([1, None, 3]), pa.array([date(2026, 1, 1), date(2026, 1, 1), None]))[1:] == [None, None]


def test_the_type_of_a_column_does_not_matter_where_its_values_are_the_same() -> None:
    plain = ids_of(pa.array([7, None], pa.int64()))
    assert plain[1] is None
    assert ids_of(pa.array([7, None], pa.int16())) == plain
    assert ids_of(pa.array(["7", None], pa.large_string())) == plain
    assert ids_of(pa.array([b"7", None], pa.large_binary())) == plain


def test_a_task_of_many_rows_is_their_keys_in_this_order() -> None:
    ids = TaskIds("run", "service")
    names = row_names([pa.array(["a", "bc", "", "d", "a", "bc", ""])])
    whole = ids.of_all(names.slice(0, 3))
    # Wherever they are in a batch.
    assert ids.of_all(names.slice(4, 3)) == whole
    assert len({whole, ids.of_all(names.slice(0, 2)), ids.of_all(names.slice(1, 3)), ids.of_rows(names)[0]}) == 4
    assert ids.of_all(row_names([pa.array(["ab", "c", ""])])) != whole
    assert ids.of_all(row_names([pa.array(["a", None])])) is None
    assert ids.of_all(row_names([pa.array([""])])) is not None


def test_what_can_name_a_row() -> None:
    for kind in (pa.string(), pa.binary(), pa.int32(), pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128(9, 2)):
        check_key("id", kind)
    for kind in (pa.float64(), pa.list_(pa.int64()), pa.struct({"a": pa.int64()})):
        with pytest.raises(SettingsError, match="key: id is "):
            check_key("id", kind)
