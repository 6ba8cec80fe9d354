"""The journal agrees with what clients were told, whatever dies: each task has one row that ends it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import partial
from typing import Any

import pytest

from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.lab.sim.scenarios import ONE_BROKER
from famulus.lab.sim.tasks import broker
from famulus.wire.rows import LAYOUTS, TABLES, Row

FINAL = {"OK", "ERROR", "REJECTED", "UNKNOWN"}


class Rows:
    """What a dispatcher tells its journal, as dicts."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.task = partial(self._take, "tasks")
        self.open_task = partial(self._take, "open_tasks")

    def note(self, row: Row) -> None:
        self._take(TABLES[type(row)], *row)

    def _take(self, table: str, *values: object) -> None:
        names = [name for name, _ in LAYOUTS[table]]
        self.tables[table].append(dict(zip(names, values, strict=True)))


def outcome_of(row: dict[str, Any]) -> str:
    return str(json.loads(b"{" + row["tail"][1:])["outcome"])


class Watched(broker.Broker):
    """The broker of a world, with a journal for each of its lives, and an ear at the clients' door."""

    lives_rows: list[Rows]
    told: list[tuple[int, bytes, str]]

    def new_dispatcher(self, settled_at_ns: int, **parts: Any) -> Dispatcher:
        if not hasattr(self, "lives_rows"):
            self.lives_rows, self.told = [], []
        self.lives_rows.append(Rows())
        return super().new_dispatcher(settled_at_ns, journal=self.lives_rows[-1], **parts)

    def run(self, now_ns: int) -> None:
        super().run(now_ns)
        list(self.core.checkpoint(self.core.work()))

    def send(self, door: str, outgoing: list[list[bytes]]) -> list[list[bytes]]:
        if door == "client":
            for message in outgoing:
                header = json.loads(message[2])
                if header["request"] == "TASK" and "message_id" in header:
                    told = (len(self.lives_rows), json.dumps(header["message_id"]).encode(), header["outcome"])
                    self.told.append(told)
        return super().send(door, outgoing)


@pytest.mark.parametrize("seed", range(15))
def test_each_task_has_one_row_that_ends_it_and_it_is_what_the_client_heard(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("famulus.lab.sim.tasks.workload.Broker", Watched)
    workload = ONE_BROKER.start(seed)
    (broker,) = workload.brokers.values()
    assert isinstance(broker, Watched)
    result = workload.run()
    assert not result.what
    ended: dict[tuple[int, bytes], str] = {}
    for life, rows in enumerate(broker.lives_rows, 1):
        for row in rows.tables["tasks"]:
            if (outcome := outcome_of(row)) in FINAL:
                key = (life, row["message_id"])
                may_run_again = ended.get(key) == "UNKNOWN" and row["at_least_once"]
                assert may_run_again or ended.get(key) in (None, "REJECTED"), "it is not to be tried again"
                ended[key] = outcome
                assert row["arrived"] <= (row["assigned"] or row["ended"]) <= row["ended"]
                assert outcome != "OK" or row["worker"]
                assert outcome != "REJECTED" or row["attempt"] == 0
            else:
                assert outcome in {"RETRY", "LATE"}
    heard = {(life, message_id): outcome for life, message_id, outcome in broker.told}
    assert heard == ended
    assert result.tasks


@pytest.mark.parametrize("seed", range(15))
def test_tickets_are_unique_and_open_tasks_are_noted_once_in_each_state(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("famulus.lab.sim.tasks.workload.Broker", Watched)
    workload = ONE_BROKER.start(seed)
    (broker,) = workload.brokers.values()
    assert isinstance(broker, Watched)
    assert not workload.run().what
    for rows in broker.lives_rows:
        tasks = [row for row in rows.tables["tasks"] if outcome_of(row) != "LATE"]
        assert max(Counter(row["ticket"] for row in tasks).values(), default=1) == 1
        noted = Counter(
            (row["message_id"], row["attempt"], row["state"], row["ticket"]) for row in rows.tables["open_tasks"]
        )
        assert all(count == 1 for (*_, ticket), count in noted.items() if ticket)
        open_at_the_end = {row["message_id"] for row in rows.tables["open_tasks"]} - {
            row["message_id"] for row in tasks
        }
        assert rows is not broker.lives_rows[-1] or not open_at_the_end, "only a crash leaves tasks without an end"


def test_workers_come_and_go_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("famulus.lab.sim.tasks.workload.Broker", Watched)
    events: Counter[bytes] = Counter()
    for seed in range(8):
        workload = ONE_BROKER.start(seed)
        assert not workload.run().what
        (broker,) = workload.brokers.values()
        assert isinstance(broker, Watched)
        for rows in broker.lives_rows:
            connected: Counter[bytes] = Counter()
            for row in rows.tables["workers"]:
                events[row["event"]] += 1
                if row["event"] in (b"connect", b"lost", b"disconnected"):
                    connected[row["worker"]] += 1 if row["event"] == b"connect" else -1
                    assert connected[row["worker"]] in (0, 1)
    assert events.keys() >= {b"connect", b"ready", b"lost"}
