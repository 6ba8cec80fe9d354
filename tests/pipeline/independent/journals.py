"""Journals at random: from any hour on, short and long, small and large, with truths planted in them or not.

Synthetic journals have no task that was refused, no overload, no peer that was lost, and no rows with numbers; and not
many who may not come in: `disturb` adds some of each, and a case for every rule of the audit.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from famulus.journal import arrow, files
from famulus.journal.schema import TIME_COLUMN
from famulus.lab.synth import TRUTHS, Plan

Row = dict[str, Any]


def plan_of(seed: int, *, tasks_max: int = 12_000, hours_max: int = 30) -> Plan:
    chance = random.Random(f"plan {seed}")
    hours = round(hours_max ** chance.random())
    truths = chance.choice((frozenset(TRUTHS), frozenset(), frozenset(chance.sample(sorted(TRUTHS), 5))))
    return Plan(
        tasks=max(100, round(tasks_max ** chance.uniform(0.6, 1.0))),
        hours=hours,
        start=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=chance.randrange(365 * 24)),
        seed=seed,
        brokers=chance.randint(2, 4),
        services=chance.randint(2, 5),
        workers=chance.randint(8, 30),
        truths=truths,
        load_every_s=60 if hours > 6 else 20,
    )


def disturb(journal: Path, plan: Plan) -> None:
    for table, rows in _Disturbance(journal, plan).rows.items():
        _write(journal, table, rows)


def _write(journal: Path, table: str, rows: list[Row]) -> None:
    """Each hour of each life of a broker gets one file more."""
    lots: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        at_us = int(row[TIME_COLUMN[table]].timestamp() * 1_000_000)
        lots.setdefault((*files.hour_of(at_us), row["broker"], row["boot"]), []).append(row)
    for (date, hour, broker, boot), lot in sorted(lots.items()):
        known = [file for path in (journal / table).rglob("*.parquet")
                 if (file := files.parse(str(path.relative_to(journal)))) is not None
                 and (file.broker, file.boot) == (broker, boot)]  # fmt: skip
        number = max((file.last for file in known), default=0) + 1
        path = journal / files.JournalFile(table, date, hour, broker, boot, number, number).path
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(lot, arrow.schema_of(table)), path)


class _Disturbance:
    """Rows that fit the brokers, services and workers that the journal has."""

    def __init__(self, journal: Path, plan: Plan) -> None:
        self._chance = random.Random(f"disturb {plan.seed}")
        self._plan = plan
        self._count = 0
        told = [row for path in sorted((journal / "brokers").rglob("*.parquet")) for row in _starts(path)]
        self._boots = sorted(told, key=lambda row: row["at"])
        workers = [
            pq.read_table(path, partitioning=None).to_pylist() for path in (journal / "workers").rglob("*.parquet")
        ]
        self._workers = sorted({(row["broker"], row["worker"], row["services"]) for rows in workers for row in rows})
        self.rows: dict[str, list[Row]] = {
            name: [] for name in ("tasks", "workers", "brokers", "peers", "config", "access")
        }
        for _ in range(self._chance.randint(20, 60)):
            self._chance.choice((self._refused, self._retried, self._expired, self._handed_over))()
        for _ in range(self._chance.randint(2, 8)):
            self._chance.choice((self._overload, self._broker, self._peer, self._worker, self._edit, self._objective))()
        for _ in range(self._chance.randint(6, 20)):
            self._chance.choice((self._twice, self._odd, self._half, self._ran, self._given_up, self._gap))()
        for _ in range(self._chance.randint(0, 20)):
            self._chance.choice((self._turned_away, self._principal))()
        for number in range(self._chance.randint(1, 4)):
            self._numbered(f"numbered-{number}")

    def _where(self) -> tuple[Row, datetime]:
        """A life of a broker, and an instant within it."""
        minutes = self._plan.hours * 60
        at = self._plan.start + timedelta(minutes=self._chance.randrange(1, minutes - 1),
                                          microseconds=self._chance.randrange(60_000_000))  # fmt: skip
        broker = self._chance.choice(sorted({row["broker"] for row in self._boots}))
        lives = [row for row in self._boots if row["broker"] == broker]
        life = ([row for row in lives if row["at"] <= at] or lives[:1])[-1]
        return {name: life[name] for name in ("broker", "boot", "family")}, at

    def _task(self, where: Row, ended: datetime, **more: Any) -> Row:
        self._count += 1
        took = timedelta(microseconds=self._chance.randrange(1_000, 2_000_000))
        waited = self._chance.choice((timedelta(0), took / 3))
        known = [each for each in self._workers if each[0] == where["broker"]] or self._workers
        _, worker, service = self._chance.choice(known)
        row = {
            "ticket": (1 << 61) + self._count, "message_id": f"disturbed-{self._plan.seed}-{self._count}", "attempt": 1,
            "service": service, "worker": worker, "client": "c", "at_most_once": False, "priority": 4,
            "arrived": ended - took, "assigned": ended - took + waited, "ended": ended, "outcome": "OK",
            "queue_ns": round(waited.total_seconds() * 1e9), "service_ns": round((took - waited).total_seconds() * 1e9),
            "total_ns": round(took.total_seconds() * 1e9), "request_bytes": 7, "response_bytes": 9, "config_version": 3,
        }  # fmt: skip
        row = {**where, **row, **more}
        self.rows["tasks"].append(row)
        return row

    def _refused(self) -> None:
        where, at = self._where()
        reason = self._chance.choice(("overload", "no_worker", "no_service", "expired"))
        self._task(where, at, outcome="REJECTED", reason=reason, worker=None, assigned=None, service_ns=None, attempt=0)

    def _retried(self) -> None:
        where, at = self._where()
        first = self._task(where, at, outcome="RETRY", reason=self._chance.choice(("worker_lost", "not_connected")))
        self._task(where, at + timedelta(seconds=1), attempt=2, message_id=first["message_id"],
                   service=first["service"], arrived=first["arrived"],
                   outcome=self._chance.choice(("OK", "ERROR")))  # fmt: skip

    def _expired(self) -> None:
        where, at = self._where()
        first = self._task(where, at, outcome="UNKNOWN", reason=self._chance.choice(("expired", "worker_lost")))
        if self._chance.random() < 0.5:
            late = {**first, "outcome": "LATE", "reason": None, "ended": at + timedelta(seconds=2)}
            self.rows["tasks"].append(late | {"total_ns": first["total_ns"] + 2 * 10**9})

    def _handed_over(self) -> None:
        where, at = self._where()
        others = [row for row in self._boots if row["broker"] != where["broker"] and row["at"] < at]
        if not others:
            return
        other = {name: others[-1][name] for name in ("broker", "boot", "family")}
        there = self._task(other, at, delegated_from=where["broker"])
        self._task(where, at + timedelta(milliseconds=1), delegated_to=other["broker"], worker=None,
                   message_id=there["message_id"], service=there["service"],
                   arrived=there["arrived"] - timedelta(milliseconds=1))  # fmt: skip

    def _twice(self) -> None:
        """The same row, or a ticket, or an outcome; sometimes since its client asked again."""
        where, at = self._where()
        what = self._chance.choice(("row", "ticket", "outcome", "run"))
        if what == "row":
            self.rows["tasks"].append(self._chance.choice(self.rows["tasks"]))
            return
        first = self._task(where, at, at_most_once=what == "run")
        later = at + timedelta(seconds=self._chance.choice((0, 1, 3000)))
        if what == "ticket":
            self._task(where, later, ticket=first["ticket"])
            return
        arrived = self._chance.choice((first["arrived"], at + timedelta(microseconds=1)))
        self._task(where, later, message_id=first["message_id"], service=first["service"], arrived=arrived,
                   at_most_once=first["at_most_once"])  # fmt: skip

    def _odd(self) -> None:
        where, at = self._where()
        self._task(where, at, **self._chance.choice((
            {"outcome": "MAYBE"}, {"total_ns": -5}, {"service_ns": -1}, {"arrived": at + timedelta(seconds=1)},
            {"assigned": at - timedelta(hours=1)},
        )))  # fmt: skip

    def _half(self) -> None:
        where, at = self._where()
        other = self._chance.choice([row["broker"] for row in self._boots if row["broker"] != where["broker"]])
        way = self._chance.choice(({"delegated_to": other, "worker": None}, {"delegated_from": other}))
        self._task(where, at, **way)

    def _ran(self) -> None:
        """A worker had it, and its broker says REJECTED."""
        where, at = self._where()
        first = self._task(where, at, outcome="RETRY", reason=self._chance.choice(("worker_lost", "not_connected")))
        self._task(where, at + timedelta(seconds=1), message_id=first["message_id"], service=first["service"],
                   arrived=first["arrived"], outcome="REJECTED", reason="no_worker", worker=None, assigned=None,
                   service_ns=None)  # fmt: skip

    def _given_up(self) -> None:
        where, at = self._where()
        self._task(where, at, outcome="RETRY", reason="worker_lost")

    def _gap(self) -> None:
        where, at = self._where()
        size = self._chance.choice((1, 2, 40))
        self.rows["brokers"].append({**where, "at": at, "event": "gap", "table": "tasks", "rows": size, "detail": "d"})

    def _numbered(self, broker: str) -> None:
        """Lives of one more broker, whose rows have numbers; some are missing, with a gap that says so or without."""
        chance = self._chance
        begin = self._plan.start + timedelta(seconds=chance.randrange(self._plan.hours * 3600))
        for life in range(chance.randint(1, 3)):
            where = {"broker": broker, "boot": f"{broker}-{life}", "family": self._boots[0]["family"]}
            self.rows["brokers"].append({**where, "at": begin, "event": "start"})
            seconds = sorted(chance.uniform(0, chance.choice((60, 7200))) for _ in range(chance.randint(1, 60)))
            ends = [begin + timedelta(microseconds=round(second * 1e6)) for second in seconds]
            hours = [end.replace(minute=0, second=0, microsecond=0) for end in ends]
            gone = {row for row in range(len(ends)) if chance.random() < chance.choice((0, 0.1))}
            if chance.random() < 0.4:
                gone |= {row for row, hour in enumerate(hours) if hour == chance.choice(hours)}
            _, worker, service = chance.choice(self._workers)
            for row, end in enumerate(ends):
                if row not in gone:
                    self._task(where | {"row": row + 1}, end, worker=worker, service=service)
            for hour in sorted(set(hours)):
                if chance.random() < 0.7:
                    last = max(row for row, own in enumerate(hours) if own == hour) + 1
                    at = hour + timedelta(hours=1, microseconds=-1)
                    self.rows["brokers"].append({**where, "at": at, "event": "told", "table": "tasks", "rows": last})
            if gone and chance.random() < 0.5:
                self.rows["brokers"].append({**where, "at": ends[max(gone)], "event": "gap", "table": "tasks",
                                             "rows": chance.randint(1, len(gone)), "detail": "d"})  # fmt: skip
            begin = ends[-1] + timedelta(seconds=chance.choice((0.3, 20, 4000)))
            died = {"event": "process_died", "process": "dispatcher", "detail": "signal 9"}
            over = chance.choice((died, {"event": "stop"}, None))
            if over is not None:
                self.rows["brokers"].append({**where, "at": begin, **over})
                begin += timedelta(seconds=1)
            elif chance.random() < 0.5:
                seen_by = {name: self._boots[0][name] for name in ("broker", "boot", "family")}
                self.rows["peers"].append({**seen_by, "at": begin, "peer": broker, "event": "lost"})

    def _overload(self) -> None:
        where, at = self._where()
        service = self._chance.choice([each[2] for each in self._workers])
        on = {**where, "at": at, "event": "overload_on", "service": service}
        self.rows["brokers"].append(on)
        if self._chance.random() < 0.7:
            off = at + timedelta(seconds=self._chance.randrange(1, 400))
            self.rows["brokers"].append(on | {"at": off, "event": "overload_off"})

    def _objective(self) -> None:
        where, at = self._where()
        service = self._chance.choice([each[2] for each in self._workers])
        said = {"share": self._chance.choice((0.5, 0.9, 0.99)), "within_ms": self._chance.choice((None, 5, 300, 1000)),
                "days": self._chance.choice((1, 30))}  # fmt: skip
        detail = self._chance.choice((json.dumps(said), json.dumps(said), "null"))
        self.rows["brokers"].append({**where, "at": at, "event": "objective", "service": service, "detail": detail})

    def _broker(self) -> None:
        where, at = self._where()
        self.rows["brokers"].append({**where, "at": at} | self._chance.choice((
            {"event": "process_died", "process": "router-1", "detail": "signal 9"},
            {"event": "gap", "table": "workers", "rows": 11, "detail": "the disk was full"},
            {"event": "state", "state": "draining"},
        )))  # fmt: skip

    def _peer(self) -> None:
        where, at = self._where()
        lost = self._chance.choice([row["broker"] for row in self._boots if row["broker"] != where["broker"]])
        told = {**where, "at": at, "peer": lost}
        self.rows["peers"] += [{**told, "event": "lost"}, {**told, "event": "heard", "at": at + timedelta(seconds=5)}]

    def _worker(self) -> None:
        where, at = self._where()
        _, worker, service = self._chance.choice([each for each in self._workers if each[0] == where["broker"]])
        event = self._chance.choice(("lost", "error_listed", "disconnected"))
        services = self._chance.choice((service, f"zebra\n{service}"))
        tasks = self._chance.choice((None, 3))
        self.rows["workers"].append({**where, "at": at, "worker": worker, "event": event, "services": services,
                                     "slots": 2, "tasks": tasks})  # fmt: skip

    def _edit(self) -> None:
        """One that comes late to some and never to others."""
        where, at = self._where()
        about = {"edit": f"{self._chance.getrandbits(128):032x}", "key": "service/zebra", "author": "ann",
                 "accepted_by": where["broker"], "edited": at, "version": 9, "digest": "d"}  # fmt: skip
        self.rows["config"].append({**where, **about, "at": at, "event": "accepted"})
        for life in self._boots:
            if life["broker"] != where["broker"] and life["at"] < at and self._chance.random() < 0.7:
                had = at + timedelta(milliseconds=self._chance.choice((-3, 200, 200_000)))
                own = {name: life[name] for name in ("broker", "boot", "family")}
                self.rows["config"].append({**own, **about, "at": had, "event": "applied"})

    def _turned_away(self) -> None:
        where, at = self._where()
        chance = self._chance
        who = chance.choice((
            {"principal": chance.choice(("shop", "eve"))}, {"key": "ab" * 32, "address": "192.0.2.1"},
            {"address": chance.choice(("192.0.2.1", "192.0.2.2", "*"))}, {},
        ))  # fmt: skip
        self.rows["access"].append({
            **where, **who, "at": at, "port": chance.choice(("frontend", "peer")),
            "wanted": chance.choice(("connect", "call")), "why": chance.choice(("not_allowed", "overload", "no_key")),
            "service": chance.choice((None, "zebra")), "times": chance.choice((1, 60, 100)),
        })  # fmt: skip

    def _principal(self) -> None:
        """Edits of two principals; at one time, or one after the other."""
        where, at = self._where()
        edited = self._chance.choice((at, self._plan.start))
        end = self._plan.start + timedelta(hours=self._plan.hours)
        expires = self._chance.choice((None, end - timedelta(days=2), end - timedelta(minutes=100),
                                       end + timedelta(days=3), end + timedelta(days=40)))  # fmt: skip
        self.rows["config"].append({
            **where, "at": at, "event": self._chance.choice(("accepted", "applied", "expires", "conflict")),
            "edit": f"{self._chance.getrandbits(128):032x}", "key": f"principal/p{self._chance.randint(1, 2)}",
            "author": "ann", "accepted_by": where["broker"], "edited": edited, "version": 9, "digest": "d",
            "expires": expires,
        })  # fmt: skip


def _starts(path: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(path, partitioning=None).to_pylist()
    return [row for row in rows if row["event"] == "start"]
