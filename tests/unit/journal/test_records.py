"""Rows become records and columns, and say the same as when they are worked out one by one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.conftest import HEAD, NOW_NS, NOW_US, OK, Row, frame, tail, task

from famulus.journal import packing_python, records, schema
from famulus.journal.arrow import schema_of
from famulus.journal.columns import Columns, Stack, unpacked
from famulus.journal.records import LETTERS, BatchWriter
from famulus.wire.rows import LAYOUTS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["", "echo", "www.mydomain.com", "größe", "a b"])
INSTANTS = st.integers(NOW_NS - 10**12, NOW_NS)

message_ids = st.one_of(
    st.integers(0, (1 << 48) - 1).map(lambda number: HEAD + b'%012x"' % number),
    st.text(min_size=1, max_size=20).map(lambda text: json.dumps(text).encode()),
    st.just(HEAD + b'00000000000G"'),
)
tails = st.one_of(
    st.just(OK),
    st.sampled_from([tail("ERROR", "ValueError: no"), tail("REJECTED", "overload: full"), tail("UNKNOWN", "expired")]),
)
rows_of_tasks = st.lists(
    st.builds(
        task,
        number=st.integers(0, (1 << 62) - 1),
        ended_ns=INSTANTS,
        message_id=message_ids,
        attempt=st.integers(0, 1000),
        service=NAMES.filter(bool).map(str.encode),
        worker=NAMES.map(str.encode),
        client=st.binary(min_size=1, max_size=5),
        at_least_once=st.booleans(),
        priority=st.integers(0, 9),
        assigned=st.one_of(st.just(0), INSTANTS),
        delegated_to=NAMES.map(str.encode),
        tail=tails,
        response_bytes=st.integers(0, 1 << 40),
    ),
    min_size=1,
    max_size=30,
)


def plainly(row: Row) -> dict[str, Any]:
    """One row of tasks, worked out by itself."""
    values: dict[str, Any] = dict(zip([name for name, _ in LAYOUTS["tasks"]], row, strict=True))
    ended = json.loads(b"{" + values.pop("tail")[1:])

    def instant(at_ns: int) -> datetime | None:
        return EPOCH + timedelta(microseconds=NOW_US + (at_ns - NOW_NS) // 1000) if at_ns else None

    arrived, assigned, ended_ns = values["arrived"], values["assigned"], values["ended"]
    return {
        "broker": "ann",
        "boot": "b007",
        "family": "main",
        "ticket": int.from_bytes(values["ticket"], "big") & (1 << 63) - 1,
        "message_id": json.loads(values["message_id"]),
        "attempt": values["attempt"],
        "service": values["service"].decode(),
        "worker": values["worker"].decode() or None,
        "at_most_once": not values["at_least_once"],
        "priority": values["priority"],
        "arrived": instant(arrived),
        "assigned": instant(assigned),
        "delegated_from": None,
        "delegated_to": values["delegated_to"].decode() or None,
        "outcome": ended["outcome"],
        "reason": ended["reason"].partition(":")[0] if "reason" in ended else None,
        "ended": instant(ended_ns),
        "queue_ns": max(0, (assigned or ended_ns) - arrived),
        "service_ns": max(0, ended_ns - assigned) if assigned else None,
        "total_ns": max(0, ended_ns - arrived),
        "request_bytes": values["request_bytes"],
        "response_bytes": values["response_bytes"],
        "config_version": 3,
        "row": None,
    }


@given(st.lists(rows_of_tasks, min_size=1, max_size=3))
def test_columns_say_what_the_rows_said(batches: list[list[Row]]) -> None:
    pen = BatchWriter("dispatcher", "b007", HEAD)
    stack = Stack("tasks", "ann", "b007", "main")
    for rows in batches:
        batch = records.read(frame(pen, {"tasks": rows}))
        columns = unpacked(batch, "tasks")
        assert columns is not None
        stack.add(batch, columns, len(rows), 3)
    table = stack.take()
    assert table.column_names == schema_of("tasks").names
    assert table.cast(schema_of("tasks")).schema == schema_of("tasks")
    found = table.to_pylist()
    clients = [row.pop("client") for row in found]
    assert found == [plainly(row) for rows in batches for row in rows]
    raw = [row[5] for rows in batches for row in rows]
    assert len(set(clients)) == len(set(raw)) == len(set(zip(clients, raw, strict=True)))


@pytest.mark.parametrize("second", ["echo", "other"])
def test_batches_with_one_service_each_keep_their_own(second: str) -> None:
    """The codes are the same in both; what they stand for need not be."""
    pen = BatchWriter("dispatcher", "b007", HEAD)
    stack = Stack("tasks", "ann", "b007", "main")
    for number, service in enumerate(["echo", second]):
        batch = records.read(frame(pen, {"tasks": [task(number, service=service.encode())]}))
        columns = unpacked(batch, "tasks")
        assert columns is not None
        stack.add(batch, columns, 1, 0)
    assert stack.take().column("service").to_pylist() == ["echo", second]


def test_records_that_are_laid_out_in_another_way_are_not_read() -> None:
    whole = msgspec.msgpack.decode(frame(BatchWriter("dispatcher", "b007", HEAD), {"tasks": [task(1)]}))
    with pytest.raises(msgspec.DecodeError, match="another way"):
        records.read(msgspec.msgpack.encode([1, *whole[1:]]))
    with pytest.raises(msgspec.DecodeError):
        records.read(msgspec.msgpack.encode(whole[1:]))


@given(rows_of_tasks)
def test_both_packers_write_the_same(rows: list[Row]) -> None:
    native = pytest.importorskip("famulus.journal._packing")
    results = []
    for kind in (native.Packer, packing_python.Packer):
        codes: dict[bytes, int] = {}
        ids: list[bytes] = []
        packer = kind(LETTERS["tasks"], codes, HEAD, ids)
        for row in rows:
            packer.add(*row)
        assert packer.rows == len(rows)
        results.append((packer.take(), list(codes.items()), ids))
        assert packer.rows == 0
        assert packer.take() == []
    assert results[0] == results[1]


def test_both_packers_know_the_same_ids_for_their_own() -> None:
    """Eight digits are read at once by the native one: so each byte is tried at each place."""
    native = pytest.importorskip("famulus.journal._packing")
    ids = [HEAD + b"0123456789ab"[:place] + bytes([byte]) + b"0123456789ab"[place + 1 :] + b'"'
           for place in range(12) for byte in range(256)]  # fmt: skip
    taken = []
    for kind in (native.Packer, packing_python.Packer):
        foreign: list[bytes] = []
        packer = kind("m", {}, HEAD, foreign)
        for message_id in ids:
            packer.add(message_id)
        taken.append((packer.take(), foreign))
    assert taken[0] == taken[1]
    assert len(taken[0][1]) == 12 * (256 - 16)


@pytest.mark.parametrize("kind", [packing_python.Packer, records.Packer])
def test_columns_stay_whole_however_many_rows_there_are(kind: type[packing_python.Packer]) -> None:
    packer = kind("iq", {}, b"", [])
    for count in (1000, 1001):
        for number in range(count):
            packer.add(number, -number)
        numbers, negative = range(count), [-number for number in range(count)]
        assert packer.take() == [struct.pack(f"<{count}i", *numbers), struct.pack(f"<{count}q", *negative)]


@pytest.mark.parametrize("kind", [packing_python.Packer, records.Packer])
def test_a_row_that_does_not_fit_is_not_there(kind: type[packing_python.Packer]) -> None:
    packer = kind("iq", {}, b"", [])
    packer.add(1, 2)
    with pytest.raises((TypeError, OverflowError)):
        packer.add(1 << 31, 2)
    with pytest.raises((TypeError, OverflowError)):
        packer.add(1)
    packer.add(3, -4)
    assert packer.rows == 2
    assert packer.take() == [struct.pack("<2i", 1, 3), struct.pack("<2q", 2, -4)]


@pytest.mark.parametrize("kind", [packing_python.Packer, records.Packer])
def test_a_row_that_does_not_fit_leaves_no_code_behind(kind: type[packing_python.Packer]) -> None:
    codes: dict[bytes, int] = {}
    packer = kind("si", codes, b"", [])
    text = b"echo"
    with pytest.raises(OverflowError):
        packer.add(text, 1 << 31)
    codes.clear()  # as there are no rows to be taken
    packer.add(b"other", 1)
    packer.add(text, 2)
    assert packer.take() == [struct.pack("<2i", 1, 2), struct.pack("<2i", 1, 2)]
    assert codes == {b"other": 1, text: 2}


@pytest.mark.parametrize("kind", [packing_python.Packer, records.Packer])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_what_is_the_same_in_all_rows_is_one_number(kind: type[packing_python.Packer], count: int) -> None:
    codes: dict[bytes, int] = {}
    packer = kind("siqn", codes, b"", [])
    others = (7, 1 << 40, b"\0" * 7 + b"\1")
    for _ in range(count):
        packer.add(bytes(bytearray(b"echo")), *others)  # another object each time
    assert packer.take() == [1, 7, 1 << 40, struct.pack("<q", 1) * count]
    codes.clear()
    for _ in range(count):
        packer.add(b"echo", *others)
    packer.add(b"other", *others)
    texts = struct.pack(f"<{count + 1}i", *[1] * count, 2)
    assert packer.take() == [texts, 7, 1 << 40, struct.pack("<q", 1) * (count + 1)]


@pytest.mark.parametrize("kind", [packing_python.Packer, records.Packer])
def test_a_row_that_does_not_fit_changes_nothing_of_the_others(kind: type[packing_python.Packer]) -> None:
    packer = kind("sii", {}, b"", [])
    for rows in (1, 3):
        for _ in range(rows):
            packer.add(b"echo", 5, 6)
        with pytest.raises(OverflowError):
            packer.add(b"other", 6, 1 << 31)
        packer.add(b"echo", 5, 6)
        assert packer.rows == rows + 1
        taken = packer.take()
        assert taken[2] == 6
        for column, value in ((0, 1), (1, 5)):
            assert taken[column] in (value, struct.pack(f"<{rows + 1}i", *[value] * (rows + 1)))


VALUES = {
    "q": st.sampled_from([0, -1, NOW_NS, NOW_NS - 10**9]),
    "i": st.sampled_from([-1, 0, 1, 7]),
    "n": st.binary(min_size=8, max_size=8),
    "s": st.sampled_from([b"", b"echo", b"other", OK]),
    "m": message_ids,
}


#: Made once: whatever is made anew for each draw is checked anew, too.
BATCHES = {
    table: st.lists(
        st.lists(st.tuples(*[VALUES[letter] for letter in LETTERS[table]]), min_size=1, max_size=3),
        min_size=1,
        max_size=3,
    )
    for table in LAYOUTS
}


@pytest.mark.parametrize("table", LAYOUTS)
@given(st.data())
def test_one_number_for_all_rows_says_what_many_would(table: str, data: st.DataObject) -> None:
    batches = data.draw(BATCHES[table])
    pen, stacks = BatchWriter("dispatcher", "b007", HEAD), [Stack(table, "ann", "b007", "main") for _ in range(2)]
    for rows in batches:
        batch = records.read(frame(pen, {table: rows}))
        columns = unpacked(batch, table)
        assert columns is not None
        letters = dict(LAYOUTS[table])
        spelled: Columns = {
            name: np.full(len(rows), values, "<i4" if letters.get(name, "q") in "is" else "<i8")
            if isinstance(values, int)
            else values
            for name, values in columns.items()
        }
        for stack, given_columns in zip(stacks, (columns, spelled), strict=True):
            stack.add(batch, given_columns, len(rows), 3)
    first, second = (stack.take().cast(schema_of(table)) for stack in stacks)
    assert first.to_pylist() == second.to_pylist()


def with_all(letter: str, value: object) -> Callable[[int, list[Any]], object]:
    def spoil(rows: int, columns: list[Any]) -> object:
        letters = LETTERS["tasks"]
        return rows, [value if each == letter else column for column, each in zip(columns, letters, strict=True)]

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows, columns: (0, columns),
        lambda rows, columns: (rows + 1, columns),
        lambda rows, columns: (1 << 40, columns),
        lambda rows, columns: (rows, columns[:-1]),
        with_all("i", 1 << 40),
        with_all("s", 99),
        with_all("s", -1),
        with_all("s", b"\xff" * 8),
    ],
)
def test_records_that_make_no_sense_are_left_alone(spoil: Callable[[int, list[Any]], object]) -> None:
    whole = msgspec.msgpack.decode(frame(BatchWriter("dispatcher", "b007", HEAD), {"tasks": [task(1), task(2)]}))
    whole[7]["tasks"] = spoil(*whole[7]["tasks"])
    assert unpacked(records.read(msgspec.msgpack.encode(whole)), "tasks") is None


def test_columns_do_not_hold_on_to_the_frame() -> None:
    """It may have many rows of other tables, which are written long before."""
    batch = records.read(frame(BatchWriter("dispatcher", "b007", HEAD), {"tasks": [task(1), task(2)]}))
    columns = unpacked(batch, "tasks")
    assert columns is not None
    arrays = [values for values in columns.values() if not isinstance(values, int)]
    assert arrays
    assert all(array.flags.owndata for array in arrays)


def test_each_batch_can_be_read_without_any_other() -> None:
    pen = BatchWriter("dispatcher", "b007", HEAD)
    frame(pen, {"tasks": [task(1), task(2)]})
    batch = records.read(frame(pen, {"tasks": [task(3)], "open_tasks": []}))
    assert b"echo" in batch.texts
    assert batch.told == {"tasks": 2}
    assert list(batch.tables) == ["tasks"]


def test_a_name_that_is_no_text_is_shown_all_the_same() -> None:
    pen = BatchWriter("dispatcher", "b007", HEAD)
    batch = records.read(frame(pen, {"workers": [(NOW_NS, b"\xff\x00peer", b"error_listed", b"", 0, -1, b"")]}))
    stack = Stack("workers", "ann", "b007", "main")
    columns = unpacked(batch, "workers")
    assert columns is not None
    stack.add(batch, columns, 1, 0)
    (row,) = stack.take().to_pylist()
    assert row["worker"].endswith("peer")
    assert (row["services"], row["tasks"], row["reason"]) == ("", None, None)


@pytest.mark.parametrize("table", schema.TABLES)
def test_every_column_comes_from_somewhere(table: str) -> None:
    made = {"broker", "boot", "family", "at_most_once", "outcome", "reason", "config_version", "row"}
    made |= {"queue_ns", "service_ns", "total_ns"}
    told = {name for name, _ in LAYOUTS[table]}
    assert {column.name for column in schema.TABLES[table]} - told <= made
