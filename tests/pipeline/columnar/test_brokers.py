"""What brokers told, summed by columns: compared with sums over one row after the other."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from famulus.journal import arrow
from famulus.pipeline.columnar import brokers

HOUR_S = 500_000 * 3600
Row = dict[str, Any]


def told(seed: int) -> list[Row]:
    dice = random.Random(seed)
    return [_row(dice) for _ in range(400)]


def _row(dice: random.Random) -> Row:
    broker = dice.choice(["b1", "b2"])
    event = dice.choice(["load"] * 8 + ["objective", "stop", "process_died"])
    row = {
        "at": (HOUR_S + dice.choice([*range(50, 120), 3599, 3600])) * 1_000_000 + dice.randrange(1_000_000),
        "broker": broker,
        "boot": f"{broker}-{dice.randrange(2)}",
        "family": {"b1": "main", "b2": "other"}[broker],
        "event": event,
    }
    if event == "load":
        row |= {name: dice.choice([None, 0, 0, 1, 5]) for name in ("slots_free", "slots_busy", "backlog")}
    if event in ("load", "objective"):
        row["service"] = dice.choice(["echo", "echo", "other", None])
    if event == "objective":
        row["detail"] = dice.choice([None, "null", '{"share":0.9}'])
    if event == "process_died":
        row["process"] = dice.choice(["dispatcher", "router-1"])
    return row


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, brokers.EVENTS).cast(
        pa.schema([field.with_type(_read_as(field)) for field in brokers.EVENTS])
    )


def _read_as(field: pa.Field) -> pa.DataType:
    """Texts come from the journal as dictionaries."""
    return pa.dictionary(pa.int32(), pa.string()) if field.type == pa.string() else field.type


def listed(found: pa.Table) -> list[Row]:
    plain = {name: found[name] for name in found.column_names}
    for name, column in plain.items():
        if pa.types.is_timestamp(column.type):
            plain[name] = column.cast(pa.int64())
    return sorted(pa.table(plain).to_pylist(), key=repr)


def load(row: Row) -> tuple[int, int, int]:
    free, busy, backlog = (row.get(name) or 0 for name in ("slots_free", "slots_busy", "backlog"))
    return free + busy, busy, backlog


def is_saturated(row: Row) -> bool:
    return not row.get("slots_free") and (row.get("backlog") or 0) > 0


@pytest.mark.parametrize("seed", range(5))
def test_the_load_of_each_service(seed: int) -> None:
    groups = defaultdict(list)
    for row in told(seed):
        if row["event"] in ("load", "objective") and row["service"] is not None:
            groups[row["at"] // 3_600_000_000, row["service"], row["family"], row["broker"]].append(row)
    expected = []
    for (hour, service, family, broker), rows in groups.items():
        loads = [load(row) for row in rows]
        said = [(row["at"], row["detail"] or "") for row in rows if row["event"] == "objective"]
        last, detail = max(said, default=(None, None))
        expected.append(
            {
                "hour": hour % 24, "service": service, "family": family, "broker": broker,
                "samples": sum(row["event"] == "load" for row in rows),
                "slots_sum": sum(slots for slots, _, _ in loads), "busy_sum": sum(busy for _, busy, _ in loads),
                "backlog_sum": sum(backlog for *_, backlog in loads),
                "slots_max": max(slots for slots, _, _ in loads), "backlog_max": max(backlog for *_, backlog in loads),
                "saturated_s": sum(map(is_saturated, rows)), "objective": detail, "objective_told": last,
            }
        )  # fmt: skip
    found = brokers.of_services(table_of(told(seed)))
    assert set(found["date"].cast(pa.int32()).to_pylist()) == {HOUR_S // 86400}
    assert listed(found.drop_columns("date")) == sorted(expected, key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_the_load_of_each_broker(seed: int) -> None:
    seconds = defaultdict(list)
    for row in told(seed):
        if row["event"] == "load":
            seconds[row["at"] // 1_000_000, row["broker"], row["family"]].append(row)
    minutes = defaultdict(list)
    for (second, broker, family), rows in seconds.items():
        sums = [sum(each) for each in zip(*map(load, rows), strict=True)]
        minutes[second // 60 * 60_000_000, broker, family].append((*sums, any(map(is_saturated, rows))))
    expected = []
    for (minute, broker, family), samples in minutes.items():
        slots, busy, backlog, saturated = zip(*samples, strict=True)
        expected.append(
            {
                "minute": minute, "broker": broker, "family": family, "load_samples": len(samples),
                "slots_sum": sum(slots), "busy_sum": sum(busy), "backlog_sum": sum(backlog),
                "backlog_max": max(backlog), "saturated_s": sum(saturated),
            }
        )  # fmt: skip
    assert listed(brokers.of_loads(table_of(told(seed)))) == sorted(expected, key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_the_last_sign_of_each_life(seed: int) -> None:
    lives = defaultdict(list)
    for row in told(seed):
        lives[row["at"] // 3_600_000_000, row["broker"], row["boot"]].append(row)
    expected = [
        {
            "broker": broker,
            "boot": boot,
            "at": max(row["at"] for row in rows),
            "ended": any(row["event"] == "stop" or row.get("process") == "dispatcher" for row in rows),
        }
        for (_, broker, boot), rows in lives.items()
    ]
    assert listed(brokers.of_signs(table_of(told(seed)))) == sorted(expected, key=repr)


def test_no_rows() -> None:
    none = table_of([])
    for of in (brokers.of_services, brokers.of_loads, brokers.of_signs, brokers.events):
        assert of(none).num_rows == 0


def test_events_have_all_columns() -> None:
    rows = told(1)
    found = brokers.events(table_of(rows))
    assert found.column_names == arrow.schema_of("brokers").names
    assert found.num_rows == sum(row["event"] != "load" for row in rows) > 0
